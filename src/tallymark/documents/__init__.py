"""YAML and JSON documents in which each value has its line and column, for messages."""
