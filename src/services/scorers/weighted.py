"""The built-in scorer, under the name that existing challenges call it by."""

from tallymark.scoring.weighted import WeightedScorer

__all__ = ["WeightedScorer"]
