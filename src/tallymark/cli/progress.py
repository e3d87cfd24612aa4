"""How far a command is, on stderr, when someone is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ProgressUpdate = Callable[[int, int | None], None]


@contextmanager
def show_progress(what: str) -> Iterator[ProgressUpdate | None]:
    """A bar to be updated with what is done and what there is in all; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
