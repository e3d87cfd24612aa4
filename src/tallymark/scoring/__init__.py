"""The contract of scoring: what a scorer sees, what it gives, and how it is named and combined."""

from tallymark.scoring.composite import composite
from tallymark.scoring.eval_context import Config, EvalContext, Expected
from tallymark.scoring.plugin_contract import (
    AttemptMetrics,
    ScorerProtocol,
    ScoringContext,
    ScoringResult,
    plugin_score,
)
from tallymark.scoring.score import Origin, Score
from tallymark.scoring.scorer import DataType, Scorer
from tallymark.scoring.scorer_decorator import ScorerBuilder, configurable, scorer
from tallymark.scoring.scorer_registry import Registry, default_registry, load_scorer
from tallymark.scoring.scorer_returns import to_score
from tallymark.scoring.weighted_scorer import WeightedScorer

__all__ = [
    "AttemptMetrics",
    "Config",
    "DataType",
    "EvalContext",
    "Expected",
    "Origin",
    "Registry",
    "Score",
    "Scorer",
    "ScorerBuilder",
    "ScorerProtocol",
    "ScoringContext",
    "ScoringResult",
    "WeightedScorer",
    "composite",
    "configurable",
    "default_registry",
    "load_scorer",
    "plugin_score",
    "scorer",
    "to_score",
]
