"""The Model Context Protocol: the tools for any agent, and a bridge that delivers what is due."""
