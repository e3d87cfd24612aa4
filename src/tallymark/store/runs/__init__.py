"""Runs and their case results in the database."""
