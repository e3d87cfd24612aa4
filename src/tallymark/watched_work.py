"""Work that somebody may want to count or trace: batches, jobs, requests, calls of the sandbox.

Whoever does it says so with `watch`, which costs next to nothing while nobody watches. Who watches
is a server's metrics, and its own tracing where that is set up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Work:
    """One piece of it."""

    name: str
    facts: dict[str, Any]
    outcomes: Counter[str] = field(default_factory=Counter)
    """How it ended; of many things done at once, how many of them in which way."""


Watcher = Callable[[Work], AbstractContextManager[Any]]
"""Entered before the work, and left after it with whatever it raised."""
_watchers: list[Watcher] = []


def add_watcher(watcher: Watcher) -> None:
    """From now on it is told."""
    _watchers.append(watcher)


def remove_watcher(watcher: Watcher) -> None:
    """And no more."""
    if watcher in _watchers:
        _watchers.remove(watcher)


@contextmanager
def watch(name: str, **facts: Any) -> Iterator[Work]:
    """Tells all who watch of the work in this block."""
    work = Work(name, facts)
    if not _watchers:
        yield work
        return
    with ExitStack() as left:
        for watcher in tuple(_watchers):
            left.enter_context(watcher(work))
        yield work
