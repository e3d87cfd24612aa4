"""Challenges, attempts, boards, ratings and rescorings in the database."""
