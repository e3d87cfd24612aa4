"""Sums over traces: by time, by what they have in common, and of two questions side by side.

Means come with what their intervals need: the traces of a session belong together, so a session is
a cluster (`runs/statistics.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import InvalidInput, suggest
from tallymark.runs.statistics import ClusterMoments, MeanEstimate, estimate_moments
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.traces.trace_filters import compile_filter, write_counted
from tallymark.traces.trace_query import SCORES
from tallymark.traces.trace_sum import GROUPS, TraceSum

if TYPE_CHECKING:
    from tallymark.store.database import Database
    from tallymark.traces.trace_query import TraceQuery

MEASURES: Final = {
    "cost": "t.cost",
    "duration": "t.duration",
    "tokens": "t.tokens",
    "error": "CASE WHEN t.status = 'error' THEN 1.0 ELSE 0.0 END",
}
"""What can be summed beside scores."""
AMOUNTS: Final = ("cost", "duration", "tokens")
_COLUMN_GROUPS: Final = {
    "service": "t.service",
    "version": "t.service_version",
    "session": "t.session",
    "user": "t.user_name",
    "name": "t.name",
    "status": "t.status",
}
MOST_GROUPS: Final = 1_000


def check_measure(measure: str) -> None:
    """Refuses what cannot be summed."""
    if measure not in MEASURES and (not measure.startswith(SCORES) or measure in SCORES):
        near = suggest(measure, [*MEASURES, "score.NAME", "people.NAME"])
        known = f"{', '.join(MEASURES)}, score.NAME or people.NAME"
        hint = f"did you mean {near!r}?" if near else known
        raise InvalidInput(f"{measure!r} cannot be measured", hint=hint)


def estimate_mean(measure: str, moments: ClusterMoments) -> MeanEstimate:
    """The mean of a measure with its interval."""
    return estimate_moments(moments, amounts=measure in AMOUNTS)


def check_group(group: str) -> None:
    """Refuses what traces cannot be put together by."""
    if group not in GROUPS:
        near = suggest(group, GROUPS)
        hint = f"did you mean {near!r}?" if near else f"by {', '.join(GROUPS)}"
        raise InvalidInput(f"traces cannot be put together by {group!r}", hint=hint)


class TraceSums:
    """The sums of what fits one question."""

    def __init__(self, database: Database, tenant: str, query: TraceQuery) -> None:
        if query.scanned:
            raise InvalidInput(
                f"{query.scanned[0].field} has no column, and sums are of columns",
                hint="leave it out here, or list the traces",
            )
        self._database = database
        self._tenant = tenant
        self._query = query

    def over_time(self, every: float, measure: str | None = None) -> list[TraceSum]:
        """By the time at which they began, in steps of so many seconds."""
        is_postgres = self._database.address.path is None
        step = f"t.started_at / {float(every)!r}"
        number = f"floor({step})" if is_postgres else f"CAST({step} AS INTEGER)"
        found = self._sum(f"{number} * {float(every)!r}", "", measure)
        return sorted(found, key=lambda each: float(each.group or 0.0))

    def by(self, group: str, measure: str | None = None) -> list[TraceSum]:
        """By what they have in common, the most frequent first; two tools are two groups."""
        check_group(group)
        if group in _COLUMN_GROUPS:
            found = self._sum(_COLUMN_GROUPS[group], "", measure)
        else:
            join = (
                " JOIN trace_labels d ON d.trace = t.key AND d.started_at = t.started_at"
                f" JOIN labels g ON g.id = d.label AND g.kind = '{group}'"
            )
            found = self._sum("g.value", join, measure)
        return sorted(found, key=lambda each: (-each.traces, str(each.group)))

    def whole(self, measure: str | None = None) -> TraceSum:
        """All of them."""
        found = self._sum("NULL", "", measure)
        nothing = TraceSum(group=None, traces=0, errors=0, cost=None, tokens=None, duration=None)
        return found[0] if found else nothing

    def moments(self, measure: str) -> ClusterMoments:
        """For who compares."""
        return self._measure("NULL", "", measure).get(None, ClusterMoments())

    def _sum(self, group: str, join: str, measure: str | None) -> list[TraceSum]:
        where = self._compile()
        if where is None:
            return []
        text, values = where
        rows = self._read(
            f"SELECT {group} AS g, count(*), sum(CASE WHEN t.status = 'error' THEN 1 ELSE 0 END),"  # noqa: S608
            f" sum(t.cost), sum(t.tokens), avg(t.duration) FROM traces t{join} WHERE {text}"
            f" GROUP BY 1 ORDER BY 2 DESC LIMIT {MOST_GROUPS}",
            values,
        )
        moments = {} if measure is None else self._measure(group, join, measure)
        return [_make_sum(row, measure or "", moments.get(row[0])) for row in rows if row[1]]

    def _measure(self, group: str, join: str, measure: str) -> dict[Any, ClusterMoments]:
        check_measure(measure)
        where = self._compile()
        if where is None:
            return {}
        text, values = where
        if measure.startswith(SCORES):
            with self._database.read() as connection:
                statements = QuickStatements(connection)
                counted = write_counted(statements, self._tenant, measure, "c.")
            source = "FROM trace_scores c JOIN traces t ON t.key = c.trace"
            value = "c.value"
            text = f"{counted.text} AND {text}"
            values = (*counted.values, *values)
        else:
            source, value = "FROM traces t", MEASURES[measure]
        clusters = (
            f"SELECT {group} AS g, coalesce(t.session, t.trace_id) AS c, count({value}) AS n,"
            f" CAST(sum({value}) AS DOUBLE PRECISION) AS s, min({value}) AS least,"
            f" max({value}) AS most {source}{join}"
            f" WHERE {text} AND {value} IS NOT NULL GROUP BY 1, 2"
        )
        rows = self._read(
            "SELECT g, count(*), sum(n), sum(s), sum(s * s), sum(s * n), sum(n * n),"  # noqa: S608
            f" min(least), max(most) FROM ({clusters}) AS clusters GROUP BY g",
            values,
        )
        return {row[0]: ClusterMoments(row[1], int(row[2]), *map(float, row[3:])) for row in rows}

    def _compile(self) -> tuple[str, tuple[Any, ...]] | None:
        with self._database.read() as connection:
            statements = QuickStatements(connection)
            found = compile_filter(statements, self._tenant, self._query, ways=False)
        return None if found.empty else (found.where.text, found.where.values)

    def _read(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._database.read() as connection:
            return QuickStatements(connection).read(query, *values)


def _make_sum(row: tuple[Any, ...], measure: str, moments: ClusterMoments | None) -> TraceSum:
    estimate = MeanEstimate() if moments is None else estimate_mean(measure, moments)
    return TraceSum(
        group=row[0],
        traces=row[1],
        errors=int(row[2]),
        cost=row[3],
        tokens=None if row[4] is None else int(row[4]),
        duration=row[5],
        measured=0 if moments is None else moments.count,
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
    )
