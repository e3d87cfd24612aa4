"""Webhooks: who is told of what, what was sent to them, and how far the log has been told."""
