"""Decisions and spending of a rule per day (UTC), and what workers have reserved of its caps.

Before a trace is scored, its share is reserved in the row of the day under the row's lock, in the
transaction that writes it to the decision: sums never pass the cap, however many workers there are.
With the score, the reservation becomes spending. What a dead worker had reserved counts as spent
once another worker takes over, because it may have been. The row also counts the day's decisions,
so lists need not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Column, Integer, PrimaryKeyConstraint, Table

from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    metadata,
)
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.text import format_count, format_money

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallymark.store.traces.rules import Rule, RuleDefinition


DECIDED = ("scored", "failed", "filtered", "not_drawn", "capped")
"""Final decisions of a rule about a trace."""

rule_day_rows = Table(
    "rule_days",
    metadata,
    Column("rule", RowKey, nullable=False),
    Column("day", CodePointText, nullable=False),  # 2026-01-31
    Column("tenant", CodePointText, nullable=False),
    *(Column(name, Integer, nullable=False) for name in DECIDED),
    Column("spent", FiniteFloat, nullable=False),
    Column("reserved_count", Integer, nullable=False),
    Column("reserved_cost", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("rule", "day", name="pk_rule_days"),
    sqlite_with_rowid=False,
)
_AMOUNTS = (*DECIDED, "spent", "reserved_count", "reserved_cost")
_MAKE = (
    f"INSERT INTO rule_days (rule, day, tenant, {', '.join(_AMOUNTS)})"  # noqa: S608  our names
    f" VALUES (?, ?, ?{', 0' * len(_AMOUNTS)}) ON CONFLICT DO NOTHING"
)
_ROUNDING = 1e-9
"""Rounding error of sums of costs: far less than any verdict costs."""


class RuleDay(msgspec.Struct, frozen=True, kw_only=True):
    """One day of a rule, UTC."""

    day: str
    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    spent: float
    """US dollars."""
    reserved_count: int
    """Traces that are being scored."""
    reserved_cost: float


class RuleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a rule since it was made."""

    scored: int = 0
    failed: int = 0
    filtered: int = 0
    not_drawn: int = 0
    capped: int = 0
    waiting: int = 0
    spent: float = 0.0


class RuleDays(TenantRows):
    def list(self, rule: Rule, *, since: str | None = None, limit: int = 400) -> list[RuleDay]:
        """Each day with a decision, newest first."""
        query = (
            f"SELECT day, {', '.join(_AMOUNTS)} FROM rule_days"  # noqa: S608  our names
            " WHERE rule = ? AND tenant = ? AND day >= ? ORDER BY day DESC LIMIT ?"
        )
        with self._database.read() as connection:
            rows = QuickStatements(connection).read(
                query, rule.id, self._tenant, since or "", limit
            )
        names = RuleDay.__struct_fields__
        return [RuleDay(**dict(zip(names, row, strict=True))) for row in rows]

    def sum_up(self) -> dict[int, RuleCounts]:
        """Totals of every rule of the tenant, by its id."""
        sums = ", ".join(f"SUM({name})" for name in (*DECIDED, "spent"))
        with self._database.read() as connection:
            statements = QuickStatements(connection)
            rows = statements.read(
                f"SELECT rule, {sums} FROM rule_days WHERE tenant = ? GROUP BY rule",  # noqa: S608
                self._tenant,
            )
            # By rule: the index of those that wait begins with it.
            waits = statements.read(
                "SELECT r.id, (SELECT COUNT(*) FROM trace_decisions d"
                " WHERE d.rule = r.id AND d.decision = 'waiting') FROM rules r WHERE r.tenant = ?",
                self._tenant,
            )
        waiting = {rule: int(count) for rule, count in waits}
        found = dict.fromkeys(waiting, RuleCounts())
        for rule, *counts, spent in rows:
            named = {name: int(count) for name, count in zip(DECIDED, counts, strict=True)}
            found[rule] = RuleCounts(**named, spent=float(spent))
        return {
            rule: msgspec.structs.replace(each, waiting=waiting.get(rule, 0))
            for rule, each in found.items()
        }


class DayAccount:
    """A day's row while it is locked: read, changed in memory, written once."""

    def __init__(self, rule: int, day: str, values: dict[str, Any]) -> None:
        self._rule = rule
        self._day = day
        self._values = values

    def refuse(self, caps: RuleDefinition, amount: float, day: str) -> str | None:
        """The reason why a cap is used up; None if there is or may be space for one more."""
        values = self._values
        used = values["scored"] + values["failed"]
        if caps.cap_count is not None and used >= caps.cap_count:
            return f"the cap of {format_count(caps.cap_count, 'trace')} a day is reached on {day}"
        if caps.cap_cost is not None and values["spent"] + amount > caps.cap_cost + _ROUNDING:
            return (
                f"the cap of {format_money(caps.cap_cost)} a day has no room on {day}:"
                f" {format_money(values['spent'])} is spent, and this may cost"
                f" {format_money(amount)}"
            )
        return None

    def fits(self, caps: RuleDefinition, amount: float) -> bool:
        """Return whether there is space next to the reservations of others."""
        values = self._values
        used = values["scored"] + values["failed"] + values["reserved_count"]
        spent = values["spent"] + values["reserved_cost"]
        return (caps.cap_count is None or used < caps.cap_count) and (
            caps.cap_cost is None or spent + amount <= caps.cap_cost + _ROUNDING
        )

    def add(self, amount: float) -> None:
        """Reserve one trace and its possible cost."""
        self._values["reserved_count"] += 1
        self._values["reserved_cost"] += amount

    def spend(self, cost: float, reserved: float | None) -> None:
        """Turn a reservation, if there was one, into spending."""
        values = self._values
        values["spent"] += cost
        if reserved is None:
            return
        values["reserved_count"] = max(0, values["reserved_count"] - 1)
        left = values["reserved_cost"] - reserved
        # Without reservations, rounding errors of the sum are dropped.
        values["reserved_cost"] = max(0.0, left) if values["reserved_count"] else 0.0

    def count(self, decision: str) -> None:
        """Count a decision; waiting ones are not counted."""
        if decision in DECIDED:
            self._values[decision] += 1

    def write(self, statements: QuickStatements) -> None:
        places = ", ".join(f"{name} = ?" for name in _AMOUNTS)
        statements.run(
            f"UPDATE rule_days SET {places} WHERE rule = ? AND day = ?",  # noqa: S608  our names
            *(self._values[name] for name in _AMOUNTS),
            *(self._rule, self._day),
        )


def find_day(at: float) -> str:
    """The day of a time, UTC."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def lock_rule(statements: QuickStatements, rule: int) -> None:
    """Lock a rule, so that one transaction at a time scores by it.

    SQLite's writers are alone already.
    """
    if statements.is_postgres:
        statements.read("SELECT 1 FROM rules WHERE id = ? FOR UPDATE", rule)


def is_newest(statements: QuickStatements, rule: int, version: int) -> bool:
    """Return whether a version of a locked rule is the current one."""
    query = (
        "SELECT 1 FROM rules r JOIN rule_versions v ON v.rule = r.id AND v.number = r.version"
        " WHERE r.id = ? AND v.id = ? AND r.state <> 'deleted'"
    )
    return bool(statements.read(query, rule, version))


def read_account(statements: QuickStatements, tenant: str, rule: int, day: str) -> DayAccount:
    """A day of a locked rule, made if there is none yet."""
    statements.run(_MAKE, rule, day, tenant)
    (row,) = statements.read(
        f"SELECT {', '.join(_AMOUNTS)} FROM rule_days WHERE rule = ? AND day = ?",  # noqa: S608
        *(rule, day),
    )
    return DayAccount(rule, day, dict(zip(_AMOUNTS, row, strict=True)))


def add_decisions(
    statements: QuickStatements, tenant: str, rule: int, day: str, counts: Mapping[str, int]
) -> None:
    """Add decisions to a day."""
    added = {name: counts[name] for name in DECIDED if counts.get(name)}
    if not added:
        return
    statements.run(_MAKE, rule, day, tenant)
    places = ", ".join(f"{name} = {name} + ?" for name in added)
    statements.run(
        f"UPDATE rule_days SET {places} WHERE rule = ? AND day = ?",  # noqa: S608  our names
        *(*added.values(), rule, day),
    )


def count_backfill(
    statements: QuickStatements,
    backfill: int,
    counts: Mapping[str, int],
    *,
    queued: int = 0,
    spent: float = 0.0,
) -> None:
    """Add decisions to the totals of a backfill."""
    names = ("queued", "spent", *DECIDED)
    places = ", ".join(f"{name} = {name} + ?" for name in names)
    statements.run(
        f"UPDATE rule_backfills SET {places} WHERE id = ?",  # noqa: S608  our names
        *(queued, spent, *(counts.get(name, 0) for name in DECIDED), backfill),
    )


def count_removed(statements: QuickStatements, tenant: str, traces: Sequence[int]) -> None:
    """Count reservations for traces that are about to be removed as spent.

    Their workers can no longer report the cost. Called before the traces are locked: rules are
    locked first everywhere.
    """
    query = ManyQuery(
        "SELECT d.rule, d.day, d.trace, d.version, d.rule_version FROM {given}"
        " JOIN trace_decisions d ON d.trace = given.key"
        " WHERE d.decision = 'waiting' AND d.reserved IS NOT NULL AND d.tenant = ?"
        " ORDER BY d.rule, d.day",
        (("key", "bigint"),),
    )
    for rule, day, *row in statements.read_many(query, [(each,) for each in traces], tenant):
        lock_rule(statements, rule)
        found = statements.read(
            "SELECT reserved FROM trace_decisions WHERE trace = ? AND version = ?"
            " AND rule_version = ? AND decision = 'waiting' AND reserved IS NOT NULL",
            *row,
        )
        if found:
            account = read_account(statements, tenant, rule, day)
            account.spend(found[0][0], found[0][0])
            account.write(statements)
