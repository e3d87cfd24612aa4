"""Checks that compare derived data with the log."""
