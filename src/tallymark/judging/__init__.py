"""Asking a model for a verdict: rubrics, what the judge is shown, reaching it, its verdict."""
