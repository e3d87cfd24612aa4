"""Whole traces that are loaded: what is there already stays as it is, and each is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tallymark.store.column_types import make_storable
from tallymark.store.traces.segments import unpack_trace
from tallymark.traces.trace_facts import TOLD_START

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallymark.store import Store
    from tallymark.store.traces.trace_items import TracePiece
    from tallymark.traces.trace import Trace


class LoadedTraces(NamedTuple):
    """What came of traces that were loaded."""

    new: int
    changed: int
    """Those that made a new version of one that was there."""
    known: int
    """Those that were there already."""


class WholeTraces:
    """Keeps traces, some at a time, and says in the end what came of them."""

    def __init__(self, store: Store, keep: Callable[[list[TracePiece]], None]) -> None:
        self._store = store
        self._keep = keep
        self._new = self._known = 0
        self._others: list[tuple[str, int]] = []
        """Those that are not as what was there, and its version."""

    def keep(self, pieces: Sequence[TracePiece]) -> None:
        """Keeps what is not there like that."""
        there = self._store.traces.find_whole({make_storable(each.trace_id) for each in pieces})
        kept: list[TracePiece] = []
        bodies: dict[str, bytes] = {}
        for piece in pieces:
            name = make_storable(piece.trace_id)
            version, known = there.get(name, (0, None))
            if name in bodies:
                same = bodies[name] == piece.body
            elif known is None:
                self._new += 1
                same = False
            else:
                same = _bare(known) == _bare(unpack_trace(piece.body))
            if same:
                self._known += 1
                continue
            if name in bodies or known is not None:
                self._others.append((name, version))
            kept.append(piece)
            bodies[name] = piece.body
        if kept:
            self._keep(kept)

    def count(self) -> LoadedTraces:
        """What came of all, once they are settled: what was told again in parts is no version."""
        versions = self._store.traces.find_versions({name for name, _ in self._others})
        changed = sum(versions.get(name, 0) > before for name, before in self._others)
        return LoadedTraces(self._new, changed, self._known + len(self._others) - changed)


def _bare(trace: Trace) -> Trace:
    """A trace without what a file says of where it was kept."""
    metadata = {key: value for key, value in trace.metadata.items() if key != TOLD_START}
    return replace(trace, trace_id="", metadata=metadata)
