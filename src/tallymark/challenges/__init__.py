"""Challenges: tasks, evaluation and scoring of attempts, leaderboard order."""
