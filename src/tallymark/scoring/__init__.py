"""The contract of scoring: what a scorer sees, what it gives, and how it is named and combined."""

from tallymark.scoring.composite import composite
from tallymark.scoring.context import Config, EvalContext, Expected
from tallymark.scoring.decorator import ScorerBuilder, configurable, scorer
from tallymark.scoring.registry import Registry, default_registry, load_scorer
from tallymark.scoring.returns import to_score
from tallymark.scoring.score import Origin, Score
from tallymark.scoring.scorer import DataType, Scorer

__all__ = [
    "Config",
    "DataType",
    "EvalContext",
    "Expected",
    "Origin",
    "Registry",
    "Score",
    "Scorer",
    "ScorerBuilder",
    "composite",
    "configurable",
    "default_registry",
    "load_scorer",
    "scorer",
    "to_score",
]
