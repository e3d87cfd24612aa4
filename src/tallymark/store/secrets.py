"""Secrets in the database: sealed on the way in, opened only for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store.keys import VARIABLE, key_file, key_in_use, key_or_new
from tallymark.store.names import names, unknown
from tallymark.store.names import secrets as table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from tallymark.store.address import Address


def sealed_row(address: Address, owner: tuple[str, str], value: str) -> dict[str, Any]:
    """The row for a secret of a tenant and name."""
    tenant, name = owner
    if not value:
        raise InvalidInput(f"the secret {name!r} is empty")
    key = key_or_new(address)
    return {"tenant": tenant, "name": name, "key_id": key.id, "sealed": key.seal(value, owner)}


def sealed_rows(
    connection: Connection, tenant: str, wanted: list[str]
) -> Sequence[Row[str, str, bytes]]:
    """The rows of the named secrets; a name that is not there is refused."""
    query = select(table.c.name, table.c.key_id, table.c.sealed)
    mine = query.where(table.c.tenant == tenant, table.c.name.in_(wanted))
    rows = connection.execute(mine).all()
    missing = set(wanted) - {row.name for row in rows}
    if missing:
        known = names(connection, table, tenant)
        raise InvalidInput(
            [
                problem
                for name in sorted(missing)
                for problem in unknown(table, name, known).problems
            ]
        )
    return rows


def opened(address: Address, tenant: str, rows: Sequence[Row[str, str, bytes]]) -> dict[str, str]:
    """The values by name."""
    if not rows:
        return {}
    key = key_in_use(address)
    if key is None:
        raise WorkFailed(
            f"the key of the stored secrets is missing: {VARIABLE} is not set, and there is no"
            f" {key_file(address)}",
            hint="bring the key back, or set the secrets again",
        )
    strange = sorted(row.name for row in rows if row.key_id != key.id)
    if strange:
        raise WorkFailed(
            f"stored under another key than the one in use: {', '.join(strange)}",
            hint=f"set {VARIABLE} to that key, or set the secrets again",
        )
    return {row.name: key.open(row.sealed, (tenant, row.name)) for row in rows}
