"""One scorer over a whole run."""

from __future__ import annotations

from collections import Counter

import msgspec

from tallymark.runs.statistics import Spread, estimate_clusters
from tallymark.scoring.score import Origin, Score


class ScorerSummary(msgspec.Struct, frozen=True):
    """What one scorer came to."""

    mean: float | None
    low: float | None
    high: float | None
    """The ends of the 95 % interval of the mean."""
    scored: int
    """Scores with a value or a label."""
    unscored: int
    """Scores that failed, and tests that never got as far as being scored."""
    labels: dict[str, int]
    first_error: str | None
    """Why the first of the unscored has no score."""
    origin: Origin | None
    """Where the scores came from; None when scorers of the same name differ."""


class ScorerTally:
    """Takes in a scorer's scores one by one."""

    __slots__ = (
        "_clusters",
        "_first_error",
        "_labels",
        "_origin",
        "_scored",
        "_spread",
        "unscored",
    )

    def __init__(self, origin: Origin | None) -> None:
        self._origin = origin
        self._scored = 0
        self.unscored = 0
        self._labels: Counter[str] = Counter()
        self._first_error: str | None = None
        self._spread = Spread()
        self._clusters: dict[str, list[float]] = {}

    def add(self, score: Score, cluster: str | None = None) -> None:
        """Take in one score; those of one cluster (a test's epochs) depend on each other."""
        if score.error is not None:
            self.miss(score.error)
            return
        self._scored += 1
        if score.label is not None:
            self._labels[score.label] += 1
        if score.value is None:
            return
        if cluster is None:
            self._spread.add(score.value)
        else:
            self._clusters.setdefault(cluster, []).append(score.value)

    def miss(self, error: str) -> None:
        """Take in that there is no score, and why."""
        self.unscored += 1
        if self._first_error is None:
            self._first_error = error

    def summary(self) -> ScorerSummary:
        """What the scores come to by now."""
        estimate = (
            estimate_clusters(self._clusters.values())
            if self._clusters
            else self._spread.estimate()
        )
        return ScorerSummary(
            estimate.mean,
            estimate.low,
            estimate.high,
            self._scored,
            self.unscored,
            dict(self._labels.most_common()),
            self._first_error,
            self._origin,
        )
