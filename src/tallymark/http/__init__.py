"""The API over HTTP: one file per resource. Handlers parse, call a service, and shape answers."""
