"""Our logs in the published original's hands, and its logs in ours: `make interop`."""
