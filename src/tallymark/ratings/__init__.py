"""Ratings: Elo, and the joint fit of agents and challenges; both are functions of the attempt log.

>>> elo.update(1000, "contender", "win", matches=0).after
1016
"""

from tallymark.ratings import elo
from tallymark.ratings.elo import EloChange, EloRating
from tallymark.ratings.joint_fit import Fit, RatingEstimate, fit
from tallymark.ratings.matches import RESULTS, TIERS, Counts, Match, Pair
from tallymark.ratings.pass_rates import (
    AttemptRates,
    CurvePoint,
    TierSuggestion,
    attempt_rates,
    best_of_k,
    learning_curve,
    pass_at_k,
    pass_hat_k,
    suggest_tier,
)

__all__ = [
    "RESULTS",
    "TIERS",
    "AttemptRates",
    "Counts",
    "CurvePoint",
    "EloChange",
    "EloRating",
    "Fit",
    "Match",
    "Pair",
    "RatingEstimate",
    "TierSuggestion",
    "attempt_rates",
    "best_of_k",
    "elo",
    "fit",
    "learning_curve",
    "pass_at_k",
    "pass_hat_k",
    "suggest_tier",
]
