"""Outcomes of rules for traces: looked at once, waiting, capped, or scored exactly once.

An outcome (`trace_decisions`) is a row per version of the trace and version of the rule. Writing a
score turns the waiting row into the result in the same transaction, and writes nothing if that row
no longer waits: a trace is scored once, whoever tries, and however many workers die. What a
backfill scores at once never waits: its row is written with the score, if there is none yet.

A waiting row has its time (`due_at`) and, while it is being scored, what it has reserved of its
day. `backfill` is 0 for traces as they arrive: one worker at a time has those of a rule, and one
has each backfill.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace
from sqlalchemy import Column, Index, Integer, PrimaryKeyConstraint, Table

from tallymark.errors import InvalidInput, suggest
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    json_text,
    lock_traces,
    make_storable,
    metadata,
    partial_index,
)
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces import rule_days
from tallymark.store.traces.rule_days import find_day
from tallymark.text import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from tallymark.store.traces.rules import Rule


trace_decisions = Table(
    "trace_decisions",
    metadata,
    Column("trace", RowKey, nullable=False),
    Column("version", Integer, nullable=False),
    Column("rule_version", RowKey, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),
    # scored, not_drawn, filtered, capped, failed or waiting
    Column("decision", CodePointText, nullable=False),
    Column("reason", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("due_at", FiniteFloat),  # of one that waits
    Column("tries", Integer, nullable=False),
    Column("backfill", RowKey, nullable=False),  # rule_backfills.id; 0 is as it came
    Column("day", CodePointText),  # rule_days.day on whose account it is
    Column("reserved", FiniteFloat),  # US dollars, while it is being scored
    Column("cost", FiniteFloat),  # the actual cost
    PrimaryKeyConstraint("trace", "version", "rule_version", name="pk_trace_decisions"),
    Index("ix_trace_decisions_rule", "rule", "at"),
    partial_index(
        "ix_trace_decisions_waiting",
        *("rule", "backfill", "due_at"),
        where="decision = 'waiting'",
    ),
    sqlite_with_rowid=False,
)
Decided = Literal["scored", "failed", "filtered", "not_drawn", "capped", "waiting"]
DECISIONS: tuple[Decided, ...] = get_args(Decided)
TRACE_NUMBERS = (
    *("cost", "duration", "tokens", "input_tokens", "output_tokens"),
    *("spans", "errors", "model_calls", "tool_calls", "status"),
)
"""Columns of a trace that formulas use."""
_PAIRS = (("trace", "bigint"), ("version", "bigint"))
_POSTPONED = 5.0
"""Seconds to wait for others to settle what they have reserved."""
_LONGEST_REASON = 2000
_SEEN = ManyQuery(
    "UPDATE traces SET undecided = false"
    " WHERE (key, version) IN (SELECT given.trace, given.version FROM {given}) AND undecided",
    _PAIRS,
)
_SAID = ("rule_version", "tenant", "rule", "decision", "reason", "at", "backfill")
# Traces with a newer version are skipped: that version is looked at next. Without WITH, because
# Python's SQLite counts no rows then: the common values follow {given}.
_INSERT = (
    f"INSERT INTO trace_decisions ({', '.join(_SAID)}, trace, version, tries, due_at)"  # noqa: S608
    f" SELECT {', '.join(f'c.{name}' for name in _SAID)}, t.key, t.version, 0, {{due}}"
    f" FROM {{given}} CROSS JOIN (SELECT {', '.join(f'? AS {name}' for name in _SAID)},"
    " ? AS quiet) AS c {each traces t: t.key = given.trace}"
    " WHERE t.version = given.version AND t.tenant = c.tenant ON CONFLICT {conflict}"
)
_DUE_AT = "CASE WHEN t.last_at + c.quiet > c.at THEN t.last_at + c.quiet ELSE c.at END"
# A backfill takes traces again that a cap of another day had excluded.
_CAPPED_AGAIN = (
    "(trace, version, rule_version) DO UPDATE SET decision = 'waiting', reason = excluded.reason,"
    " at = excluded.at, due_at = excluded.due_at, backfill = excluded.backfill"
    " WHERE trace_decisions.decision = 'capped'"
)
_INSERTS = {
    "final": ManyQuery(
        _INSERT.replace("{due}", "NULL").replace("{conflict}", "DO NOTHING"), _PAIRS
    ),
    "waiting": ManyQuery(
        _INSERT.replace("{due}", _DUE_AT).replace("{conflict}", "DO NOTHING"), _PAIRS
    ),
    "again": ManyQuery(
        _INSERT.replace("{due}", _DUE_AT).replace("{conflict}", _CAPPED_AGAIN), _PAIRS
    ),
    "told": ManyQuery(
        _INSERT.replace("{due}", "NULL").replace("{conflict}", "DO NOTHING")
        + " RETURNING trace, version",
        _PAIRS,
    ),
}
# A bare tenant would have SQLite go through all of its traces for each of the given ones.
_READY = (
    "SELECT t.key, t.version, t.started_at{numbers}"
    " FROM {given} {each traces t: t.key = given.trace} WHERE t.version = given.version"
    " AND t.tenant || '' = ? AND t.last_at + ? <= ? AND NOT EXISTS (SELECT 1 FROM trace_decisions d"
    " WHERE d.trace = t.key AND d.version = t.version AND d.rule_version = ? LIMIT 1 OFFSET 0)"
)
_ADVANCE = (
    "UPDATE rule_backfills SET last_key = ? WHERE id = ? AND tenant = ? AND state = 'running'"
)
_DUE = (
    "SELECT d.trace, d.version, d.rule_version, d.tries, d.day, d.reserved, d.cost, t.version,"
    " t.started_at{numbers}"
    " FROM (SELECT * FROM trace_decisions WHERE rule = ? AND backfill = ?"
    " AND decision = 'waiting' AND due_at <= ? ORDER BY due_at, trace LIMIT ?) AS d"
    " JOIN traces t ON t.key = d.trace ORDER BY d.due_at, d.trace"
)
_END = (
    "WITH wanted AS (SELECT given.trace AS trace, given.version AS version FROM {given})"
    " UPDATE trace_decisions SET decision = ?, reason = ?, at = ?, due_at = ?,"
    " cost = COALESCE(?, cost), tries = tries + ?, reserved = NULL WHERE {those}"
    " RETURNING trace, version"
)
_ENDS = {
    False: "(trace, version) IN (SELECT w.trace, w.version FROM wanted w) AND rule_version = ?"
    " AND decision = 'waiting'",
    # Each row is looked up, whatever PostgreSQL's statistics. The rule is locked, so rows do not
    # move.
    True: "ctid = ANY(ARRAY(SELECT f.place FROM wanted w CROSS JOIN LATERAL (SELECT d.ctid AS place"
    " FROM trace_decisions d WHERE d.trace = w.trace AND d.version = w.version"
    " AND d.rule_version = ? AND d.decision = 'waiting' OFFSET 0) AS f))",
}
_END_BY_POSTGRES = {
    postgres: ManyQuery(_END.replace("{those}", those), _PAIRS) for postgres, those in _ENDS.items()
}
_FREE = ManyQuery(
    "SELECT d.trace, d.version FROM {given}"
    " {each trace_decisions d: d.trace = given.trace AND d.version = given.version}"
    " WHERE d.rule_version = ? AND d.decision = 'waiting' AND d.reserved IS NULL",
    _PAIRS,
)
_STORED = ManyQuery(
    "SELECT s.trace, s.version, s.rule_version, s.name, s.is_current"
    " FROM {given} {each trace_scores s: s.trace = given.trace}"
    " WHERE s.rule = ? AND s.author = ''",
    _PAIRS,
)
_SCORE_COLUMNS = (
    *("trace", "version", "rule_version", "name", "author", "tenant", "rule", "value", "label"),
    *("reason", "error", "metadata", "at", "cost", "started_at", "is_current"),
)


class DueTrace(msgspec.Struct, frozen=True, gc=False):
    """A trace that a rule is to score."""

    key: int
    version: int
    rule_version: int
    tries: int
    day: str | None
    reserved: float | None
    cost: float | None
    """Cost of earlier, failed tries."""
    newest: int
    """The version that the trace has by now."""
    started_at: float
    numbers: dict[str, Any]
    """For a formula."""

    @property
    def pair(self) -> tuple[int, int]:
        return self.key, self.version


class KeptScore(msgspec.Struct, frozen=True, gc=False):
    """A score as it is stored."""

    name: str
    value: float | None
    label: str | None
    reason: str
    error: str | None
    metadata: dict[str, Any]
    cost: float | None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """Result of a rule for a trace."""

    due: DueTrace
    decision: str
    """scored, failed, or waiting: it is tried again."""
    reason: str
    scores: tuple[KeptScore, ...] = ()
    cost: float | None = None
    """Known cost in US dollars; None if a judge did not report it."""
    again_at: float | None = None


class Looked(NamedTuple):
    """First decisions of a rule for new traces, as keys and versions."""

    rule: Rule
    waiting: list[tuple[int, int]]
    filtered: list[tuple[int, int]]
    not_drawn: list[tuple[int, int]]


class Granted(NamedTuple):
    """Traces that may be scored now."""

    traces: list[DueTrace]
    postponed: int
    """Traces that wait for the reservations of others."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a rule for one trace, with the reason."""

    trace: str
    trace_version: int
    rule_version: int
    """Its number among the versions of the rule."""
    decision: Decided
    reason: str
    at: float
    due_at: float | None
    tries: int
    backfill: int | None
    cost: float | None


class DecisionEntry(Decision, frozen=True, kw_only=True):
    """A decision as lists show it."""

    place: tuple[float, int, int, int]
    """Position of this entry, for the next page."""


class RuleOutcomes(TenantRows):
    def undecided(self, limit: int) -> list[tuple[int, int, str]]:
        """Traces that no rule has looked at: key, version, id."""
        query = (
            "SELECT key, version, trace_id FROM traces WHERE undecided AND tenant = ?"
            " ORDER BY key LIMIT ?"
        )
        with self._database.read() as connection:
            found: Any = QuickStatements(connection).read(query, self._tenant, limit)
        return list(found)

    def look(self, seen: Sequence[tuple[int, int]], looked: Sequence[Looked], *, now: float) -> int:
        """Store the first decisions of rules for new traces; return how many are to be scored."""

        def work(connection: Connection) -> int:
            statements = QuickStatements(connection)
            statements.run_given(_SEEN, seen)
            return sum(self._look(statements, each, now, 0) for each in looked)

        return self._database.write(work)

    def look_back(
        self,
        looked: Looked,
        outcomes: Sequence[Outcome],
        *,
        now: float,
        backfill: int,
        last_key: int,
    ) -> int:
        """Store a backfill's decisions and scores for traces up to a key; return how many were
        scored.

        Earlier decisions stay, unless the trace was capped. Nothing is stored once the backfill has
        ended or the rule has another version.
        """
        rule = looked.rule
        groups: dict[tuple[str, str], list[Outcome]] = {}
        for each in outcomes:
            groups.setdefault((each.decision, _write_reason(each)), []).append(each)

        def work(connection: Connection) -> int:
            statements = QuickStatements(connection)
            rule_days.lock_rule(statements, rule.id)
            if not rule_days.is_newest(statements, rule.id, rule.version_id):
                return 0
            if not statements.run(_ADVANCE, last_key, backfill, self._tenant):
                return 0
            lock_traces(connection, self._tenant)
            self._look(statements, looked, now, backfill)
            ended: list[Outcome] = []
            for (decision, reason), some in groups.items():
                said = (rule.version_id, self._tenant, rule.id, decision, reason, now, backfill)
                pairs = [each.due.pair for each in some]
                found = set(statements.read_many(_INSERTS["told"], pairs, *said, 0.0))
                ended += [each for each in some if each.due.pair in found]
            rule_days.count_backfill(statements, backfill, {}, queued=len(ended))
            self._spend(statements, rule, ended, find_day(now), backfill)
            self._write_scores(statements, rule, ended, now)
            return len(ended)

        return self._database.write(work)

    def find_ready(
        self, rule: Rule, pairs: Sequence[tuple[int, int]], *, now: float
    ) -> list[DueTrace]:
        """Select traces that were quiet long enough and have no decision by the rule."""
        names = TRACE_NUMBERS if rule.definition.formula is not None else ()
        numbers = "".join(f", t.{name}" for name in names)
        query = ManyQuery(_READY.replace("{numbers}", numbers), _PAIRS)
        values = (self._tenant, rule.definition.quiet, now, rule.version_id)
        with self._database.read() as connection:
            rows = QuickStatements(connection).read_many(query, pairs, *values)
        return [
            DueTrace(
                *(key, version, rule.version_id, 0, None, None, None, version, started_at),
                dict(zip(names, known, strict=True)),
            )
            for key, version, started_at, *known in rows
        ]

    def _look(self, statements: QuickStatements, looked: Looked, now: float, backfill: int) -> int:
        rule = looked.rule
        counts = Counter[str]()
        whose = (rule.version_id, self._tenant, rule.id)
        for decision, pairs in (("filtered", looked.filtered), ("not_drawn", looked.not_drawn)):
            said = (decision, _explain(rule, decision), now, backfill, 0.0)
            counts[decision] = statements.run_given(_INSERTS["final"], pairs, *whose, *said)
        said = ("waiting", explain_drawn(rule), now, backfill, rule.definition.quiet)
        query = _INSERTS["again" if backfill else "waiting"]
        waiting = statements.run_given(query, looked.waiting, *whose, *said)
        rule_days.add_decisions(statements, self._tenant, rule.id, find_day(now), counts)
        if backfill:
            rule_days.count_backfill(statements, backfill, counts, queued=waiting)
        return waiting

    def due(self, rule: Rule, *, now: float, limit: int, backfill: int = 0) -> list[DueTrace]:
        """Traces that a rule is to score by now, the longest waiting first."""
        names = TRACE_NUMBERS if rule.definition.formula is not None else ()
        query = _DUE.replace("{numbers}", "".join(f", t.{name}" for name in names))
        with self._database.read() as connection:
            rows = QuickStatements(connection).read(query, rule.id, backfill, now, limit)
        first = len(DueTrace.__struct_fields__) - 1
        return [
            DueTrace(*(*row[:first], dict(zip(names, row[first:], strict=True)))) for row in rows
        ]

    def count_waiting(self, rule: Rule, backfill: int) -> int:
        """Number of traces that a rule is still to score, now or later."""
        query = (
            "SELECT COUNT(*) FROM trace_decisions"
            " WHERE rule = ? AND backfill = ? AND decision = 'waiting'"
        )
        with self._database.read() as connection:
            return int(QuickStatements(connection).read(query, rule.id, backfill)[0][0])

    def find_known(
        self, rule: Rule, pairs: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        """Decisions that the rule's version has already made for these."""
        query = ManyQuery(
            "SELECT d.trace, d.version, d.decision FROM {given} JOIN trace_decisions d"
            " ON d.trace = given.trace AND d.version = given.version WHERE d.rule_version = ?",
            _PAIRS,
        )
        with self._database.read() as connection:
            rows = QuickStatements(connection).read_many(query, pairs, rule.version_id)
        return {(trace, version): decision for trace, version, decision in rows}

    def find_costs(self, rule: Rule, limit: int) -> list[float | None]:
        """Costs of the newest traces that the rule's version scored."""
        query = (
            "SELECT cost FROM trace_decisions WHERE rule = ? AND rule_version = ?"
            " AND decision IN ('scored', 'failed') ORDER BY at DESC LIMIT ?"
        )
        with self._database.read() as connection:
            rows = QuickStatements(connection).read(query, rule.id, rule.version_id, limit)
        return [row[0] for row in rows]

    def let_go(self, rule: Rule, traces: Iterable[DueTrace], *, now: float, backfill: int) -> None:
        """End the waiting of traces or rules that have a newer version by now."""
        groups: dict[tuple[int, str], list[DueTrace]] = {}
        for each in traces:
            newer = each.newest if each.newest != each.version else None
            said = (
                "another version of the rule came before this was scored"
                if newer is None
                else f"new spans came before this was scored: version {newer} counts"
            )
            groups.setdefault((each.rule_version, said), []).append(each)

        def work(connection: Connection) -> None:
            statements = QuickStatements(connection)
            rule_days.lock_rule(statements, rule.id)
            counts = Counter[str]()
            for (version, said), some in groups.items():
                self._count_lost(statements, rule, some)
                pairs = [(each.key, each.version) for each in some]
                values = ("filtered", said, now, None, None, 0, version)
                counts["filtered"] += len(_end(statements, pairs, *values))
                if any(each.newest == each.version for each in some):
                    statements.run_many(
                        "UPDATE traces SET undecided = true WHERE key = ?",
                        [(each.key,) for each in some] if not backfill else [],
                    )
            rule_days.add_decisions(statements, self._tenant, rule.id, find_day(now), counts)
            if backfill:
                rule_days.count_backfill(statements, backfill, counts)

        self._database.write(work)

    def reserve(
        self,
        rule: Rule,
        traces: Sequence[tuple[DueTrace, float]],
        *,
        now: float,
        backfill: int = 0,
    ) -> Granted:
        """Reserve the possible cost of traces before scoring them.

        Traces beyond the caps of the day are capped; those that would fit without the reservations
        of others wait for them. Traces that no longer wait, because the rule was edited, the trace
        removed, or another worker took them, get no reservation.
        """
        day = find_day(now)

        def work(connection: Connection) -> Granted:
            statements = QuickStatements(connection)
            rule_days.lock_rule(statements, rule.id)
            self._count_lost(statements, rule, [each for each, _ in traces])
            pairs = [(each.key, each.version) for each, _ in traces]
            free = set(statements.read_many(_FREE, pairs, rule.version_id))
            account = rule_days.read_account(statements, self._tenant, rule.id, day)
            granted: list[DueTrace] = []
            rows: list[tuple[Any, ...]] = []
            capped: dict[str, list[DueTrace]] = {}
            postponed: list[DueTrace] = []
            for each, amount in traces:
                if (each.key, each.version) not in free:
                    continue
                refusal = account.refuse(rule.definition, amount, day)
                if refusal is not None:
                    capped.setdefault(refusal, []).append(each)
                elif account.fits(rule.definition, amount):
                    account.add(amount)
                    rows.append((day, amount, each.key, each.version, each.rule_version))
                    granted.append(replace(each, day=day, reserved=amount))
                else:
                    postponed.append(each)
            statements.run_many(
                "UPDATE trace_decisions SET day = ?, reserved = ?"
                " WHERE trace = ? AND version = ? AND rule_version = ? AND decision = 'waiting'",
                rows,
            )
            account.write(statements)
            if not granted:
                self._postpone(statements, postponed, now + _POSTPONED)
            self._cap(statements, rule, capped, now, backfill)
            return Granted(granted, len(postponed))

        return self._database.write(work)

    def _count_lost(
        self, statements: QuickStatements, rule: Rule, traces: Iterable[DueTrace]
    ) -> None:
        """Count the reservations of dead workers as spent, since they may have been."""
        for each in traces:
            if each.reserved is None or each.day is None:
                continue
            done = statements.run(
                "UPDATE trace_decisions SET reserved = NULL, cost = COALESCE(cost, 0) + reserved"
                " WHERE trace = ? AND version = ? AND rule_version = ? AND reserved IS NOT NULL"
                " AND decision = 'waiting'",
                *(each.key, each.version, each.rule_version),
            )
            if done:
                account = rule_days.read_account(statements, self._tenant, rule.id, each.day)
                account.spend(each.reserved, each.reserved)
                account.write(statements)

    def _postpone(
        self, statements: QuickStatements, traces: Iterable[DueTrace], until: float
    ) -> None:
        statements.run_many(
            "UPDATE trace_decisions SET due_at = ?, reason = ?"
            " WHERE trace = ? AND version = ? AND rule_version = ? AND decision = 'waiting'",
            [
                (
                    *(until, "others have set aside what is left of the day's cap"),
                    *(each.key, each.version, each.rule_version),
                )
                for each in traces
            ],
        )

    def _cap(
        self,
        statements: QuickStatements,
        rule: Rule,
        capped: dict[str, list[DueTrace]],
        now: float,
        backfill: int,
    ) -> None:
        counts = Counter[str]()
        for reason, traces in capped.items():
            pairs = [(each.key, each.version) for each in traces]
            values = ("capped", reason, now, None, None, 0, rule.version_id)
            counts["capped"] += len(_end(statements, pairs, *values))
        rule_days.add_decisions(statements, self._tenant, rule.id, find_day(now), counts)
        if backfill:
            rule_days.count_backfill(statements, backfill, counts)

    def write_results(
        self, rule: Rule, outcomes: Sequence[Outcome], *, now: float, backfill: int = 0
    ) -> int:
        """Store results of scoring, each once; return how many traces still waited for theirs."""
        groups: dict[tuple[Any, ...], list[Outcome]] = {}
        for each in outcomes:
            before = each.due.cost or 0.0
            spent = each.cost
            if spent is None and each.decision == "waiting":
                spent = each.due.reserved
            cost = before + spent if spent is not None else before or None
            key = (each.decision, _write_reason(each), each.again_at, cost)
            groups.setdefault(key, []).append(each)

        def work(connection: Connection) -> int:
            statements = QuickStatements(connection)
            rule_days.lock_rule(statements, rule.id)
            ended: list[Outcome] = []
            for (decision, reason, again_at, cost), some in groups.items():
                pairs = [each.due.pair for each in some]
                tried = 1 if decision == "waiting" else 0
                values = (decision, reason, now, again_at, cost, tried, rule.version_id)
                found = set(_end(statements, pairs, *values))
                ended += [each for each, pair in zip(some, pairs, strict=True) if pair in found]
            self._spend(statements, rule, ended, find_day(now), backfill)
            self._write_scores(statements, rule, ended, now)
            return len(ended)

        return self._database.write(work)

    def _spend(
        self,
        statements: QuickStatements,
        rule: Rule,
        ended: Sequence[Outcome],
        today: str,
        backfill: int,
    ) -> None:
        counts, spent = Counter[str](), 0.0
        for day in {each.due.day or today for each in ended}:
            account = rule_days.read_account(statements, self._tenant, rule.id, day)
            for each in ended:
                if (each.due.day or today) != day:
                    continue
                cost = each.cost if each.cost is not None else each.due.reserved or 0.0
                account.spend(cost, each.due.reserved)
                account.count(each.decision)
                counts[each.decision] += 1
                spent += cost
            account.write(statements)
        if backfill:
            rule_days.count_backfill(statements, backfill, counts, spent=spent)

    def _write_scores(
        self, statements: QuickStatements, rule: Rule, ended: Sequence[Outcome], now: float
    ) -> None:
        pairs = [each.due.pair for each in ended]
        stored = statements.read_many(_STORED, pairs, rule.id)
        known = {key for key, *_, is_current in stored if is_current}
        # Loaded from a file, scores come without decisions: those that are there already stay.
        kept = {tuple(row[:4]) for row in stored}
        rows: list[tuple[Any, ...]] = []
        whose = ("", self._tenant, rule.id)
        for each in ended:
            due, is_current = each.due, True
            if due.key in known and each.scores:
                is_current = self._take_over(statements, rule, due)
            for score in each.scores:
                text = json_text(score.metadata) if score.metadata else None
                told = (score.value, _clean(score.label), _clean(score.reason), _clean(score.error))
                place = (due.key, due.version, due.rule_version, make_storable(score.name))
                row = (*place, *whose, *told, text, now, score.cost, due.started_at, is_current)
                if place not in kept:
                    rows.append(row)
        statements.insert("trace_scores", _SCORE_COLUMNS, rows)

    def _take_over(self, statements: QuickStatements, rule: Rule, due: DueTrace) -> bool:
        """Return whether this score is the newest of its trace; if so, make it the current one."""
        mine = "trace = ? AND rule = ? AND author = '' AND is_current"
        newer = statements.read(
            f"SELECT 1 FROM trace_scores WHERE {mine}"  # noqa: S608  our words
            " AND (version > ? OR (version = ? AND rule_version > ?)) LIMIT 1",
            *(due.key, rule.id, due.version, due.version, due.rule_version),
        )
        if newer:
            return False
        statements.run(
            f"UPDATE trace_scores SET is_current = false WHERE {mine}"  # noqa: S608  our words
            " AND NOT (version = ? AND rule_version = ?)",
            *(due.key, rule.id, due.version, due.rule_version),
        )
        return True

    def list(
        self,
        rule: Rule,
        *,
        decision: str | None = None,
        trace: str | None = None,
        before: tuple[float, int, int, int] | None = None,
        limit: int = 50,
    ) -> list[DecisionEntry]:
        """Decisions, newest first; `before` is the place of the last one of the page before."""
        if decision is not None and decision not in DECISIONS:
            near = suggest(decision, DECISIONS)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(DECISIONS)}"
            raise InvalidInput(f"there is no decision {decision!r}", hint=hint)
        conditions, values = ["d.rule = ?", "d.tenant = ?"], [rule.id, self._tenant]
        for condition, value in (("d.decision = ?", decision), ("t.trace_id = ?", trace)):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        if before is not None:
            conditions.append("(d.at, d.trace, d.version, d.rule_version) < (?, ?, ?, ?)")
            values += before
        query = (
            "SELECT t.trace_id, d.version, v.number, d.decision, d.reason, d.at, d.due_at, d.tries,"  # noqa: S608
            " d.backfill, d.cost, d.trace, d.rule_version FROM trace_decisions d"
            " JOIN traces t ON t.key = d.trace JOIN rule_versions v ON v.id = d.rule_version"
            f" WHERE {' AND '.join(conditions)}"
            " ORDER BY d.at DESC, d.trace DESC, d.version DESC, d.rule_version DESC LIMIT ?"
        )
        with self._database.read() as connection:
            rows = QuickStatements(connection).read(query, *values, limit)
        return [
            DecisionEntry(
                trace=row[0],
                trace_version=row[1],
                rule_version=row[2],
                decision=row[3],
                reason=row[4],
                at=row[5],
                due_at=row[6],
                tries=row[7],
                backfill=row[8] or None,
                cost=row[9],
                place=(row[5], row[10], row[1], row[11]),
            )
            for row in rows
        ]


def _end(
    statements: QuickStatements, pairs: Sequence[tuple[int, int]], *values: Any
) -> list[tuple[Any, ...]]:
    """End the waiting of these; return those that waited."""
    return statements.read_many(_END_BY_POSTGRES[statements.is_postgres], pairs, *values)


def _explain(rule: Rule, decision: str) -> str:
    if decision == "filtered":
        return "it does not meet the filter"
    return f"it is not among the {format_number(rule.definition.rate)} % that are drawn"


def explain_drawn(rule: Rule) -> str:
    """The reason why a trace is scored."""
    said = rule.definition
    drawn = "every trace" if said.rate >= 100 else f"drawn at {format_number(said.rate)} %"
    return f"{drawn}{' that meets the filter' if said.filter else ''}"


def _write_reason(outcome: Outcome) -> str:
    return make_storable(outcome.reason[:_LONGEST_REASON])


def _clean(text: str | None) -> str | None:
    return None if text is None else make_storable(text)
