"""Weighted dimensions: a submission scored 0-1000 on each, summed, and a win, draw or loss."""

from tallymark.dimensions.breakdown import (
    SOLO_DRAW_THRESHOLD,
    SOLO_WIN_THRESHOLD,
    Breakdown,
    Part,
    Result,
    SubmissionWarning,
    breakdown,
    result_of,
)
from tallymark.dimensions.dimension import (
    CORE,
    EFFICIENCY,
    Dimension,
    WeightedDimension,
    dims,
)
from tallymark.dimensions.primitives import call_efficiency, speed, token_efficiency

__all__ = [
    "CORE",
    "EFFICIENCY",
    "SOLO_DRAW_THRESHOLD",
    "SOLO_WIN_THRESHOLD",
    "Breakdown",
    "Dimension",
    "Part",
    "Result",
    "SubmissionWarning",
    "WeightedDimension",
    "breakdown",
    "call_efficiency",
    "dims",
    "result_of",
    "speed",
    "token_efficiency",
]
