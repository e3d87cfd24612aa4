"""Tallymark scores AI agents by your own idea of good."""
