"""Sums over traces: by time, by group, and of two queries side by side.

Means come with what their intervals need: the traces of a session are related, so a session is a
cluster (`runs/statistics.py`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallymark.errors import InvalidInput, suggest
from tallymark.runs.statistics import ClusterMoments, MeanEstimate, estimate_moments
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.traces.trace_filters import Condition, compile_filter, write_counted
from tallymark.store.traces.trace_lists import list_newest, write_few
from tallymark.traces.trace_facts import GROUPS, TraceSum
from tallymark.traces.trace_query import SCORES

if TYPE_CHECKING:
    from tallymark.store.database import Database
    from tallymark.traces.trace_query import TraceQuery

MEASURES: Final = {
    "cost": "t.cost",
    "duration": "t.duration",
    "tokens": "t.tokens",
    "error": "CASE WHEN t.status = 'error' THEN 1.0 ELSE 0.0 END",
}
"""Measures other than scores."""
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
DAY: Final = 86_400.0


def check_measure(measure: str) -> None:
    """Refuse a measure that cannot be summed."""
    if measure not in MEASURES and (not measure.startswith(SCORES) or measure in SCORES):
        near = suggest(measure, [*MEASURES, "score.NAME", "people.NAME"])
        known = f"{', '.join(MEASURES)}, score.NAME or people.NAME"
        hint = f"did you mean {near!r}?" if near else known
        raise InvalidInput(f"{measure!r} cannot be measured", hint=hint)


def estimate_mean(measure: str, moments: ClusterMoments) -> MeanEstimate:
    """Mean of a measure with its interval."""
    return estimate_moments(moments, amounts=measure in AMOUNTS)


def check_group(group: str) -> None:
    """Refuse a field that traces cannot be grouped by."""
    if group not in GROUPS:
        near = suggest(group, GROUPS)
        hint = f"did you mean {near!r}?" if near else f"by {', '.join(GROUPS)}"
        raise InvalidInput(f"traces cannot be put together by {group!r}", hint=hint)


class _Source(NamedTuple):
    """The FROM clause of the traces that are summed up, as `t`."""

    table: str
    values: tuple[Any, ...]
    where: Condition
    is_narrow: bool
    """An index or the time leaves few: what belongs to them is looked up, trace by trace."""
    is_cut: bool = False
    """There are others, which are older."""


class TraceSums:
    """Sums over the traces that match a query, or over the `newest` of them."""

    def __init__(
        self, database: Database, tenant: str, query: TraceQuery, newest: int | None = None
    ) -> None:
        if query.scanned:
            raise InvalidInput(
                f"{query.scanned[0].field} has no column, and sums are of columns",
                hint="leave it out here, or list the traces",
            )
        self._database = database
        self._tenant = tenant
        self._query = query
        self._newest = newest

    @property
    def is_cut(self) -> bool:
        """Return whether older matches were left out."""
        return self._source is not None and self._source.is_cut

    def find_days(self) -> float:
        """Seconds of the whole days (UTC) from the first trace to the last."""
        if (source := self._source) is None:
            return 0.0
        rows = self._read(
            f"SELECT min(t.started_at), max(t.started_at) FROM {source.table}"  # noqa: S608
            f" WHERE {source.where.text}",
            (*source.values, *source.where.values),
        )
        first, last = rows[0]
        return 0.0 if first is None else (last // DAY - first // DAY + 1) * DAY

    def over_time(self, every: float, measure: str | None = None) -> list[TraceSum]:
        """Sums by start time, in steps of `every` seconds."""
        is_postgres = self._database.address.path is None
        step = f"t.started_at / {float(every)!r}"
        number = f"floor({step})" if is_postgres else f"CAST({step} AS INTEGER)"
        found = self._sum(f"{number} * {float(every)!r}", "", measure)
        return sorted(found, key=lambda each: float(each.group or 0.0))

    def by(self, group: str, measure: str | None = None) -> list[TraceSum]:
        """Sums by group, the most frequent first; a trace with two tools is in two groups."""
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
        """Sum over all traces."""
        found = self._sum("NULL", "", measure)
        nothing = TraceSum(group=None, traces=0, errors=0, cost=None, tokens=None, duration=None)
        return found[0] if found else nothing

    def moments(self, measure: str) -> ClusterMoments:
        """Moments of a measure, for comparisons."""
        return self._measure("NULL", "", measure).get(None, ClusterMoments())

    def _sum(self, group: str, join: str, measure: str | None) -> list[TraceSum]:
        if (source := self._source) is None:
            return []
        rows = self._read(
            f"SELECT {group} AS g, count(*), sum(CASE WHEN t.status = 'error' THEN 1 ELSE 0 END),"  # noqa: S608
            f" sum(t.cost), sum(t.tokens), avg(t.duration) FROM {source.table}{join}"
            f" WHERE {source.where.text} GROUP BY 1 ORDER BY 2 DESC LIMIT {MOST_GROUPS}",
            (*source.values, *source.where.values),
        )
        moments = {} if measure is None else self._measure(group, join, measure)
        return [_make_sum(row, measure or "", moments.get(row[0])) for row in rows if row[1]]

    def _measure(self, group: str, join: str, measure: str) -> dict[Any, ClusterMoments]:
        check_measure(measure)
        if (source := self._source) is None:
            return {}
        table, text, values = source.table, source.where.text, source.where.values
        if measure.startswith(SCORES):
            value = "c.value"
            with self._database.read() as connection:
                statements = QuickStatements(connection)
                # A plus limits SQLite to the index of the trace.
                plus = "" if statements.is_postgres or not source.is_narrow else "+"
                counted = write_counted(statements, self._tenant, measure, f"{plus}c.")
            cross = "JOIN" if self._database.address.path is None else "CROSS JOIN"
            if source.is_narrow:
                table += f" {cross} trace_scores c ON c.trace = t.key"
            else:
                table = f"trace_scores c {cross} traces t ON t.key = c.trace"
            text, values = f"{counted.text} AND {text}", (*counted.values, *values)
        else:
            value = MEASURES[measure]
        clusters = (
            f"SELECT {group} AS g, coalesce(t.session, t.trace_id) AS c, count({value}) AS n,"  # noqa: S608
            f" CAST(sum({value}) AS DOUBLE PRECISION) AS s, min({value}) AS least,"
            f" max({value}) AS most FROM {table}{join}"
            f" WHERE {text} AND {value} IS NOT NULL GROUP BY 1, 2"
        )
        rows = self._read(
            "SELECT g, count(*), sum(n), sum(s), sum(s * s), sum(s * n), sum(n * n),"  # noqa: S608
            f" min(least), max(most) FROM ({clusters}) AS clusters GROUP BY g",
            (*source.values, *values),
        )
        return {row[0]: ClusterMoments(row[1], int(row[2]), *map(float, row[3:])) for row in rows}

    @cached_property
    def _source(self) -> _Source | None:
        """None when nothing can fit."""
        with self._database.read() as connection:
            statements = QuickStatements(connection)
            found = compile_filter(statements, self._tenant, self._query)
            if found.empty:
                return None
            if found.few is not None:
                rows, values = write_few(found.few, is_postgres=statements.is_postgres)
                return _Source(rows, values, found.where, is_narrow=True)
            if self._newest is None:
                return _Source("traces t", (), found.where, is_narrow=bool(found.times))
            keys, is_cut = list_newest(statements, found, self._newest)
        cross = "JOIN" if statements.is_postgres else "CROSS JOIN"
        given = "unnest(CAST(? AS bigint[]))" if statements.is_postgres else "json_each(?)"
        text = f"[{','.join(map(str, keys))}]"
        text = text.replace("[", "{").replace("]", "}") if statements.is_postgres else text
        name = "k (value)" if statements.is_postgres else "k"
        table = f"{given} AS {name} {cross} traces t ON t.key = k.value"
        return _Source(table, (text,), Condition("true"), is_narrow=True, is_cut=is_cut)

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
