"""What goes over HTTP: requests, answers and problems, as pydantic models."""
