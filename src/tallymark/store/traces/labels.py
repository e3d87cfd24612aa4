"""Labels inside a transaction: found or made by the thousand, and put on traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.store.quick_statements import ManyQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.store.quick_statements import QuickStatements

Label = tuple[str, str, str]
"""Tenant, kind and value."""
_COLUMNS = (("tenant", "text"), ("kind", "text"), ("value", "text"))
_FIND = (
    "SELECT l.tenant, l.kind, l.value, l.id FROM {given} JOIN labels l"
    " ON l.tenant = given.tenant AND l.kind = given.kind AND l.value = given.value"
)
# Held until the end: whoever removes labels that no trace has must not remove these.
_FIND_AND_HOLD = f"{_FIND} ORDER BY l.id FOR KEY SHARE OF l"
_ADD = (
    "INSERT INTO labels (tenant, kind, value) SELECT given.tenant, given.kind, given.value"
    " FROM {given}{where} ON CONFLICT DO NOTHING"
)


def find_label_ids(statements: QuickStatements, wanted: Iterable[Label]) -> dict[Label, int]:
    """The ids of labels; those that are new are made."""
    # In one order everywhere, so that two servers that make the same ones wait, and do not lock up.
    asked = sorted(set(wanted))
    text = _FIND_AND_HOLD if statements.is_postgres else _FIND
    find = ManyQuery(text, _COLUMNS)
    known = {tuple(row[:3]): row[3] for row in statements.read_many(find, asked)}
    missing = [each for each in asked if each not in known]
    if missing:
        # SQLite would take ON for the condition of a join.
        where = "" if statements.is_postgres else " WHERE true"
        statements.run_given(ManyQuery(_ADD.replace("{where}", where), _COLUMNS), missing)
        known |= {tuple(row[:3]): row[3] for row in statements.read_many(find, missing)}
    return known


def write_trace_labels(
    statements: QuickStatements, tenant: str, trace: int, started_at: float, ids: Iterable[int]
) -> None:
    """Puts labels on a trace."""
    rows = [(each, started_at, trace, tenant) for each in ids]
    statements.insert("trace_labels", ("label", "started_at", "trace", "tenant"), rows)


def remove_trace_labels(
    statements: QuickStatements, trace: int, started_at: float, ids: str
) -> None:
    """Takes all labels off a trace; `ids` is the column `labels` of its row."""
    statements.run_many(
        "DELETE FROM trace_labels WHERE label = ? AND started_at = ? AND trace = ?",
        [(each, started_at, trace) for each in msgspec.json.decode(ids, type=list[int])],
    )
