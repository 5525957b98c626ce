"""The chat: one conversation with reminders, in a terminal or from a script."""
