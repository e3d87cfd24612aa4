"""HTML pages over the operations of the service."""
