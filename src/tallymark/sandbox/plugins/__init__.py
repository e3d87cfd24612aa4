"""Plugins in the sandbox: warm guests, a child for each call, answers that are only data."""
