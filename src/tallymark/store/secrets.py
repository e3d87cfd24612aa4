"""Secrets in the database: sealed on the way in, opened only for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store.keys import KEY_VARIABLE, find_key, find_or_make_key, key_file
from tallymark.store.names import explain_unknown, list_names
from tallymark.store.names import secrets as table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from tallymark.store.address import DatabaseAddress


def seal_row(address: DatabaseAddress, owner: tuple[str, str], value: str) -> dict[str, Any]:
    """The row for a secret of a tenant and name."""
    tenant, name = owner
    if not value:
        raise InvalidInput(f"the secret {name!r} is empty")
    key = find_or_make_key(address)
    return {"tenant": tenant, "name": name, "key_id": key.id, "sealed": key.seal(value, owner)}


def read_sealed_rows(
    connection: Connection, tenant: str, wanted: list[str]
) -> Sequence[Row[str, str, bytes]]:
    """The rows of the named secrets; a name that is not there is refused."""
    query = select(table.c.name, table.c.key_id, table.c.sealed)
    mine = query.where(table.c.tenant == tenant, table.c.name.in_(wanted))
    rows = connection.execute(mine).all()
    missing = set(wanted) - {row.name for row in rows}
    if missing:
        known = list_names(connection, table, tenant)
        raise InvalidInput(
            [
                problem
                for name in sorted(missing)
                for problem in explain_unknown(table, name, known).problems
            ]
        )
    return rows


def open_rows(
    address: DatabaseAddress, tenant: str, rows: Sequence[Row[str, str, bytes]]
) -> dict[str, str]:
    """The values by name."""
    if not rows:
        return {}
    key = find_key(address)
    if key is None:
        raise WorkFailed(
            f"the key of the stored secrets is missing: {KEY_VARIABLE} is not set, and there is no"
            f" {key_file(address)}",
            hint="bring the key back, or set the secrets again",
        )
    strange = sorted(row.name for row in rows if row.key_id != key.id)
    if strange:
        raise WorkFailed(
            f"stored under another key than the one in use: {', '.join(strange)}",
            hint=f"set {KEY_VARIABLE} to that key, or set the secrets again",
        )
    return {row.name: key.open(row.sealed, (tenant, row.name)) for row in rows}
