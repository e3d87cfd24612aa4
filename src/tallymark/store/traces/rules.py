"""The rules of a tenant: made, edited, paused, archived. Editing adds a version."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from sqlalchemy import (
    Column,
    Index,
    Integer,
    Table,
    insert,
    select,
    text,
    update,
)

from tallymark.errors import Conflict, InvalidInput, NotFound, suggest
from tallymark.store.contests.audit_log import find_actor
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    lock_rows,
    metadata,
    partial_index,
)
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.row_numbers import take_number
from tallymark.store.traces.rule_days import add_decisions, find_day

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row


rule_rows = Table(
    "rules",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("state", CodePointText, nullable=False),  # active, paused or deleted
    Column("version", Integer, nullable=False),  # rule_versions.number that counts
    Column("owner", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("changed_at", FiniteFloat, nullable=False),
    # The obstacle to scoring, the number of failed tries, and the time of the next one.
    Column("trouble", CodePointText),
    Column("failures", Integer, nullable=False),
    Column("again_at", FiniteFloat),
    partial_index("ux_rules_name", "tenant", "name", where="state <> 'deleted'", unique=True),
    sqlite_autoincrement=True,
)

rule_versions = Table(
    "rule_versions",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),  # rules.id
    Column("number", Integer, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("author", CodePointText, nullable=False),
    Column("digest", CodePointText, nullable=False),  # of the definition
    Column("definition", JsonText, nullable=False),  # scorer, filter, rate, caps, quiet time
    Index("ux_rule_versions", "rule", "number", unique=True),
    sqlite_autoincrement=True,
)
RuleState = Literal["active", "paused", "deleted"]
_IS_THERE = text("rules.state <> 'deleted'")
"""The condition of `ux_rules_name`, literally: bound parameters would not use it."""
_OWNER = "owner"
"""The actor of a command, which has the database itself."""
_SHOWN = ("id", "name", "state", "owner", "created_at", "changed_at", "trouble", "again_at")
# A trace is looked at again by the new version, unless a backfill had brought it.
_UNDECIDE = (
    "UPDATE traces SET undecided = true WHERE key IN (SELECT trace FROM trace_decisions"
    " WHERE rule = ? AND decision = 'waiting' AND backfill = 0 AND reserved IS NULL)"
)
# Traces with a reservation are finished by the version that began them.
_LET_GO = (
    "UPDATE trace_decisions SET decision = 'filtered', reason = ?, due_at = NULL, at = ?"
    " WHERE rule = ? AND decision = 'waiting' AND reserved IS NULL"
)
_REPLACED = (
    "SELECT id, name FROM rules WHERE tenant = ? AND id NOT IN"
    " (SELECT max(id) FROM rules WHERE tenant = ? GROUP BY name)"
)
FORMULA_NAMES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("cost", "duration", "latency"), (0.0, math.inf)),
    **dict.fromkeys(("tokens", "input_tokens", "output_tokens"), (0.0, math.inf)),
    **dict.fromkeys(("spans", "model_calls", "tool_calls", "errors"), (0.0, math.inf)),
    "failed": (0.0, 1.0),
}
"""Names in formulas of rules. `latency` is the duration, in seconds; `failed` is 1 or 0."""


def read_formula_values(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Values for a formula, from the columns of a trace."""
    return {
        **{name: columns[name] for name in FORMULA_NAMES if name in columns},
        "latency": columns["duration"],
        "failed": 1.0 if columns["status"] == "error" else 0.0,
    }


class RuleDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Definition of a version of a rule; `service/rule_definitions.py` reads and checks it."""

    scorer: str | None = None
    """Exactly one of these four is given."""
    composite: dict[str, Any] | None = None
    judge: dict[str, Any] | None = None
    formula: str | None = None
    undefined: float | None = None
    """Value of an undefined formula; None: it fails."""
    filter: str = ""
    rate: float = 100.0
    """Percent of the traces that meet the filter."""
    cap_cost: float | None = None
    """US dollars a day, for judges."""
    cap_count: int | None = None
    """Traces a day."""
    quiet: float = 0.0
    """Seconds without new spans, where that is more than what settles a trace."""
    reserve: float | None = None
    """US dollars to reserve for each trace, if prices are unknown."""
    folder: str | None = None
    """Folder of its files, for a rule made by a command. None: it was sent to a server."""

    @property
    def digest(self) -> str:
        """Hash of the definition: equal definitions have equal hashes."""
        plain = msgspec.json.encode(self, order="sorted")
        return hashlib.sha256(plain).hexdigest()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with its current version."""

    id: int
    name: str
    state: RuleState
    owner: str
    created_at: float
    changed_at: float
    trouble: str | None
    """The current obstacle to scoring."""
    again_at: float | None
    version: int
    version_id: int
    definition: RuleDefinition


class RuleVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A current or former version of a rule."""

    number: int
    id: int
    at: float
    author: str
    definition: RuleDefinition


class Rules(TenantRows):
    def add(self, name: str, definition: RuleDefinition, *, owner: str, at: float) -> Rule:
        """Make a rule; a name that is taken is refused."""

        def work(connection: Connection) -> Rule:
            known = self._read(connection, name)
            if known is not None:
                if known.definition == definition and known.created_at == at:
                    return known  # a connection was lost after the commit
                raise Conflict(f"there is a rule {name!r} already", hint="edit it, or name another")
            values = {"name": name, "state": "active", "version": 1, "owner": owner}
            times = {"created_at": at, "changed_at": at}
            rule = take_number(connection, rule_rows.name, self._tenant)
            statement = insert(rule_rows).values(tenant=self._tenant, failures=0, **values, **times)
            connection.execute(statement.values(id=rule))
            self._add_version(connection, rule, 1, definition, at)
            return self._require(connection, name)

        return self._database.write(work)

    def list(self, *, state: RuleState | None = None) -> list[Rule]:
        """All rules that are not archived, by name."""
        query = self._select().where(_IS_THERE).order_by(rule_rows.c.name)
        if state is not None:
            query = query.where(rule_rows.c.state == state)
        with self._database.read() as connection:
            return [_make_rule(row) for row in connection.execute(query)]

    def get(self, name: str) -> Rule:
        with self._database.read() as connection:
            return self._require(connection, name)

    def find(self, rule_id: int) -> Rule | None:
        """A rule by its id, also an archived one."""
        with self._database.read() as connection:
            row = connection.execute(self._select().where(rule_rows.c.id == rule_id)).first()
        return None if row is None else _make_rule(row)

    def versions(self, name: str) -> Sequence[RuleVersion]:
        """Versions of a rule, newest first."""
        with self._database.read() as connection:
            rule = self._require(connection, name)
            query = select(rule_versions).where(rule_versions.c.rule == rule.id)
            rows = connection.execute(query.order_by(rule_versions.c.number.desc()))
            return [
                RuleVersion(
                    number=row.number,
                    id=row.id,
                    at=row.at,
                    author=row.author,
                    definition=msgspec.convert(row.definition, RuleDefinition),
                )
                for row in rows
            ]

    def edit(self, name: str, definition: RuleDefinition, *, at: float) -> Rule:
        """Make a new version the current one; an equal definition makes none."""

        def work(connection: Connection) -> Rule:
            rule = self._lock(connection, name)
            if rule.definition == definition:
                return rule
            number = rule.version + 1
            self._add_version(connection, rule.id, number, definition, at)
            reason = f"version {number} of the rule came before this was scored"
            self._let_go(connection, rule, reason, at, again=True)
            self._change(connection, rule, at, version=number, trouble=None, failures=0)
            return self._require(connection, name)

        return self._database.write(work)

    def set_state(self, name: str, state: RuleState, *, at: float) -> Rule:
        """Pause, resume or archive a rule. A paused rule still scores the traces that wait."""

        def work(connection: Connection) -> Rule:
            rule = self._lock(connection, name)
            if state == "deleted":
                self._let_go(connection, rule, "the rule was deleted", at)
            if rule.state != state:
                self._change(connection, rule, at, state=state, trouble=None, failures=0)
            row = connection.execute(self._select().where(rule_rows.c.id == rule.id)).one()
            return _make_rule(row)

        return self._database.write(work)

    def report_trouble(self, rule_id: int, trouble: str, at: float, delay: float) -> None:
        """Store an obstacle to scoring; the rule is tried again after `delay` seconds or more."""

        def work(connection: Connection) -> None:
            values = {
                "trouble": trouble,
                "again_at": at + delay,
                "failures": rule_rows.c.failures + 1,
            }
            connection.execute(update(rule_rows).where(rule_rows.c.id == rule_id).values(values))

        self._database.write(work)

    def clear_trouble(self, rule_id: int) -> None:
        values = {"trouble": None, "again_at": None, "failures": 0}
        self._database.write(
            lambda c: c.execute(update(rule_rows).where(rule_rows.c.id == rule_id).values(values))
        )

    def count_failures(self, rule_id: int) -> int:
        """Number of consecutive failures to score."""
        with self._database.read() as connection:
            return (
                connection.scalar(select(rule_rows.c.failures).where(rule_rows.c.id == rule_id))
                or 0
            )

    def _select(self) -> Any:
        columns = (
            *(rule_rows.c[name] for name in _SHOWN),
            rule_versions.c.number,
            rule_versions.c.id.label("version_id"),
            rule_versions.c.definition,
        )
        counts = (rule_versions.c.rule == rule_rows.c.id) & (
            rule_versions.c.number == rule_rows.c.version
        )
        joined = select(*columns).join(rule_versions, counts)
        return joined.where(rule_rows.c.tenant == self._tenant)

    def _read(self, connection: Connection, name: str) -> Rule | None:
        row = connection.execute(self._select().where(rule_rows.c.name == name, _IS_THERE)).first()
        return None if row is None else _make_rule(row)

    def _require(self, connection: Connection, name: str) -> Rule:
        found = self._read(connection, name)
        if found is None:
            mine = (rule_rows.c.tenant == self._tenant, _IS_THERE)
            near = suggest(name, list(connection.scalars(select(rule_rows.c.name).where(*mine))))
            hint = f"did you mean {near!r}?" if near else "list them: tally rules list"
            raise NotFound(f"there is no rule {name!r}", hint=hint)
        return found

    def _lock(self, connection: Connection, name: str) -> Rule:
        """Lock a rule until the transaction ends: no other worker decides or scores by it."""
        rule = self._require(connection, name)
        connection.execute(lock_rows(select(rule_rows.c.id).where(rule_rows.c.id == rule.id)))
        return self._require(connection, name)

    def _add_version(
        self, connection: Connection, rule: int, number: int, said: RuleDefinition, at: float
    ) -> None:
        values = {
            "id": take_number(connection, rule_versions.name, self._tenant),
            "tenant": self._tenant,
            "rule": rule,
            "number": number,
            "at": at,
            "author": name_author(),
            "digest": said.digest,
            "definition": msgspec.to_builtins(said),
        }
        connection.execute(insert(rule_versions).values(values))

    def _let_go(
        self, connection: Connection, rule: Rule, reason: str, at: float, *, again: bool = False
    ) -> None:
        statements = QuickStatements(connection)
        if again:
            statements.run(_UNDECIDE, rule.id)
        freed = statements.run(_LET_GO, reason, at, rule.id)
        add_decisions(statements, self._tenant, rule.id, find_day(at), {"filtered": freed})

    def _change(self, connection: Connection, rule: Rule, at: float, **values: Any) -> None:
        changed = update(rule_rows).where(rule_rows.c.id == rule.id)
        connection.execute(changed.values(changed_at=at, again_at=None, **values))


def find_replaced(statements: QuickStatements, tenant: str) -> dict[int, str]:
    """Archived rules with names that other rules have by now: their scores do not count."""
    return dict(statements.read(_REPLACED, tenant, tenant))


def name_author() -> str:
    """Name of the actor."""
    actor = find_actor()
    return _OWNER if actor is None else actor.name


def refuse_name(name: str) -> None:
    """Refuse a name that cannot be part of a filter for the rule's scores."""
    fits = 0 < len(name) <= 60 and name[0].isalnum()
    if not fits or not all(each.isascii() and (each.isalnum() or each in "_-") for each in name):
        raise InvalidInput(
            f"{name[:80]!r} cannot name a rule",
            hint="use up to 60 letters, digits, '_' and '-', a letter or digit first",
        )


def _make_rule(row: Row[Any]) -> Rule:
    told = row._asdict()
    said = msgspec.convert(told.pop("definition"), RuleDefinition)
    return Rule(version=told.pop("number"), definition=said, **told)
