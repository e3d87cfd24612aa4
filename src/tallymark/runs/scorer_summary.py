"""One scorer over a whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.runs.statistics import estimate_clusters

if TYPE_CHECKING:
    from tallymark.runs.tally import Tally


class ScorerSummary(msgspec.Struct, frozen=True):
    """What one scorer came to."""

    mean: float | None
    low: float | None
    high: float | None
    """The ends of the 95 % interval of the mean."""
    scored: int
    """Scores with a value or a label."""
    unscored: int
    """Scores that failed."""
    labels: dict[str, int]
    first_error: str | None
    """Why the first of the unscored has no score."""


def summarise_scorer(tally: Tally, name: str) -> ScorerSummary:
    """The mean with its interval; the epochs of a case depend on each other."""
    counts = tally.scorers[name]
    scores = [each.scores[name] for each in tally.cases.values() if name in each.scores]
    estimate = estimate_clusters([(each.known, each.total) for each in scores])
    return ScorerSummary(
        estimate.mean,
        estimate.low,
        estimate.high,
        counts.scored,
        counts.unscored,
        dict(counts.labels.most_common()),
        counts.first_error,
    )
