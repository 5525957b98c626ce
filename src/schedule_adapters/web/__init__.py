"""The web page: one conversation whose reminders can be seen, served from this machine."""
