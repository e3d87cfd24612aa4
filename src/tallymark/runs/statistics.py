"""Means with 95 % intervals, of values that come in clusters.

The standard error is the cluster-robust one of the mean (Miller 2024, "Adding Error Bars to
Evals", section 2.2) with the factor C / (C - 1) for C clusters; with one value a cluster it is
the usual one. The interval is mean ± t * error with C - 1 degrees of freedom, cut to [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec


class Interval(msgspec.Struct, frozen=True):
    """Between which values something lies with 95 % confidence."""

    low: float
    high: float


class NoInterval(msgspec.Struct, frozen=True):
    """Why there is none, in words."""

    reason: str


class MeanEstimate(msgspec.Struct, frozen=True):
    """A mean, and between which values it lies with 95 % confidence; None is not known."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None


def estimate_clusters(clusters: Iterable[tuple[int, float]]) -> MeanEstimate:
    """The estimate over clusters of values that belong together, such as a case's epochs.

    Of each cluster its count and its sum are enough.
    """
    filled = [(count, total) for count, total in clusters if count]
    # Lists, not generators: there may be a million clusters.
    count = sum([count for count, _ in filled])
    if not count:
        return MeanEstimate()
    mean = math.fsum([total for _, total in filled]) / count
    variance = None
    if len(filled) > 1:
        squares = math.fsum([(total - count * mean) ** 2 for count, total in filled])
        variance = squares / count**2 * len(filled) / (len(filled) - 1)
    return _make_estimate(mean, variance, len(filled))


def _make_estimate(mean: float, variance: float | None, clusters: int) -> MeanEstimate:
    if variance is None:
        return MeanEstimate(mean)
    reach = student_t(clusters - 1) * math.sqrt(variance)
    return MeanEstimate(mean, max(0.0, mean - reach), min(1.0, mean + reach))


def student_t(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, by the expansion of Cornish and Fisher.

    Exact for one and two degrees of freedom; else within 0.2 % (Abramowitz and Stegun 26.7.5).
    """
    if degrees == 1:
        return math.tan(math.pi * 0.475)
    if degrees == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, n = 1.959963984540054, degrees
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


class ClusterMoments(msgspec.Struct, frozen=True):
    """What a mean's estimate needs of its clusters, as a database can sum it up."""

    clusters: int = 0
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Of the clusters' sums."""
    crosses: float = 0.0
    """Sums of the clusters times their counts."""
    count_squares: float = 0.0

    @property
    def mean(self) -> float | None:
        """None where nothing was measured."""
        return self.total / self.count if self.count else None

    @property
    def variance(self) -> float | None:
        """Of the mean, as `estimate_clusters` has it; None where one cluster cannot tell."""
        if self.clusters < 2:
            return None
        mean = self.total / self.count
        squares = self.squares - 2 * mean * self.crosses + mean**2 * self.count_squares
        return max(0.0, squares) / self.count**2 * self.clusters / (self.clusters - 1)


def estimate_moments(moments: ClusterMoments, most: float = math.inf) -> MeanEstimate:
    """The estimate of `estimate_clusters` for values from 0 to any size.

    There is no interval where all are alike, which says nothing of the next one.
    """
    mean, variance = moments.mean, moments.variance
    if mean is None or variance is None or variance <= _NO_SPREAD * mean**2:
        return MeanEstimate(mean)
    reach = student_t(moments.clusters - 1) * math.sqrt(variance)
    return MeanEstimate(mean, max(0.0, mean - reach), min(most, mean + reach))


_NO_SPREAD = 1e-20
"""What is left of a variance of 0 after sums were rounded."""


def estimate_difference(first: ClusterMoments, second: ClusterMoments) -> MeanEstimate:
    """The second mean less the first, of samples that have nothing to do with each other.

    The degrees of freedom are those of Welch and Satterthwaite.
    """
    one, two = first.mean, second.mean
    if one is None or two is None:
        return MeanEstimate()
    parts = [(each.variance, each.clusters - 1) for each in (first, second)]
    known = [(variance, degrees) for variance, degrees in parts if variance is not None]
    spread = sum(variance for variance, _ in known)
    if len(known) < len(parts) or spread <= _NO_SPREAD * max(one**2, two**2):
        return MeanEstimate(two - one)
    degrees = spread**2 / sum(variance**2 / degrees for variance, degrees in known)
    reach = student_t(max(1, math.floor(degrees))) * math.sqrt(spread)
    return MeanEstimate(two - one, two - one - reach, two - one + reach)
