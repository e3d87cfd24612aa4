"""One scorer over a whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.runs.statistics import estimate_clusters

if TYPE_CHECKING:
    from tallymark.runs.statistics import MeanEstimate
    from tallymark.runs.tally import ScorerCounts, Tally


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


def summarise_scorers(tally: Tally) -> dict[str, ScorerSummary]:
    """Each with its mean and interval; the epochs of a case depend on each other."""
    return {
        name: _summarise(tally.scorers[name], estimate_clusters(clusters))
        for name, clusters in tally.clusters().items()
    }


def _summarise(counts: ScorerCounts, estimate: MeanEstimate) -> ScorerSummary:
    return ScorerSummary(
        estimate.mean,
        estimate.low,
        estimate.high,
        counts.scored,
        counts.unscored,
        dict(counts.labels.most_common()),
        counts.first_error,
    )
