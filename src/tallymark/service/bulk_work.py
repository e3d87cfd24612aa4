"""Bulk work on an engine: items in blocks that workers do, and what came of each item.

Every kind is a `BulkTask`: `rescore_blocks.py`, `rule_blocks.py`, `suite_blocks.py`,
`trace_blocks.py`. What can go wrong with an item is a result of its own; a block without results
is one that workers die over, or that the task itself cannot do.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from tallymark.errors import WorkFailed
from tallymark.importing import find_version

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine
    from tallymark.store.checkpoints import Checkpoint

Item = TypeVar("Item")
Result = TypeVar("Result")
About = TypeVar("About")
Plain = TypeVar("Plain")
_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)
_QUICK, _ESCAPED = b"m", b"j"


def hash_work(*facts: object) -> str:
    """A name for all that results follow from, the same for the same and the same Tallymark."""
    facts = (find_version("tallymark"), *facts)
    return sha256(msgspec.json.encode(facts, order="sorted", enc_hook=str)).hexdigest()


def cut_blocks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of at most `size`."""
    left = iter(items)
    while block := list(islice(left, size)):
        yield block


class BulkTask(ABC, Generic[Item, Result]):
    """Work on items. It is sent to the workers, so it is small and can be pickled."""

    results: ClassVar[Any]
    """The type of what comes of a block: a list of results."""

    @abstractmethod
    def prepare(self) -> AbstractContextManager[Callable[[list[Item]], list[Result]]]:
        """Gets a worker ready, once; what it gives does one block after another."""

    def fail(self, error: str) -> Result:
        """The result of an item whose block could not be done; without one, everything ends."""
        raise WorkFailed(error)

    @contextmanager
    def open(self) -> Iterator[Callable[[list[Item]], bytes]]:
        """Work whose results are bytes, which can be stored."""
        codec = BlockCodec(self.results)
        with self.prepare() as do:
            yield lambda items: codec.encode(do(items))


@dataclass(slots=True)
class _Block(Generic[About]):
    """A block of items from creation to report."""

    about: About
    size: int
    key: str
    """Position of its results among the stored ones."""
    data: bytes = b""
    """Its results; empty until done, or if they are stored from an earlier run."""
    error: str | None = None


@dataclass(frozen=True)
class BulkWork:
    """Blocks on an engine, with their checkpoints; None without."""

    engine: Engine
    kept: Checkpoint | None = None

    def do(
        self,
        task: BulkTask[Item, Result],
        blocks: Iterable[tuple[About, list[Item]]],
        *,
        ordered: bool = True,
    ) -> Generator[tuple[About, list[Result]]]:
        """The results of each block, in the order of the blocks or else as they come.

        A block is what the caller knows of it, which stays here, and its items.
        """
        codec: BlockCodec[list[Result]] = BlockCodec(task.results)
        known = frozenset[str]() if self.kept is None else self.kept.keys
        order: deque[_Block[About]] = deque()

        def choose() -> Iterator[tuple[_Block[About], list[Item]]]:
            for number, (about, items) in enumerate(blocks):
                digest = "" if self.kept is None else sha256(codec.encode(items)).hexdigest()
                block = _Block(about, len(items), f"{number}:{digest}")
                if ordered:
                    order.append(block)
                if block.key not in known:
                    yield block, items

        def finish(block: _Block[About]) -> tuple[About, list[Result]]:
            if block.error is not None:
                return block.about, [task.fail(block.error) for _ in range(block.size)]
            if not block.data and self.kept is not None:
                block.data = self.kept.read(block.key)
            return block.about, codec.decode(block.data)

        with closing(self.engine.map(task, choose())) as ends:
            for end in ends:
                block = end.about
                block.data, block.error = end.result or b"", end.error
                if self.kept is not None and block.data:
                    self.kept.keep(block.key, block.data)
                if not ordered:
                    yield finish(block)
                while order and (order[0].data or order[0].error or order[0].key in known):
                    yield finish(order.popleft())
        yield from map(finish, order)  # the last were all done before


class BlockCodec(Generic[Plain]):
    """Values as bytes, which workers send and the store holds."""

    def __init__(self, kind: type[Plain]) -> None:
        self._kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)

    @staticmethod
    def encode(value: object) -> bytes:
        """Encode values; what JSON lacks becomes its `str`."""
        try:
            return _QUICK + _ENCODER.encode(value)
        except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or more than 64 bits
            plain = msgspec.to_builtins(value, enc_hook=str)
            return _ESCAPED + json.dumps(_name_keys(plain)).encode()

    def decode(self, data: bytes) -> Plain:
        """Decode values."""
        if not data.startswith(_QUICK):
            return msgspec.convert(json.loads(data[len(_ESCAPED) :]), self._kind)
        packed = memoryview(data)[len(_QUICK) :]
        try:
            return self._decoder.decode(packed)
        except msgspec.ValidationError:  # keys that are no texts, as scorers may give them
            plain = msgspec.to_builtins(msgspec.msgpack.decode(packed))
            return msgspec.convert(_name_keys(plain), self._kind)


def _name_keys(plain: Any) -> Any:
    """Values with keys as JSON has them."""
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
