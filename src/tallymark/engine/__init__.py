"""Where bulk work runs: this machine, or a Ray cluster."""
