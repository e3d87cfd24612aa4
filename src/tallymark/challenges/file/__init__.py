"""`challenge.yaml`: reading a challenge's folder, or telling everything that is wrong with it."""

from tallymark.challenges.file.format import challenge_schema
from tallymark.challenges.file.loading import load_challenge, validate_challenge

__all__ = ["challenge_schema", "load_challenge", "validate_challenge"]
