"""The built-in scorer, under the name that existing challenges call it by."""

from tallymark.scoring.weighted_scorer import WeightedScorer

__all__ = ["WeightedScorer"]
