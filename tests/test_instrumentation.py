"""Watchers are called for every piece of work until they are removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallymark.instrumentation import WatchedWork, add_watcher, remove_watcher, watch


def test_a_watcher_is_entered_before_the_work_and_left_after_it() -> None:
    heard: list[str] = []

    @contextmanager
    def watcher(work: WatchedWork) -> Iterator[None]:
        heard.append(f"{work.name} {work.facts}")
        try:
            yield
        finally:
            heard.append(str(dict(work.outcomes)))

    def fail() -> None:
        with watch("job", kind="run") as work:
            work.outcomes["failed"] += 1
            raise RuntimeError

    add_watcher(watcher)
    try:
        with pytest.raises(RuntimeError):
            fail()
    finally:
        remove_watcher(watcher)
    with watch("job", kind="run"):
        pass
    assert heard == ["job {'kind': 'run'}", "{'failed': 1}"]
    remove_watcher(watcher)  # has no effect a second time
