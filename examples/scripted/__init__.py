"""Models that say what a model would say, so that the quickstarts need no key."""
