"""Small complete programs; the tests run them."""
