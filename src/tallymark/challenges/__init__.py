"""Challenges: what is asked, how attempts are judged and scored, and who stands where."""
