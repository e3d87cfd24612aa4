"""Work is told to whoever watches, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallymark.watched_work import Work, add_watcher, remove_watcher, watch


def test_who_watches_hears_of_the_beginning_and_of_the_end() -> None:
    heard: list[str] = []

    @contextmanager
    def watcher(work: Work) -> Iterator[None]:
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
    remove_watcher(watcher)  # who does not watch can leave too
