"""Verdicts from models: the judge, its rubric and evidence, its answer, its cost."""
