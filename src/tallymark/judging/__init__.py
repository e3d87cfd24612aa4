"""Asking a model for a verdict: the judge, what it is asked and shown, its answer, its cost."""
