"""The client without waiting for others: written by `make client` from `client/aio/`."""
