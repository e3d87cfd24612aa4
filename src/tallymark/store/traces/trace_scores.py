"""Scores of traces: each written once, read with their traces, and which of them count.

`trace_scores` has one row for each trace version, rule version and name of a score (a scorer may
give several), so nothing is scored twice. A person's own score has the rule 0, the rule version 0
and its `author`; a rule's author is ''. `is_current` marks, for each trace, name, rule and author,
the newest one: filters, lists and sums see only that. A new version of the trace or the rule takes
over only with its own score. Of rules with one name, all but one archived, only the newest one's
scores count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Boolean, Column, Integer, PrimaryKeyConstraint, Table, Text

from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    json_text,
    make_storable,
    metadata,
    partial_index,
    read_json_mapping,
)
from tallymark.store.quick_statements import ManyQuery, QuickStatements, write_insert
from tallymark.store.traces.rules import find_replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallymark.store.database import Database


trace_scores = Table(
    "trace_scores",
    metadata,
    Column("trace", RowKey, nullable=False),  # traces.key
    Column("version", Integer, nullable=False),  # of the trace
    Column("rule_version", RowKey, nullable=False),  # rule_versions.id; 0 is a person's own
    Column("name", CodePointText, nullable=False),
    Column("author", CodePointText, nullable=False),  # '' is the rule
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),  # rules.id; 0 is a person's own
    Column("value", FiniteFloat),  # NULL: it could not be scored
    Column("label", CodePointText),
    Column("reason", CodePointText),
    Column("error", CodePointText),
    Column("metadata", Text),  # JSON
    Column("at", FiniteFloat, nullable=False),
    Column("cost", FiniteFloat),  # of the judge
    Column("started_at", FiniteFloat, nullable=False),  # of the trace, for sums over time
    Column("is_current", Boolean, nullable=False),
    PrimaryKeyConstraint(
        "trace", "version", "rule_version", "name", "author", name="pk_trace_scores"
    ),
    partial_index("ix_trace_scores_value", "tenant", "name", "value", "trace", where="is_current"),
    partial_index(
        "ix_trace_scores_time", "tenant", "name", "started_at", "value", "trace", where="is_current"
    ),
    partial_index(
        *("ix_trace_scores_people", "tenant", "name", "value", "trace"),
        where="is_current AND author <> ''",
    ),
)
PERSON = 0
"""The rule, and the version of the rule, of what people scored themselves."""
_NAMES = (
    *("trace", "version", "rule_version", "name", "author", "tenant", "rule", "value", "label"),
    *("reason", "error", "metadata", "at", "cost", "started_at", "is_current"),
)
_INSERT = f"{write_insert('trace_scores', _NAMES)} ON CONFLICT DO NOTHING"
_UPSERT = (
    f"{write_insert('trace_scores', _NAMES)} ON CONFLICT (trace, version, rule_version, name,"
    " author) DO UPDATE SET value = excluded.value, label = excluded.label,"
    " reason = excluded.reason, error = excluded.error, metadata = excluded.metadata,"
    " at = excluded.at, is_current = excluded.is_current"
)
_NEWER = (
    "SELECT 1 FROM trace_scores WHERE trace = ? AND name = ? AND rule = ? AND author = ?"
    " AND is_current AND (version, rule_version) > (?, ?)"
)
_RETIRE = (
    "UPDATE trace_scores SET is_current = false WHERE trace = ? AND name = ? AND rule = ?"
    " AND author = ? AND is_current"
)
_OF_TRACES = ManyQuery(
    "SELECT s.trace, s.version, s.rule_version, s.name, s.author, s.rule, s.value, s.label,"
    " s.reason, s.error, s.metadata, s.at, s.cost, s.started_at, s.is_current"
    " FROM {given} {each trace_scores s: s.trace = given.trace} WHERE s.tenant = ?"
    " ORDER BY s.trace, s.name, s.at",
    (("trace", "bigint"),),
)


class StoredScore(msgspec.Struct, frozen=True, kw_only=True):
    """One score of one version of a trace."""

    trace: int
    """The key of its row."""
    version: int
    rule_version: int = PERSON
    name: str
    author: str = ""
    """The person who scored it; '' is a rule."""
    rule: int = PERSON
    value: float | None
    label: str | None = None
    reason: str | None = None
    error: str | None = None
    metadata: dict[str, Any] = {}
    at: float
    cost: float | None = None
    started_at: float
    """When the trace began."""
    is_current: bool = True


def write_scores(
    statements: QuickStatements,
    tenant: str,
    scores: Sequence[StoredScore],
    *,
    correct: bool = False,
) -> int:
    """Write scores in the open transaction; return how many were new.

    Existing scores stay and do not count; `correct` replaces them, as people may. The newest
    version of a trace and its rule is the current one.
    """
    written = 0
    for each in scores:
        whose = (each.trace, each.name, each.rule, each.author)
        newer = statements.read(_NEWER, *whose, each.version, each.rule_version)
        row = _write_row(tenant, each, is_current=not newer)
        if correct:
            if not newer:
                statements.run(_RETIRE, *whose)
            written += statements.run(_UPSERT, *row)
            continue
        if statements.run(_INSERT, *row[:-1], False):
            written += 1
            if not newer:
                statements.run(_RETIRE, *whose)
                statements.run(
                    "UPDATE trace_scores SET is_current = true WHERE trace = ? AND version = ?"
                    " AND rule_version = ? AND name = ? AND author = ?",
                    *row[:5],
                )
    return written


def read_scores(
    database: Database, tenant: str, keys: Sequence[int], *, all_of_them: bool = False
) -> dict[int, list[StoredScore]]:
    """Scores of traces by their keys: the current ones, or all of them."""
    with database.read() as connection:
        statements = QuickStatements(connection)
        rows = statements.read_many(_OF_TRACES, [(key,) for key in keys], tenant)
        replaced = find_replaced(statements, tenant) if rows else {}
    found: dict[int, list[StoredScore]] = {key: [] for key in keys}
    for row in rows:
        values = dict(zip(_READ_NAMES, row, strict=True))
        values["metadata"] = read_json_mapping(values["metadata"])
        values["is_current"] = bool(values["is_current"]) and values["rule"] not in replaced
        if all_of_them or values["is_current"]:
            found[row[0]].append(StoredScore(**values))
    return found


_READ_NAMES = tuple(name for name in _NAMES if name != "tenant")


def _write_row(tenant: str, score: StoredScore, *, is_current: bool) -> tuple[Any, ...]:
    texts = (score.label, score.reason, score.error)
    label, reason, error = (None if each is None else make_storable(each) for each in texts)
    return (
        *(score.trace, score.version, score.rule_version),
        *(make_storable(score.name), make_storable(score.author), tenant, score.rule),
        *(score.value, label, reason, error),
        json_text(score.metadata) if score.metadata else None,
        *(score.at, score.cost, score.started_at, is_current),
    )
