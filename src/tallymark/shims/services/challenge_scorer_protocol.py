"""The types of scorer plugins, under the name that existing plugins import them by."""

from tallymark.scoring.plugin_contract import (
    AttemptMetrics,
    ScorerProtocol,
    ScoringContext,
    ScoringResult,
)

__all__ = ["AttemptMetrics", "ScorerProtocol", "ScoringContext", "ScoringResult"]
