"""The bytes between the host and the child that runs a plugin.

The child gets a header, then messages, each with its length. The host gets frames, each with an
answer and the nonce that the host gave this child, so that nothing a plugin writes by chance or
guess is taken for an answer.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

NONCE_BYTES = 16
_HEADER = struct.Struct(f"!{NONCE_BYTES}sI")
_LENGTH = struct.Struct("!I")
LENGTH_BYTES, FRAME_BYTES = _LENGTH.size, _HEADER.size
_CALL = struct.Struct(f"!{NONCE_BYTES}sI")
CALL_BYTES = _CALL.size

GIVEN, FAILED = 0, 1
"""An answer is (GIVEN, the plugin's return) or (FAILED, the kind of failure, a sentence)."""


class BadFrame(Exception):
    """Bytes that are no answer, with the reason."""


class CallHeader(NamedTuple):
    """The header for a child, written by the host alone."""

    nonce: bytes
    most: int
    """Bytes that an answer may have."""

    def pack(self) -> bytes:
        """Encode the header."""
        return _CALL.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> CallHeader:
        """Decode a header."""
        return cls(*_CALL.unpack(data))


def pack_message(data: bytes) -> bytes:
    """One message for the child."""
    return _LENGTH.pack(len(data)) + data


def read_length(prefix: bytes) -> int:
    """Length of the message after this prefix."""
    size: int = _LENGTH.unpack(prefix)[0]
    return size


def pack_frame(nonce: bytes, data: bytes) -> bytes:
    """One frame for the host."""
    return _HEADER.pack(nonce, len(data)) + data


def read_header(header: bytes) -> tuple[bytes, int]:
    """The nonce of a frame, and how many bytes of data follow."""
    nonce, size = _HEADER.unpack(header)
    return nonce, size


def mark_given(encoded: bytes) -> bytes:
    """A plugin's return, encoded, as the answer (GIVEN, return)."""
    return b"\x92\x00" + encoded


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
