"""Means over traces with 95 % intervals, for values in clusters such as sessions.

Traces are often few and far from normal: `estimate_moments` handles that. Intervals of a run are in
`intervals`.
"""

from __future__ import annotations

import math

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


_Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


def student_t(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, by the expansion of Cornish and Fisher.

    Exact for one and two degrees of freedom; else within 0.2 % (Abramowitz and Stegun 26.7.5).
    """
    if degrees == 1:
        return math.tan(math.pi * 0.475)
    if degrees == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, n = _Z, degrees
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


class ClusterMoments(msgspec.Struct, frozen=True):
    """Sums over clusters that estimate a mean, as a database can compute them."""

    clusters: int = 0
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Moments of the clusters' sums."""
    crosses: float = 0.0
    """Sums of the clusters times their counts."""
    count_squares: float = 0.0
    least: float = 0.0
    """The smallest value."""
    most: float = math.inf
    """The largest."""

    @property
    def mean(self) -> float | None:
        """None where nothing was measured."""
        return self.total / self.count if self.count else None

    @property
    def worth(self) -> float:
        """Effective number of equal clusters (Kish 1965)."""
        return self.count**2 / self.count_squares if self.count_squares else 0.0

    @property
    def variance(self) -> float | None:
        """Cluster-robust variance of the mean (Miller 2024, "Adding Error Bars to Evals", 2.2).

        None with a single cluster.
        """
        if self.clusters < 2 or self.worth <= 1:
            return None
        mean = self.total / self.count
        squares = self.squares - 2 * mean * self.crosses + mean**2 * self.count_squares
        if squares <= _NO_SPREAD * max(self.squares, mean**2 * self.count_squares):
            return 0.0
        return squares / self.count**2 * self.worth / (self.worth - 1)


_NO_SPREAD = 1e-10
"""Remainder of a zero variance after rounding of sums."""


def estimate_moments(moments: ClusterMoments, *, amounts: bool = False) -> MeanEstimate:
    """Estimate a mean with its 95 % interval.

    `scripts/simulate_trace_intervals.py` measures its coverage.

    Values from 0 to 1 have the interval of shares; amounts, which are never negative and mostly
    have a long tail, that of ratios; others Student's. None with a single cluster, or if all
    unbounded values are equal, which says nothing about the next one.
    """
    mean, variance = moments.mean, moments.variance
    if mean is None or variance is None:
        return MeanEstimate(mean)
    t = student_t(max(1, round(moments.worth - 1)))
    if moments.least >= 0 and moments.most <= 1 and not amounts:
        return MeanEstimate(mean, *_find_share_ends(mean, variance, moments.worth, t))
    if not variance:
        return MeanEstimate(mean)
    reach = t * math.sqrt(variance)
    if amounts:
        # Misses are above: a few clusters have seldom seen the tail, by an error of this order.
        above = min(reach / mean * (1 + 1 / math.sqrt(moments.worth)), _MOST_EXPONENT)
        return MeanEstimate(mean, mean * math.exp(-reach / mean), mean * math.exp(above))
    return MeanEstimate(mean, mean - reach, mean + reach)


_MOST_EXPONENT = 300.0


def _find_share_ends(mean: float, variance: float, worth: float, t: float) -> tuple[float, float]:
    """Wilson's interval with the correction for continuity (Newcombe 1998), for as many values as
    would vary so much (Korn and Graubard 1998): for as many as there are clusters where all are
    alike, so it is never of no width.
    """
    size = mean * (1 - mean) / variance if variance and 0 < mean < 1 else worth
    n, z, p = max(1.0, size * (_Z / t) ** 2), _Z, mean
    middle, parts = 2 * n * p + z**2, 2 * (n + z**2)
    below = z * math.sqrt(max(0.0, z**2 - 2 - 1 / n + 4 * p * (n * (1 - p) + 1)))
    above = z * math.sqrt(max(0.0, z**2 + 2 - 1 / n + 4 * p * (n * (1 - p) - 1)))
    low, high = (middle - 1 - below) / parts, (middle + 1 + above) / parts
    return (0.0 if p <= 0 else min(p, max(0.0, low)), 1.0 if p >= 1 else max(p, min(1.0, high)))


def estimate_difference(first: MeanEstimate, second: MeanEstimate) -> MeanEstimate:
    """The second mean less the first, of samples that have nothing to do with each other.

    From the intervals of both (Zou and Donner 2008), so that it is as crooked as they are.
    """
    if first.mean is None or second.mean is None:
        return MeanEstimate()
    between = second.mean - first.mean
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return MeanEstimate(between)
    below = math.hypot(second.mean - second.low, first.high - first.mean)
    above = math.hypot(second.high - second.mean, first.mean - first.low)
    return MeanEstimate(between, between - below, between + above)
