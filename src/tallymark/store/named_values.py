"""Variables and secrets in the database: both are values by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, LargeBinary, PrimaryKeyConstraint, Table, select
from sqlalchemy import delete as delete_from

from tallymark.errors import InvalidInput, NotFound, suggest
from tallymark.store.column_types import CodePointText, make_storable, metadata
from tallymark.store.database_dialects import dialect_insert

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")

variables = Table(
    "vars",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("value", CodePointText, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_vars"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("key_id", CodePointText, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_secrets"),
)


def check_value(what: str, name: str, value: str) -> None:
    """Refuses a name or a value that could not be used later; the value is never quoted."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} cannot name a {what}",
            hint="use letters, digits, '_', '-' and '.', at most 128",
        )
    if make_storable(value) != value:
        raise InvalidInput(f"the value of the {what} {name!r} is not text")


def put(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    """Stores a row under its tenant and name, in place of an older one."""
    key = ["tenant", "name"]
    changes = {name: value for name, value in row.items() if name not in key}
    statement = dialect_insert(connection, table).values(row)
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changes))


def list_names(connection: Connection, table: Table, tenant: str) -> list[str]:
    """All names of a tenant, sorted."""
    query = select(table.c.name).where(table.c.tenant == tenant).order_by(table.c.name)
    return list(connection.scalars(query))


def read_values(connection: Connection, table: Table, tenant: str) -> dict[str, str]:
    """All values of a tenant by name, sorted."""
    query = select(table.c.name, table.c.value).where(table.c.tenant == tenant)
    return dict(connection.execute(query.order_by(table.c.name)).all())


def delete(connection: Connection, table: Table, tenant: str, name: str) -> None:
    """Removes one name."""
    query = delete_from(table).where(table.c.tenant == tenant, table.c.name == name)
    if not connection.execute(query).rowcount:
        raise explain_unknown(table, name, list_names(connection, table, tenant))


def explain_unknown(table: Table, name: str, known: list[str]) -> NotFound:
    """The error for a name that is not there."""
    what = {"vars": "variable", "secrets": "secret"}[table.name]
    close = suggest(name, known)
    hint = f"did you mean {close!r}?" if close else f"list them with: tally {table.name}"
    return NotFound(f"there is no {what} {name!r}", hint=hint)
