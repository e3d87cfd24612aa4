"""Sealing secrets: AES-256-GCM under a key that is outside the database."""

from __future__ import annotations

import hashlib
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tallymark.errors import WorkFailed

_NONCE_BYTES = 12


class SecretKey:
    """Seals and opens values; each opens only under the tenant and name it was sealed for."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.id = hashlib.sha256(b"tallymark key id" + key).hexdigest()[:16]
        """Identifies the key without revealing it."""

    def seal(self, value: str, owner: tuple[str, str]) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value.encode(), _bind_owner(owner))

    def open(self, sealed: bytes, owner: tuple[str, str]) -> str:
        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, rest, _bind_owner(owner)).decode()
        except InvalidTag:
            raise WorkFailed(
                f"the stored secret {owner[1]!r} is damaged", hint="set it again"
            ) from None


def _bind_owner(owner: tuple[str, str]) -> bytes:
    # Authenticated but not stored: a row copied to another tenant or name does not open there.
    return "\0".join(owner).encode()
