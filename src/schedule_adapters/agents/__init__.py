"""Agent frameworks: one thin file each, each behind an extra of its own."""
