"""Session stores: one file each; the protocol they share is `schedule_adapters.sessions`."""
