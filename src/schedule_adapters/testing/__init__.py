"""What authors of further adapters run against them."""
