"""Another key for what is sealed: secrets of all tenants, and what signs for webhooks."""

from __future__ import annotations

import base64
import os
import secrets
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import select, update

from tallymark.errors import WorkFailed
from tallymark.store.named_values import secrets as secret_table
from tallymark.store.secrets import (
    BEFORE_VARIABLE,
    KEY_VARIABLE,
    find_key,
    find_keys,
    find_or_make_key,
    key_file,
    key_file_before,
    replace_key,
)
from tallymark.store.webhooks.webhook_tables import webhooks

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.store.database import Database, DatabaseAddress

_SEALED = ((secret_table, secret_table.c.name), (webhooks, webhooks.c.id))


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """What a rotation did."""

    secrets: int
    webhooks: int
    """How many values are sealed by another key than before."""
    key_file: str | None
    """Where the new key is; None where the environment gives it."""
    key_file_before: str | None
    """Where the key before is kept."""


def rotate(database: Database) -> Rotated:
    """Seal everything by a new key: that of the environment, or one that is made.

    It can be done again whenever it was interrupted: until all is sealed anew, both keys are kept.
    """
    address = database.address
    if os.environ.get(KEY_VARIABLE):
        return _describe(database.write(lambda connection: _reseal(connection, address)))
    if find_key(address) is None:
        find_or_make_key(address)
    # What an interrupted rotation left: after that the key before the last one is not needed.
    database.write(lambda connection: _reseal(connection, address))
    replace_key(address, base64.b64encode(secrets.token_bytes(32)).decode())
    counts = database.write(lambda connection: _reseal(connection, address))
    return _describe(counts, str(key_file(address)), str(key_file_before(address)))


def finish(database: Database) -> Rotated:
    """Seal what was sealed by the key before meanwhile, and remove the file of that key."""
    counts = database.write(lambda connection: _reseal(connection, database.address))
    key_file_before(database.address).unlink(missing_ok=True)
    return _describe(counts)


def _describe(counts: list[int], new: str | None = None, before: str | None = None) -> Rotated:
    of_secrets, of_webhooks = counts
    return Rotated(secrets=of_secrets, webhooks=of_webhooks, key_file=new, key_file_before=before)


def _reseal(connection: Connection, address: DatabaseAddress) -> list[int]:
    """Seal by the key in use what other known keys sealed: all of it or nothing."""
    key, known = find_or_make_key(address), find_keys(address)
    counts = []
    for table, name in _SEALED:
        query = select(table.c.tenant, name.label("name"), table.c.key_id, table.c.sealed)
        rows = connection.execute(query.where(table.c.key_id != key.id)).all()
        for row in rows:
            if row.key_id not in known:
                raise WorkFailed(
                    f"{row.name} of the tenant {row.tenant} was sealed by a key that is not here",
                    hint=f"give that key as {BEFORE_VARIABLE}, or set or remove it",
                )
            owner = (row.tenant, row.name)
            sealed = key.seal(known[row.key_id].open(row.sealed, owner), owner)
            mine = (table.c.tenant == row.tenant, name == row.name, table.c.key_id == row.key_id)
            connection.execute(update(table).where(*mine).values(key_id=key.id, sealed=sealed))
        counts.append(len(rows))
    return counts
