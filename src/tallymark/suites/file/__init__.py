"""The YAML suite: reading it with positions, its definition, templates, datasets, JSON Schema."""
