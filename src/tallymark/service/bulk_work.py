"""Bulk work on an engine: what was done before is not done again, and results come in order."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from tallymark.importing import find_version

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine, Work
    from tallymark.store.jobs.kept_work import KeptWork

Block = TypeVar("Block")
Plain = TypeVar("Plain")
_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)
_QUICK, _ESCAPED = b"m", b"j"


def hash_work(*facts: object) -> str:
    """A name for all that results follow from, the same for the same and the same Tallymark."""
    facts = (find_version("tallymark"), *facts)
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted", enc_hook=str)).hexdigest()


@dataclass(frozen=True)
class BulkWork:
    """Blocks of one kind of work, and what is kept of them; None where nothing is."""

    engine: Engine
    kept: KeptWork | None = None

    def do(self, work: Work[Block, bytes], blocks: Iterable[tuple[str, Block]]) -> Generator[bytes]:
        """The results of blocks, in their order; each comes with a key that no other has."""
        known = frozenset[str]() if self.kept is None else self.kept.keys
        order: deque[str] = deque()
        sent: list[str] = []
        ready: dict[str, bytes] = {}

        def choose() -> Iterator[Block]:
            for key, block in blocks:
                order.append(key)
                if key not in known:
                    sent.append(key)
                    yield block

        def take() -> Iterator[bytes]:
            while order and (order[0] in known or order[0] in ready):
                key = order.popleft()
                if self.kept is not None and key in known:
                    yield self.kept.read(key)
                else:
                    yield ready.pop(key)

        with closing(self.engine.map(work, choose())) as outcomes:
            for outcome in outcomes:
                key, result = sent[outcome.number], outcome.require()
                if self.kept is not None:
                    self.kept.keep(key, result)
                ready[key] = result
                yield from take()
        yield from take()


class BlockCodec(Generic[Plain]):
    """Values as bytes that workers send and the store keeps."""

    def __init__(self, kind: type[Plain]) -> None:
        self._kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, value: Plain) -> bytes:
        """As they are; what JSON lacks becomes its `str`."""
        try:
            return _QUICK + _ENCODER.encode(value)
        except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or more than 64 bits
            plain = msgspec.to_builtins(value, enc_hook=str)
            return _ESCAPED + json.dumps(_name_keys(plain)).encode()

    def decode(self, data: bytes) -> Plain:
        """What was encoded."""
        if not data.startswith(_QUICK):
            return msgspec.convert(json.loads(data[len(_ESCAPED) :]), self._kind)
        packed = memoryview(data)[len(_QUICK) :]
        try:
            return self._decoder.decode(packed)
        except msgspec.ValidationError:  # keys that are no texts, as scorers may give them
            plain = msgspec.to_builtins(msgspec.msgpack.decode(packed))
            return msgspec.convert(_name_keys(plain), self._kind)


def _name_keys(plain: Any) -> Any:
    """The same with keys as JSON would have them."""
    if isinstance(plain, dict):
        return {_name_key(key): _name_keys(each) for key, each in plain.items()}
    if isinstance(plain, list | tuple):
        return [_name_keys(each) for each in plain]
    return plain


def _name_key(key: Any) -> str:
    try:
        (name,) = msgspec.to_builtins({key: None}, str_keys=True)
    except TypeError:  # JSON has no word for it
        return str(key)
    return str(name)
