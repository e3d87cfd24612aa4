"""Secrets in the database: sealed on the way in, opened only for a run; and their key."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store.named_values import explain_unknown, list_names
from tallymark.store.named_values import secrets as table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row

    from tallymark.store.database import DatabaseAddress
    from tallymark.store.secret_key import SecretKey

KEY_VARIABLE = "TALLY_SECRET_KEY"


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
        refusals = [explain_unknown(table, name, known) for name in sorted(missing)]
        raise InvalidInput([problem for each in refusals for problem in each.problems])
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


def find_key(address: DatabaseAddress) -> SecretKey | None:
    """The key that the environment or the key file gives, if there is one."""
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return read_key(given, KEY_VARIABLE)
    path = key_file(address)
    with _explain_file_errors(path):
        if not path.exists():
            return None
        _check_mode(path)
        # Latin-1 reads any bytes: what is no key is refused in our words, not as bad UTF-8.
        return read_key(path.read_text(encoding="latin-1"), str(path))


def find_or_make_key(address: DatabaseAddress) -> SecretKey:
    """The key in use; when there is none, a new key file is made."""
    key = find_key(address)
    while key is None:
        path = key_file(address)
        with _explain_file_errors(path):
            _write_key(path, base64.b64encode(secrets.token_bytes(32)).decode())
        key = find_key(address)
    return key


def key_file(address: DatabaseAddress) -> Path:
    """Where the key is when the environment does not give it.

    Beside an SQLite database, or in the user's config folder for a PostgreSQL one.
    """
    if address.path is not None:
        return address.path.with_name(address.path.name + ".key")
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "tallymark" / "secret.key"


@contextmanager
def _explain_file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkFailed(
            f"the key file {path} cannot be used: {error.strerror}",
            hint=f"mend its permissions, or set {KEY_VARIABLE}",
        ) from None


def write_key(address: DatabaseAddress, text: str) -> None:
    """Keeps a key that came from elsewhere in the key file, where there is none."""
    path = key_file(address)
    with _explain_file_errors(path):
        _write_key(path, text)


def _write_key(path: Path, text: str) -> None:
    """Writes a key. Linked into place whole: of two processes, the first one's key counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    # With its mode from the start, so that there is no moment in which others could read it.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(f"{text}\n".encode())
        file.flush()
        os.fsync(handle)  # before anything is sealed under it
    with suppress(FileExistsError):
        path.hardlink_to(draft)
    draft.unlink()


def _check_mode(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidInput(
            f"the key file {path} can be read by others", hint=f"run: chmod 600 {path}"
        )


def read_key(text: str, source: str) -> SecretKey:
    """The key that a text from somewhere is."""
    key = _decode_key(text, source)
    # It imports cryptography, which is heavy; most commands open no secret.
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
