"""The promised ratios, each from one run on one machine: `make bench`."""
