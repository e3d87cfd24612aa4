"""The client written once, asynchronous; `make client` writes the other from it."""
