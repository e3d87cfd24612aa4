"""Checks: what is kept beside the log, compared with what the log comes to."""
