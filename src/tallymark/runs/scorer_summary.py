"""One scorer over a whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.runs.statistics import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallymark.runs.statistics import NoInterval
    from tallymark.runs.tally import Amounts, ScorerCounts, Tally


class LabelAgreement(msgspec.Struct, frozen=True):
    """Labels against those that were expected; None where a share is of nothing."""

    accuracy: float
    precision: dict[str, float | None]
    """By label: of those that got it, the share that should have."""
    recall: dict[str, float | None]
    """By label: of those that should have got it, the share that did."""
    confusion: dict[str, dict[str, int]]
    """Counts by expected label, then by given label."""


class ScorerSummary(msgspec.Struct, frozen=True):
    """Summary of one scorer."""

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
    median: float | None = None
    p90: float | None = None
    """Nine of ten values are at most this."""
    passed: float | None = None
    """The share of the values that reach their threshold."""
    agreement: LabelAgreement | None = None
    """Confusion counts of labels, if the scores' metadata have the expected ones."""


def summarise_scorers(tally: Tally) -> dict[str, ScorerSummary]:
    """Each with its mean and the interval that a score of it has."""
    if not tally.scorers:
        return {}
    from tallymark.runs.intervals import scorer_intervals  # noqa: PLC0415 (numpy is heavy)

    measured, intervals = tally.all.scores, scorer_intervals(tally)
    return {
        name: _summarise(counts, measured.get(name), intervals[name])
        for name, counts in tally.scorers.items()
    }


def _summarise(
    counts: ScorerCounts, measured: Amounts | None, interval: Interval | NoInterval
) -> ScorerSummary:
    values = sorted(counts.values)
    return ScorerSummary(
        measured.total / measured.known if measured else None,
        interval.low if isinstance(interval, Interval) else None,
        interval.high if isinstance(interval, Interval) else None,
        counts.scored,
        counts.unscored,
        dict(counts.labels.most_common()),
        counts.first_error,
        find_percentile(values, 50),
        find_percentile(values, 90),
        counts.passed / len(values) if values else None,
        _compare_labels(counts) if counts.confusion else None,
    )


def find_percentile(values: Sequence[float], percent: int) -> float | None:
    """Percentile of sorted values by linear interpolation, as in numpy and spreadsheets."""
    if not values:
        return None
    below, rest = divmod((len(values) - 1) * percent, 100)
    low, high = values[below], values[min(below + 1, len(values) - 1)]
    return low + (high - low) * rest / 100


def _compare_labels(counts: ScorerCounts) -> LabelAgreement:
    pairs = counts.confusion
    labels = sorted({label for pair in pairs for label in pair})
    hits = {label: pairs[label, label] for label in labels}
    given = {label: sum(pairs[other, label] for other in labels) for label in labels}
    expected = {label: sum(pairs[label, other] for other in labels) for label in labels}
    return LabelAgreement(
        accuracy=sum(hits.values()) / pairs.total(),
        precision={each: _share(hits[each], given[each]) for each in labels},
        recall={each: _share(hits[each], expected[each]) for each in labels},
        confusion={
            each: {other: pairs[each, other] for other in labels if pairs[each, other]}
            for each in labels
            if expected[each]
        },
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
