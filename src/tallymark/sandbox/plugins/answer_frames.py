"""How bytes travel between the host and the child that runs a plugin.

To the child: messages, each with its length. From the child: frames, each with the nonce that the
host gave this child, so that what a plugin writes by chance or by guess is not taken for an answer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NONCE_BYTES = 16
_HEADER = struct.Struct(f"!{NONCE_BYTES}sI")
_LENGTH = struct.Struct("!I")
LENGTH_BYTES = _LENGTH.size

GIVEN, FAILED = 0, 1
"""An answer is (GIVEN, what the plugin returned) or (FAILED, which kind of failure, a sentence)."""


class BadFrame(Exception):
    """What came is no answer; the text says why."""


def pack_message(data: bytes) -> bytes:
    """One message for the child."""
    return _LENGTH.pack(len(data)) + data


def read_length(prefix: bytes) -> int:
    """How long the message is that follows this prefix."""
    size: int = _LENGTH.unpack(prefix)[0]
    return size


def pack_frame(nonce: bytes, data: bytes) -> bytes:
    """One frame for the host."""
    return _HEADER.pack(nonce, len(data)) + data


def mark_given(encoded: bytes) -> bytes:
    """What a plugin returned, encoded, as the answer (GIVEN, that)."""
    return b"\x92\x00" + encoded


def join_answers(items: Sequence[bytes]) -> bytes:
    """Encoded items as one encoded list."""
    return b"\xdd" + _LENGTH.pack(len(items)) + b"".join(items)


class Frames:
    """Bytes as they come in, and the whole frames among them; never more than `most` is held."""

    def __init__(self, nonce: bytes, most: int) -> None:
        self._nonce = nonce
        self._most = most
        self._held = bytearray()

    @property
    def begun(self) -> bool:
        """True when part of a frame has come and the rest has not."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are now whole; `BadFrame` at the first byte that cannot be ours."""
        held = self._held
        held += data
        found = []
        while len(held) >= _HEADER.size:
            nonce, size = _HEADER.unpack_from(held)
            if nonce != self._nonce:
                raise BadFrame("the plugin wrote to the channel of its answer, but not an answer")
            if size > self._most:
                raise BadFrame(f"the answer has {size:,} bytes, more than {self._most:,}")
            end = _HEADER.size + size
            if len(held) < end:
                break
            found.append(bytes(held[_HEADER.size : end]))
            del held[:end]
        if not self._nonce.startswith(bytes(held[:NONCE_BYTES])):
            raise BadFrame("the plugin wrote to the channel of its answer, but not an answer")
        return found
