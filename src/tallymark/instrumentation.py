"""Instrumentation of work that is counted or traced: batches, jobs, requests, sandbox calls.

The code that does the work wraps it in `watch`, which costs next to nothing without watchers. A
watcher is the server's metrics, or its own tracing where that is set up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class WatchedWork:
    """One piece of work."""

    name: str
    facts: dict[str, Any]
    outcomes: Counter[str] = field(default_factory=Counter)
    """How it ended; for several things done together, the count of each outcome."""


Watcher = Callable[[WatchedWork], AbstractContextManager[Any]]
"""A context manager entered before the work, and left after it with its exception."""
_watchers: list[Watcher] = []


def add_watcher(watcher: Watcher) -> None:
    """Call this watcher for all work from now on."""
    _watchers.append(watcher)


def remove_watcher(watcher: Watcher) -> None:
    """Stop calling this watcher."""
    if watcher in _watchers:
        _watchers.remove(watcher)


@contextmanager
def watch(name: str, **facts: Any) -> Iterator[WatchedWork]:
    """Report the work of this block to all watchers."""
    work = WatchedWork(name, facts)
    if not _watchers:
        yield work
        return
    with ExitStack() as left:
        for watcher in tuple(_watchers):
            left.enter_context(watcher(work))
        yield work
