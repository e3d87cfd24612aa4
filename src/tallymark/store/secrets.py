"""Variables, secrets and the key that seals secrets: AES-256-GCM, the key outside the database."""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Column, LargeBinary, PrimaryKeyConstraint, Table, select, update
from sqlalchemy import delete as delete_from

from tallymark.errors import InvalidInput, NotFound, WorkFailed, suggest
from tallymark.installation import require_extra
from tallymark.store.dialects import CodePointText, dialect_insert, make_storable, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row

    from tallymark.store.database import Database
    from tallymark.store.database_address import DatabaseAddress
    from tallymark.store.secret_key import SecretKey


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")

variables = Table(
    "vars",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("value", CodePointText, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_vars"),
)

secret_rows = Table(
    "secrets",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("key_id", CodePointText, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_secrets"),
)


def check_value(what: str, name: str, value: str) -> None:
    """Refuse a name or a value that could not be used later; the value is never quoted."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} cannot name a {what}",
            hint="use letters, digits, '_', '-' and '.', at most 128",
        )
    if make_storable(value) != value:
        raise InvalidInput(f"the value of the {what} {name!r} is not text")


def put_value(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    """Store a row under its tenant and name, replacing an older one."""
    key = ["tenant", "name"]
    changes = {name: value for name, value in row.items() if name not in key}
    statement = dialect_insert(connection, table).values(row)
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changes))


def list_value_names(connection: Connection, table: Table, tenant: str) -> list[str]:
    """All names of a tenant, sorted."""
    query = select(table.c.name).where(table.c.tenant == tenant).order_by(table.c.name)
    return list(connection.scalars(query))


def read_values(connection: Connection, table: Table, tenant: str) -> dict[str, str]:
    """All values of a tenant by name, sorted."""
    query = select(table.c.name, table.c.value).where(table.c.tenant == tenant)
    return dict(connection.execute(query.order_by(table.c.name)).all())


def delete_value(connection: Connection, table: Table, tenant: str, name: str) -> None:
    query = delete_from(table).where(table.c.tenant == tenant, table.c.name == name)
    if not connection.execute(query).rowcount:
        raise explain_unknown_value(table, name, list_value_names(connection, table, tenant))


def explain_unknown_value(table: Table, name: str, known: list[str]) -> NotFound:
    """The error for an unknown name."""
    what = {"vars": "variable", "secrets": "secret"}[table.name]
    close = suggest(name, known)
    hint = f"did you mean {close!r}?" if close else f"list them with: tally {table.name}"
    return NotFound(f"there is no {what} {name!r}", hint=hint)


KEY_VARIABLE = "TALLY_SECRET_KEY"
BEFORE_VARIABLE = "TALLY_SECRET_KEY_BEFORE"


def seal_row(address: DatabaseAddress, owner: tuple[str, str], value: str) -> dict[str, Any]:
    """Row of a sealed secret."""
    tenant, name = owner
    if not value:
        raise InvalidInput(f"the secret {name!r} is empty")
    key = find_or_make_key(address)
    return {"tenant": tenant, "name": name, "key_id": key.id, "sealed": key.seal(value, owner)}


def read_sealed_rows(
    connection: Connection, tenant: str, wanted: list[str]
) -> Sequence[Row[str, str, bytes]]:
    """Rows of the named secrets; an unknown name is refused."""
    query = select(secret_rows.c.name, secret_rows.c.key_id, secret_rows.c.sealed)
    mine = query.where(secret_rows.c.tenant == tenant, secret_rows.c.name.in_(wanted))
    rows = connection.execute(mine).all()
    missing = set(wanted) - {row.name for row in rows}
    if missing:
        known = list_value_names(connection, secret_rows, tenant)
        refusals = [explain_unknown_value(secret_rows, name, known) for name in sorted(missing)]
        raise InvalidInput([problem for each in refusals for problem in each.problems])
    return rows


def open_rows(
    address: DatabaseAddress, tenant: str, rows: Sequence[Row[str, str, bytes]]
) -> dict[str, str]:
    """Open sealed rows; return values by name."""
    if not rows:
        return {}
    keys = find_keys(address)
    if not keys:
        raise WorkFailed(
            f"the key of the stored secrets is missing: {KEY_VARIABLE} is not set, and there is no"
            f" {key_file(address)}",
            hint="bring the key back, or set the secrets again",
        )
    strange = sorted(row.name for row in rows if row.key_id not in keys)
    if strange:
        raise WorkFailed(
            f"stored under another key than the one in use: {', '.join(strange)}",
            hint=f"set {KEY_VARIABLE} to that key, or set the secrets again",
        )
    return {row.name: keys[row.key_id].open(row.sealed, (tenant, row.name)) for row in rows}


def find_key(address: DatabaseAddress) -> SecretKey | None:
    """The key from the environment or the key file, if there is one."""
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return read_key(given, KEY_VARIABLE)
    return _read_key_file(key_file(address))


def find_keys(address: DatabaseAddress) -> dict[str, SecretKey]:
    """The current key and the one before it, by id: values sealed by either can be opened."""
    given = os.environ.get(BEFORE_VARIABLE)
    before = read_key(given, BEFORE_VARIABLE) if given else _read_key_file(key_file_before(address))
    return {key.id: key for key in (find_key(address), before) if key is not None}


def _read_key_file(path: Path) -> SecretKey | None:
    with _explain_file_errors(path):
        if not path.exists():
            return None
        _check_mode(path)
        # Latin-1 decodes any bytes: an invalid key gets our error, not one about UTF-8.
        return read_key(path.read_text(encoding="latin-1"), str(path))


def find_or_make_key(address: DatabaseAddress) -> SecretKey:
    """The current key; a new key file is made if there is none."""
    key = find_key(address)
    while key is None:
        path = key_file(address)
        with _explain_file_errors(path):
            _write_key(path, base64.b64encode(secrets.token_bytes(32)).decode())
        key = find_key(address)
    return key


def key_file(address: DatabaseAddress) -> Path:
    """Path of the key file, used unless the environment has the key.

    Next to an SQLite database, or in the user's config folder for a PostgreSQL one.
    """
    if address.path is not None:
        return address.path.with_name(address.path.name + ".key")
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "tallymark" / "secret.key"


def key_file_before(address: DatabaseAddress) -> Path:
    """Path of the previous key during a rotation."""
    path = key_file(address)
    return path.with_name(f"{path.name}.before")


@contextmanager
def _explain_file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkFailed(
            f"the key file {path} cannot be used: {error.strerror}",
            hint=f"fix its permissions, or set {KEY_VARIABLE}",
        ) from None


def replace_key(address: DatabaseAddress, text: str) -> None:
    """Replace the key in the key file; the previous one goes to `key_file_before`."""
    path, before = key_file(address), key_file_before(address)
    with _explain_file_errors(path):
        draft = _write_draft(before, path.read_text(encoding="latin-1").strip())
        draft.replace(before)
        _write_draft(path, text).replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # before anything is sealed by it
        finally:
            os.close(folder)


def _write_key(path: Path, text: str) -> None:
    """Write a key file, hard-linked into place: of two processes, the first one's key counts."""
    draft = _write_draft(path, text)
    with suppress(FileExistsError):
        path.hardlink_to(draft)
    draft.unlink()


def _write_draft(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    # With its mode from the start, so that there is no moment in which others could read it.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(f"{text}\n".encode())
        file.flush()
        os.fsync(handle)  # before anything is sealed under it
    return draft


def _check_mode(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidInput(
            f"the key file {path} can be read by others", hint=f"run: chmod 600 {path}"
        )


def read_key(text: str, source: str) -> SecretKey:
    """Parse a key; `source` names it in errors."""
    key = _decode_key(text, source)
    require_extra("server", "storing secrets", "cryptography")
    # It imports cryptography, which is part of that extra.
    from tallymark.store.secret_key import SecretKey  # noqa: PLC0415

    return SecretKey(key)


def _decode_key(text: str, source: str) -> bytes:
    try:
        # Both alphabets of base64 are taken.
        key = base64.b64decode(text.strip().translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise InvalidInput(
            f"{source} does not hold a key of 32 bytes in base64",
            hint="make one with: openssl rand -base64 32",
        )
    return key


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a key rotation."""

    secrets: int
    webhooks: int
    """Number of values sealed with a new key."""
    key_file: str | None
    """Path of the new key; None if the environment has it."""
    key_file_before: str | None
    """Path of the previous key."""


def rotate(database: Database) -> Rotated:
    """Seal everything with a new key: that of the environment, or a generated one.

    An interrupted rotation can be repeated: both keys exist until everything is sealed with the new
    one.
    """
    address = database.address
    if os.environ.get(KEY_VARIABLE):
        return _describe(database.write(lambda connection: _reseal(connection, address)))
    if find_key(address) is None:
        find_or_make_key(address)
    # Completes an interrupted rotation; after that, the key before the last one is not needed.
    database.write(lambda connection: _reseal(connection, address))
    replace_key(address, base64.b64encode(secrets.token_bytes(32)).decode())
    counts = database.write(lambda connection: _reseal(connection, address))
    return _describe(counts, str(key_file(address)), str(key_file_before(address)))


def finish_rotation(database: Database) -> Rotated:
    """Seal again what the previous key sealed meanwhile, and delete the file of that key."""
    counts = database.write(lambda connection: _reseal(connection, database.address))
    key_file_before(database.address).unlink(missing_ok=True)
    return _describe(counts)


def _describe(counts: list[int], new: str | None = None, before: str | None = None) -> Rotated:
    of_secrets, of_webhooks = counts
    return Rotated(secrets=of_secrets, webhooks=of_webhooks, key_file=new, key_file_before=before)


def _reseal(connection: Connection, address: DatabaseAddress) -> list[int]:
    """Seal with the key in use what other known keys sealed: all of it or nothing."""
    from tallymark.store.webhook_deliveries import webhook_rows  # noqa: PLC0415 (rotation alone)

    key, known = find_or_make_key(address), find_keys(address)
    counts = []
    for table, name in ((secret_rows, secret_rows.c.name), (webhook_rows, webhook_rows.c.id)):
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
