"""Built-in trace scorers, one file each, and adapters for the scorers of other libraries."""
