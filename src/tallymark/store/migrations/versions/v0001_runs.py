"""Runs, their case results, variables and secrets: every database of ours has at least these."""

revision = "0001"
down_revision = None
