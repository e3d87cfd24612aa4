"""Trace queries as SQL: which rows match, and along which index they are found.

The columns of a trace are `t.`. A row's conditions hold whichever way it is found; the way is the
index that gives the fewest rows, found by counting a little, or else time itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallymark.store.dialects import make_storable
from tallymark.store.traces.rules import find_replaced
from tallymark.traces.trace_query import ATTRIBUTE, CHOICES, LABELS, NUMBERS, PEOPLE, SCORES, TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.store.quick_statements import QuickStatements
    from tallymark.traces.trace_query import Term, TraceQuery

_FEW = 2_000
"""Up to this many traces are looked up one by one and sorted."""
_FEW_ROWS = 5_000
"""The same for an index of the traces themselves, which saves the lookup."""
_MOST_LABELS, _MOST_ASKED = 1_000, 4
"""Limits for labels that match a glob: an index scan takes the traces of the first number, and a
single trace is compared with the second. Beyond these, the trace's own columns are compared."""
_ASKS = 2
"""Looks into an index that a score takes, or a list of labels."""
_LISTS = {"model": "t.models", "tool": "t.tools", "tag": "t.tags"}
_TEXTS = {
    "service": "t.service",
    "version": "t.service_version",
    "session": "t.session",
    "user": "t.user_name",
    "name": "t.name",
}
"""The columns of labels."""
_ORIGIN = {True: "author <> ''", False: "author = ''"}
"""By whether people gave a score; in the words of the index of those."""
_INDEXED = ("cost", "duration", "tokens")
_WHOLE = frozenset(NUMBERS) - {"cost", "duration"}
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Condition:
    """A piece of SQL that is true or false of `t`, with its values."""

    text: str
    values: tuple[Any, ...] = ()
    by_place: bool = False
    """It queries another table, and needs only `t.started_at` and `t.key`."""
    asks: int = 0
    """Approximate number of index lookups per row, in addition to comparing columns."""


@dataclass(frozen=True, slots=True)
class Way:
    """An index scan that gives all traces that can match, and perhaps others."""

    source: Condition
    """FROM and WHERE of a query."""
    key: str
    """The column that has the keys of traces; `key` where it is the table of traces itself."""
    meets: Condition
    """Condition that holds for all of the rows, or for those that match."""
    is_few: bool = False
    label: int | None = None
    """One label alone: then its traces come by time."""
    oldest: float = 0.0
    """For a label: start of the last of the newest few traces."""


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """A trace query in SQL."""

    conditions: tuple[Condition, ...]
    ways: tuple[Way, ...] = field(default=())
    times: tuple[Condition, ...] = field(default=())
    """Conditions on a bare `started_at`: where a walk along time begins and ends."""
    empty: bool = False
    """Nothing can fit: a label that no trace has."""

    @property
    def where(self) -> Condition:
        """All conditions as one."""
        return join_conditions(self.conditions)

    @property
    def few(self) -> Way | None:
        """An index scan that gives few rows, preferably of the traces themselves."""
        some = [way for way in self.ways if way.is_few]
        return min(some, key=lambda way: way.key != "key", default=None)


def join_conditions(conditions: Iterable[Condition]) -> Condition:
    """Conjunction of the conditions."""
    some = list(conditions)
    text = " AND ".join(each.text for each in some)
    return Condition(text, tuple(value for each in some for value in each.values))


def compile_filter(
    statements: QuickStatements, tenant: str, query: TraceQuery, *, ways: bool = True
) -> TraceFilter:
    """Compile the part of a query that columns can answer."""
    compiler = _Compiler(statements, tenant, row_by_row=ways)
    conditions = [Condition("t.tenant = ?", (tenant,))]
    found: list[Way] = []
    for term in query.columns:
        condition = compiler.write(term)
        if condition is None:
            return TraceFilter(tuple(conditions), empty=True)
        if term.negated:
            text = f"({condition.text}) IS NOT TRUE"
            condition = replace(condition, text=text)
        conditions.append(condition)
        if ways and not term.negated and (way := compiler.find_way(term, condition)) is not None:
            found.append(way)
    times = [
        Condition(_write_time(term), (term.values[0],))
        for term in query.columns
        if term.field in TIMES and not term.negated
    ]
    return TraceFilter(tuple(conditions), tuple(found), tuple(times))


class _Compiler:
    def __init__(self, statements: QuickStatements, tenant: str, *, row_by_row: bool) -> None:
        self._statements = statements
        self._tenant = tenant
        # OFFSET 0 stops PostgreSQL from joining, as if for all rows, what is looked up for a few.
        self._fence = " OFFSET 0" if row_by_row and statements.is_postgres else ""
        self._labels: dict[Term, list[int] | None] = {}

    def write(self, term: Term) -> Condition | None:
        """Compile a term without its negation; None if nothing can match."""
        if term.field in LABELS:
            return self._write_label(term)
        if term.field in NUMBERS:
            return _compare(f"t.{NUMBERS[term.field]}", term)
        if term.field in TIMES:
            return Condition(f"t.{_write_time(term)}", (term.values[0],))
        if term.field == "status":
            # Written as literals: a partial index of errors is only used for its own condition.
            kinds = ", ".join(f"'{each}'" for each in term.values if each in CHOICES["status"])
            return Condition(f"t.status IN ({kinds})" if "," in kinds else f"t.status = {kinds}")
        if term.field == "state":
            known = {"open": "t.due_at IS NOT NULL", "settled": "t.due_at IS NULL"}
            return Condition(f"({' OR '.join(known[each] for each in term.values)})")
        if term.field.startswith(SCORES):
            return self._write_score(term)
        return self._match_any("t.trace_id", term)

    def _match_any(self, column: str, term: Term) -> Condition:
        exact = term.operator == "="
        some = [
            match_text(column, each, self._statements.is_postgres, exact=exact)
            for each in term.values
        ]
        text = " OR ".join(each.text for each in some)
        return Condition(f"({text})", tuple(value for each in some for value in each.values))

    def _write_label(self, term: Term) -> Condition | None:
        ids = self._find_labels(term)
        if ids is None or len(ids) > _MOST_ASKED:
            return self._match_column(term)
        if not ids:
            return Condition("1 = 0") if term.negated else None
        places = ", ".join(map(str, ids))
        return Condition(
            f"EXISTS (SELECT 1 FROM trace_labels l WHERE l.label IN ({places})"  # noqa: S608
            f" AND l.started_at = t.started_at AND l.trace = t.key{self._fence})",
            by_place=True,
            asks=len(ids),
        )

    def _match_column(self, term: Term) -> Condition:
        if term.field in _TEXTS:
            column = _TEXTS[term.field]
            fits = self._match_any(column, term)
            return Condition(f"({fits.text} AND {column} <> '')", fits.values)
        column = _LISTS[term.field]
        each = f"json_each({column}) AS j"
        if self._statements.is_postgres:
            each = f"json_array_elements_text({column}::json) AS j (value)"
        fits = self._match_any("j.value", term)
        text = f"EXISTS (SELECT 1 FROM {each} WHERE {fits.text})"  # noqa: S608
        return Condition(text, fits.values, asks=_ASKS)

    def _find_labels(self, term: Term) -> list[int] | None:
        """Ids of all labels that match; None if there are very many."""
        if term not in self._labels:
            fits = self._match_any("w.value", term)
            rows = self._statements.read(
                "SELECT w.id FROM labels w WHERE w.tenant = ? AND w.kind = ?"  # noqa: S608
                f" AND {fits.text} LIMIT {_MOST_LABELS + 1}",
                *(self._tenant, term.field, *fits.values),
            )
            ids = [row[0] for row in rows]
            self._labels[term] = ids if len(ids) <= _MOST_LABELS else None
        return self._labels[term]

    def _write_score(self, term: Term) -> Condition:
        value = term.values[0]
        if value in ("any", "none"):
            fits, values, sign = "s.value IS NOT NULL", (), "NOT " if value == "none" else ""
        else:
            compared = _compare("s.value", term)
            fits, values, sign = compared.text, compared.values, ""
        # A plus limits SQLite to the index of the trace.
        plus = "" if self._statements.is_postgres else "+"
        counted = write_counted(self._statements, self._tenant, term.field, f"{plus}s.")
        return Condition(
            f"{sign}EXISTS (SELECT 1 FROM trace_scores s WHERE s.trace = t.key"  # noqa: S608
            f" AND {counted.text} AND {fits}{self._fence})",
            (*counted.values, *values),
            by_place=True,
            asks=_ASKS,
        )

    def find_way(self, term: Term, meets: Condition) -> Way | None:
        """The index scan for a term, if it has an index."""
        way = self._write_way(term, meets)
        if way is None:
            return None
        most = _FEW_ROWS if way.key == "key" else _FEW
        started_at, order = "0.0", ""
        if way.label is not None:  # the newest of them, along the index
            started_at, order = "started_at", " ORDER BY started_at DESC, trace DESC"
        count, oldest = self._statements.read(
            f"SELECT count(*), min(at) FROM (SELECT {started_at} AS at {way.source.text}{order}"  # noqa: S608
            f" LIMIT {most + 1}) AS few",
            *way.source.values,
        )[0]
        return replace(way, is_few=count <= most, oldest=oldest or 0.0)

    def _write_way(self, term: Term, meets: Condition) -> Way | None:
        if term.field in LABELS and (ids := self._find_labels(term)):
            places = ", ".join(map(str, ids))
            source = Condition(f"FROM trace_labels WHERE label IN ({places})")
            return Way(source, "trace", meets, label=ids[0] if len(ids) == 1 else None)
        if term.field in _INDEXED:
            known = f"{term.field} IS NOT NULL AND " if term.field != "duration" else ""
            fits = _compare(term.field, term)
            return self._go_along(f"ix_traces_{term.field}", meets, known + fits.text, fits.values)
        if term.field == "status" and term.values == ("error",):
            return self._go_along("ix_traces_errors", meets, "status = 'error'")
        if term.field == "since":
            return self._go_along("ix_traces_started", meets, "started_at >= ?", term.values)
        if term.field == "id" and not any("*" in each or "?" in each for each in term.values):
            fits = self._match_any("trace_id", term)
            return self._go_along("ux_traces_id", meets, fits.text, fits.values)
        if term.field.startswith(SCORES) and term.values[0] not in ("any", "none"):
            fits = _compare("value", term)
            # Most scores are of rules: with a few of people among them, all can match.
            people = f" AND {_ORIGIN[True]}" if term.field.startswith(PEOPLE) else ""
            source = Condition(
                f"FROM trace_scores WHERE tenant = ? AND name = ? AND is_current{people}"
                f" AND {fits.text}",
                (self._tenant, _split_score(term.field)[1], *fits.values),
            )
            return Way(source, "trace", meets)
        return None

    def _go_along(
        self, index: str, meets: Condition, fits: str, values: tuple[Any, ...] = ()
    ) -> Way:
        by = "" if self._statements.is_postgres else f" INDEXED BY {index}"
        source = Condition(f"FROM traces{by} WHERE tenant = ? AND {fits}", (self._tenant, *values))
        return Way(source, "key", meets)


def write_counted(
    statements: QuickStatements, tenant: str, field: str, mark: str = ""
) -> Condition:
    """Condition for the rows of `trace_scores` that count as a score; without a prefix, a rule's.

    A rule with the name of an archived one replaces it.
    """
    prefix, name = _split_score(field)
    by_people = prefix == PEOPLE
    text = (
        f"{mark}tenant = ? AND {mark}name = ? AND {mark}is_current AND {mark}{_ORIGIN[by_people]}"
    )
    if not by_people:
        others = find_replaced(statements, tenant)
        rule = name.partition(".")[0]
        ids = ", ".join(str(each) for each, theirs in others.items() if theirs == rule)
        text += f" AND {mark}rule NOT IN ({ids})" if ids else ""
    return Condition(text, (tenant, name))


def _split_score(field: str) -> tuple[str, str]:
    """Prefix and name of a score field."""
    prefix = next((each for each in SCORES if field.startswith(each)), "")
    return prefix, field.removeprefix(prefix)


def write_origin(prefix: str) -> str:
    """Condition for the origin of a score."""
    return _ORIGIN[prefix == PEOPLE]


def _write_time(term: Term) -> str:
    return f"started_at {'>=' if term.field == 'since' else '<'} ?"


def _compare(column: str, term: Term) -> Condition:
    sign = "=" if term.operator == ":" else term.operator
    values = tuple(
        _make_whole(each, sign) if term.field in _WHOLE else each for each in term.values
    )
    text = " OR ".join(f"{column} {sign} ?" for _ in values)
    return Condition(f"({text})" if len(values) > 1 else text, values)


def _make_whole(value: float, sign: str) -> float:
    """The integer that separates the same values: PostgreSQL finds no fraction along an index."""
    if sign == "=" and not value.is_integer():
        return value  # there is none
    number = math.ceil(value) if sign in ("<", ">=") else math.floor(value)
    return max(-_LARGEST, min(number, _LARGEST))


def match_text(column: str, value: str, is_postgres: bool, *, exact: bool = False) -> Condition:
    """Condition for a text as it is, or a glob with * and ?."""
    value = make_storable(value)
    if exact or ("*" not in value and "?" not in value):
        return Condition(f"{column} = ?", (value,))
    if is_postgres:
        escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return Condition(f"{column} LIKE ?", (escaped.replace("*", "%").replace("?", "_"),))
    return Condition(f"{column} GLOB ?", (value.replace("[", "[[]"),))


def is_attribute(term: Term) -> bool:
    """Return whether a term is about an attribute of a span."""
    return term.field.startswith(ATTRIBUTE)
