"""One file for each page: what it shows, gathered as one value."""
