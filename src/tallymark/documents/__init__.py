"""YAML and JSON with places: each value knows its line and column, each mistake says where."""
