"""Agreement of two judges of the same cases: Cohen's kappa, and verdicts on a case.

Kappa is the reached part of the agreement that chance leaves open: (observed - expected) /
(1 - expected), where expected is the agreement of two judges who choose their labels at random in
the same proportions (Cohen 1960). Its interval draws the joint table, the lower end with one more
case of disagreement, the upper end with one more of agreement, like the exact interval of a share:
full agreement has an interval too, and it misses the true value in at most 5 % (see
docs/decisions/0041-people-and-judges.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from tallymark.runs.record import CaseResult, CheckResult
from tallymark.runs.statistics import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 5
"""Cases from which on there is an interval."""
_DRAWS = 4000
_NEXT_TO_NOTHING = 0.02
"""Cases that a cell without any is drawn with: a Dirichlet has no cell of 0."""
_MIDDLE = 0.5
"""The value that passes if a judge has no threshold."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of two judges on the same cases."""

    labels: list[str]
    table: list[list[int]]
    """Counts by the label of the first (row) and of the second (column)."""
    kappa: float | None
    interval: Interval | None
    reason: str | None
    """Why there is no kappa, or no interval."""

    @property
    def cases(self) -> int:
        """Cases that both judged."""
        return sum(map(sum, self.table))

    @property
    def agreed(self) -> int:
        """Cases with the same verdict."""
        return sum(row[place] for place, row in enumerate(self.table))


def measure_agreement(pairs: Iterable[tuple[str, str]]) -> Agreement:
    """Agreement of two judges, from pairs of labels."""
    counts = Counter(pairs)
    labels = sorted({label for pair in counts for label in pair})
    table = [[counts[first, second] for second in labels] for first in labels]
    total = sum(counts.values())
    kappa, interval, reason = None, None, None
    if not total:
        reason = "no case was judged by both"
    elif len(labels) == 1:
        reason = f"both said {labels[0]!r} every time, as two who never look would"
    else:
        kappa = _find_kappa(table)
        if total < FEWEST:
            reason = f"{total} of at least {FEWEST} cases: too few for an interval"
        else:
            interval = _find_interval(table, kappa)
    return Agreement(labels=labels, table=table, kappa=kappa, interval=interval, reason=reason)


def _find_kappa(table: Sequence[Sequence[int]]) -> float:
    total = sum(map(sum, table))
    observed: float = sum(row[place] for place, row in enumerate(table)) / total
    firsts = [sum(row) / total for row in table]
    seconds = [sum(column) / total for column in zip(*table, strict=True)]
    expected: float = sum(one * two for one, two in zip(firsts, seconds, strict=True))
    return (observed - expected) / (1 - expected)


def _find_interval(table: Sequence[Sequence[int]], kappa: float) -> Interval:
    import numpy as np  # noqa: PLC0415 (commands that ask for no interval do without)

    size = len(table)
    seen, alike = np.asarray(table, dtype=float), np.eye(size)
    low, high = (
        float(
            np.quantile(_draw_kappas(seen + np.where(more, 1 / more.sum(), _NEXT_TO_NOTHING)), end)
        )
        for more, end in ((1 - alike, 0.025), (alike, 0.975))
    )
    return Interval(min(low, kappa), max(high, kappa))


def _draw_kappas(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np  # noqa: PLC0415 (as above)

    size = len(counts)
    shares = np.random.default_rng(0).dirichlet(counts.ravel(), _DRAWS).reshape(-1, size, size)
    observed = shares.trace(axis1=1, axis2=2)
    expected = (shares.sum(axis=2) * shares.sum(axis=1)).sum(axis=1)
    found: NDArray[np.float64] = (observed - expected) / (1 - expected)
    return found


def list_judged(result: CaseResult) -> list[CheckResult]:
    """The checks of a result that a model decided."""
    return [each for each in _walk(result.checks) if _is_judged(each)]


def find_judge_verdict(result: CaseResult, name: str | None = None) -> bool | None:
    """True if all judges of a case passed it, or the named one; None if none judged it."""
    said = [
        _passes(each)
        for each in list_judged(result)
        if each.error is None and name in (None, each.name)
    ]
    return all(said) if said else None


def _walk(checks: tuple[CheckResult, ...]) -> Iterator[CheckResult]:
    for check in checks:
        inner = list(_walk(check.parts))
        # One call of a judge may appear in a check and in its parts.
        yield from inner if any(map(_is_judged, inner)) else [check]


def _is_judged(check: CheckResult) -> bool:
    return check.judge is not None or check.kind == "llm_judge"


def _passes(check: CheckResult) -> bool:
    if check.threshold or check.value is None:
        return check.passed
    return check.value >= _MIDDLE  # a threshold of 0 only measures
