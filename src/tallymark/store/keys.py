"""Sealing secrets: AES-256-GCM under a key that is not in the database.

The key comes from TALLY_SECRET_KEY, else from a file that only its owner can read: beside an
SQLite database, or in the user's config folder for a PostgreSQL one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.store.address import Address

VARIABLE = "TALLY_SECRET_KEY"
_NONCE_BYTES = 12


class SecretKey:
    """Seals and opens values; each only opens under the tenant and name it was sealed for."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415  heavy
            AESGCM,
        )

        self._cipher = AESGCM(key)
        self.id = hashlib.sha256(b"tallymark key id" + key).hexdigest()[:16]
        """Tells keys apart, and tells nothing about the key."""

    def seal(self, value: str, owner: tuple[str, str]) -> bytes:
        """The value, encrypted."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value.encode(), _bound(owner))

    def open(self, sealed: bytes, owner: tuple[str, str]) -> str:
        """The value again."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  heavy

        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, rest, _bound(owner)).decode()
        except InvalidTag:
            raise WorkFailed(
                f"the stored secret {owner[1]!r} is damaged", hint="set it again"
            ) from None


def key_in_use(address: Address) -> SecretKey | None:
    """The key that the environment or the key file gives, if there is one."""
    given = os.environ.get(VARIABLE)
    if given:
        return SecretKey(_decoded(given, VARIABLE))
    path = key_file(address)
    with _file_in_words(path):
        if not path.exists():
            return None
        _check_mode(path)
        return SecretKey(_decoded(path.read_text(encoding="latin-1"), str(path)))


def key_or_new(address: Address) -> SecretKey:
    """The key in use; when there is none, a new key file is made."""
    key = key_in_use(address)
    while key is None:
        path = key_file(address)
        with _file_in_words(path):
            _make(path)
        key = key_in_use(address)
    return key


def key_file(address: Address) -> Path:
    """Where the key is when the environment does not give it."""
    if address.path is not None:
        return address.path.with_name(address.path.name + ".key")
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "tallymark" / "secret.key"


@contextmanager
def _file_in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkFailed(
            f"the key file {path} cannot be used: {error.strerror}",
            hint=f"mend its permissions, or set {VARIABLE}",
        ) from None


def _make(path: Path) -> None:
    """Writes a new key. Linked into place whole: of two processes, the first one's key counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(base64.b64encode(secrets.token_bytes(32)) + b"\n")
        file.flush()
        os.fsync(handle)
    with suppress(FileExistsError):
        path.hardlink_to(draft)
    draft.unlink()


def _check_mode(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidInput(
            f"the key file {path} can be read by others", hint=f"run: chmod 600 {path}"
        )


def _decoded(text: str, source: str) -> bytes:
    try:
        key = base64.b64decode(text.strip().translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise InvalidInput(
            f"{source} does not hold a key of 32 bytes in base64",
            hint="make one with: openssl rand -base64 32",
        )
    return key


def _bound(owner: tuple[str, str]) -> bytes:
    return "\0".join(owner).encode()
