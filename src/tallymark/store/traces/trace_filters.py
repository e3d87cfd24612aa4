"""Questions about traces as SQL: which rows fit, and along which index they are found.

The columns of a trace are `t.`. A row of conditions holds for whichever way is gone; the way is the
index that gives fewest rows, found by counting a little, else time itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallymark.store.column_types import make_storable
from tallymark.store.traces.rules import find_replaced
from tallymark.traces.trace_query import ATTRIBUTE, CHOICES, LABELS, NUMBERS, PEOPLE, SCORES, TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.store.quick_statements import QuickStatements
    from tallymark.traces.trace_query import Term, TraceQuery

FEW: Final = 2_000
"""So many rows are looked up one by one and sorted."""
_MOST_LABELS = 1_000
"""Of labels that fit a glob: more are looked for row by row."""
_ORIGIN = {True: "author <> ''", False: "author = ''"}
"""By whether people gave a score; in the words of the index of those."""
_INDEXED = ("cost", "duration", "tokens")


@dataclass(frozen=True, slots=True)
class Condition:
    """A piece of SQL that is true or false of `t`, with its values."""

    text: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """Keys of traces that an index gives: all that can fit, and up to a bound how many."""

    keys: Condition
    """A query of one column, `key`."""
    count: int
    label: int | None = None
    """One label alone: then its traces come by time."""


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """A question in SQL."""

    conditions: tuple[Condition, ...]
    ways: tuple[Way, ...] = field(default=())
    empty: bool = False
    """Nothing can fit: a label that no trace has."""

    @property
    def where(self) -> Condition:
        """All conditions as one."""
        return join_conditions(self.conditions)

    @property
    def best(self) -> Way | None:
        """The index that gives fewest rows."""
        return min(self.ways, key=lambda way: way.count, default=None)


def join_conditions(conditions: Iterable[Condition]) -> Condition:
    """True where all are."""
    some = list(conditions)
    text = " AND ".join(each.text for each in some)
    return Condition(text, tuple(value for each in some for value in each.values))


def compile_filter(
    statements: QuickStatements, tenant: str, query: TraceQuery, *, ways: bool = True
) -> TraceFilter:
    """The SQL of what columns can answer."""
    compiler = _Compiler(statements, tenant, row_by_row=ways)
    conditions = [Condition("t.tenant = ?", (tenant,))]
    found: list[Way] = []
    for term in query.columns:
        condition = compiler.write(term)
        if condition is None:
            return TraceFilter(tuple(conditions), empty=True)
        if term.negated:
            condition = Condition(f"({condition.text}) IS NOT TRUE", condition.values)
        conditions.append(condition)
        if ways and not term.negated and (way := compiler.find_way(term)) is not None:
            found.append(way)
    return TraceFilter(tuple(conditions), tuple(found))


class _Compiler:
    def __init__(self, statements: QuickStatements, tenant: str, *, row_by_row: bool) -> None:
        self._statements = statements
        self._tenant = tenant
        # PostgreSQL would join what is asked of each of a few rows as if it were asked of all; an
        # offset, even of nothing, keeps it from that.
        self._fence = " OFFSET 0" if row_by_row and statements.is_postgres else ""
        self._labels: dict[Term, list[int] | None] = {}

    def write(self, term: Term) -> Condition | None:
        """A term without its negation; None for what nothing fits."""
        if term.field in LABELS:
            return self._write_label(term)
        if term.field in NUMBERS:
            return _compare(f"t.{NUMBERS[term.field]}", term)
        if term.field in TIMES:
            sign = ">=" if term.field == "since" else "<"
            return Condition(f"t.started_at {sign} ?", (term.values[0],))
        if term.field == "status":
            # Written out: an index of errors alone is only used for what says so.
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
        same = "l.started_at = t.started_at AND l.trace = t.key"
        if ids is None:  # too many to name
            fits = self._match_any("w.value", term)
            return Condition(
                "EXISTS (SELECT 1 FROM labels w JOIN trace_labels l ON l.label = w.id"  # noqa: S608
                f" WHERE w.tenant = ? AND w.kind = ? AND {fits.text} AND {same}{self._fence})",
                (self._tenant, term.field, *fits.values),
            )
        if not ids:
            return Condition("1 = 0") if term.negated else None
        places = ", ".join(map(str, ids))
        return Condition(
            f"EXISTS (SELECT 1 FROM trace_labels l WHERE l.label IN ({places}) AND {same}"  # noqa: S608
            f"{self._fence})"
        )

    def _find_labels(self, term: Term) -> list[int] | None:
        """The ids of all labels that fit; None when there are very many."""
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
        # A plus keeps SQLite from any other index than that of the trace.
        plus = "" if self._statements.is_postgres else "+"
        counted = write_counted(self._statements, self._tenant, term.field, f"{plus}s.")
        return Condition(
            f"{sign}EXISTS (SELECT 1 FROM trace_scores s WHERE s.trace = t.key"  # noqa: S608
            f" AND {counted.text} AND {fits}{self._fence})",
            (*counted.values, *values),
        )

    def find_way(self, term: Term) -> Way | None:
        """The index that a term has, if it has one."""
        keys = self._write_way(term)
        if keys is None:
            return None
        counted = f"SELECT count(*) FROM ({keys.text} LIMIT {FEW + 1}) AS few"  # noqa: S608
        count = self._statements.read(counted, *keys.values)[0][0]
        ids = self._find_labels(term) if term.field in LABELS else None
        return Way(keys, count, ids[0] if ids and len(ids) == 1 else None)

    def _write_way(self, term: Term) -> Condition | None:
        if term.field in LABELS and (ids := self._find_labels(term)):
            places = ", ".join(map(str, ids))
            return Condition(
                f"SELECT l.trace AS key FROM trace_labels l WHERE l.label IN ({places})"  # noqa: S608
            )
        if term.field in _INDEXED:
            known = f"{term.field} IS NOT NULL AND " if term.field != "duration" else ""
            fits = _compare(term.field, term)
            return self._take_keys(f"ix_traces_{term.field}", known + fits.text, fits.values)
        if term.field == "status" and term.values == ("error",):
            return self._take_keys("ix_traces_errors", "status = 'error'")
        if term.field == "since":
            return self._take_keys("ix_traces_started", "started_at >= ?", term.values)
        if term.field == "id" and not any("*" in each or "?" in each for each in term.values):
            fits = self._match_any("trace_id", term)
            return self._take_keys("ux_traces_id", fits.text, fits.values)
        if term.field.startswith(SCORES) and term.values[0] not in ("any", "none"):
            fits = _compare("value", term)
            # Those of rules are most: with a few of others among them, all can fit.
            people = f" AND {_ORIGIN[True]}" if term.field.startswith(PEOPLE) else ""
            return Condition(
                "SELECT trace AS key FROM trace_scores WHERE tenant = ? AND name = ? AND is_current"  # noqa: S608
                f"{people} AND {fits.text}",
                (self._tenant, _split_score(term.field)[1], *fits.values),
            )
        return None

    def _take_keys(self, index: str, fits: str, values: tuple[Any, ...] = ()) -> Condition:
        by = "" if self._statements.is_postgres else f" INDEXED BY {index}"
        return Condition(
            f"SELECT key FROM traces{by} WHERE tenant = ? AND {fits}",  # noqa: S608
            (self._tenant, *values),
        )


def write_counted(
    statements: QuickStatements, tenant: str, field: str, mark: str = ""
) -> Condition:
    """Which rows of `trace_scores` count as a score; without a prefix it is a rule's.

    A rule that has the name of an archived one has it alone.
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
    """Who gave a score, and its name as it is kept."""
    prefix = next((each for each in SCORES if field.startswith(each)), "")
    return prefix, field.removeprefix(prefix)


def write_origin(prefix: str) -> str:
    """Who gave a score, in SQL."""
    return _ORIGIN[prefix == PEOPLE]


def _compare(column: str, term: Term) -> Condition:
    sign = "=" if term.operator == ":" else term.operator
    text = " OR ".join(f"{column} {sign} ?" for _ in term.values)
    return Condition(f"({text})" if len(term.values) > 1 else text, term.values)


def match_text(column: str, value: str, is_postgres: bool, *, exact: bool = False) -> Condition:
    """A text as it is, or a glob with * and ?."""
    value = make_storable(value)
    if exact or ("*" not in value and "?" not in value):
        return Condition(f"{column} = ?", (value,))
    if is_postgres:
        escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return Condition(f"{column} LIKE ?", (escaped.replace("*", "%").replace("?", "_"),))
    return Condition(f"{column} GLOB ?", (value.replace("[", "[[]"),))


def is_attribute(term: Term) -> bool:
    """Whether a term asks for an attribute of a span."""
    return term.field.startswith(ATTRIBUTE)
