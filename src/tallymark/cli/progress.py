"""Progress of commands and runs, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

from tallymark.runs.problems import list_problems, name_case, name_model
from tallymark.text import clean_line, format_count, format_money, format_score, format_share, say

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.tally import Tally

ProgressUpdate = Callable[[int, int | None], None]
_PATIENCE = 0.5
"""Seconds: who waits no longer than this wants no bar that flickers."""
_EVERY = 0.1
"""Seconds between two looks at how far it is."""


@contextmanager
def show_progress(what: str) -> Iterator[ProgressUpdate | None]:
    """Show a progress bar; yields its update function, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _LateBar(what)
    try:
        yield bar.update
    finally:
        bar.stop()


class _LateBar:
    """A bar that comes when something takes long; rich is loaded only then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Any = None
        self._looked = 0.0
        self._timer = Timer(_PATIENCE, self._start)
        self._timer.daemon = True
        self._timer.start()

    def update(self, done: int, total: int | None) -> None:
        """Moves it; many calls cost little."""
        if self._bar is not None and time.monotonic() - self._looked >= _EVERY:
            self._looked = time.monotonic()
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def stop(self) -> None:
        """Takes it away."""
        self._timer.cancel()
        self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def _start(self) -> None:
        from rich.console import Console  # noqa: PLC0415 (heavy)
        from rich.progress import Progress  # noqa: PLC0415 (heavy)

        bar = Progress(console=Console(stderr=True), transient=True)
        bar.add_task(self._what, total=None)
        bar.start()
        self._bar = bar


_LINE_EVERY = 5.0
"""Seconds between lines that say how far a run is."""
_FAILURES_SHOWN = 20
"""Failures printed while a run goes on; the summary has them all."""


class PlainWatch:
    """Progress of a run as lines on stderr: one every few seconds, and one for each failure."""

    every: float | None = _LINE_EVERY
    current: str | None = None
    """The current or the last run."""
    formula: Formula | None = None
    total = 0
    told = 0
    last = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula | None) -> None:
        """Called when a run starts or is resumed."""
        self.current, self.formula = record.id, formula
        self.total, self.told, self.last = record.total, 0, time.monotonic()

        already = f", {tally.finished:,} done before" if tally.finished else ""
        # With epochs, a case has several results.
        counted = format_count(record.total, "result" if record.may_repeat else "case")
        what = f"{record.suite} against {name_model(record)}, {counted}{already}"
        say(f"{record.id}: {what}", err=True)

    def moved(self, result: CaseResult, tally: Tally) -> None:
        """Called after each case."""
        if result.status != "passed":
            self.told += 1
            if self.told <= _FAILURES_SHOWN:
                why = clean_line(result.error or list_problems(result)[0][1], 100)
                say(f"  {result.status}: {name_case(result, 40)}: {why}", err=True)
            elif self.told == _FAILURES_SHOWN + 1:
                say("  more follow; the summary has them all", err=True)
        if self.every and time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            say(f"  {self.describe(tally)}", err=True)

    def progressed(self, done: int, standing: str) -> None:
        """Show the progress of a run on a server."""
        if self.every and time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            say(f"  {done:,}/{self.total:,}  {standing}", err=True)

    def ended(self, record: RunRecord) -> None:
        """Called when a run has ended."""

    def describe(self, tally: Tally) -> str:
        """`120/200  score 71.20, 80.0% passed, 2 errors, $0.0177`."""
        score = tally.score(self.formula).score if self.formula is not None else None
        total = tally.all
        parts = [f"score {format_score(score)}"] if score is not None else []
        parts += [f"{format_share(total.success)} passed"] if total.success is not None else []
        parts += [format_count(tally.errors, "error")] if tally.errors else []
        paid = [each.total for each in (total.cost, tally.unscored_cost) if each.known]
        parts += [format_money(sum(paid))] if paid else []
        return f"{tally.finished:,}/{self.total:,}  {', '.join(parts)}"


class QuietWatch(PlainWatch):
    """No progress; only remembers the current run."""

    def started(self, record: RunRecord, _tally: Tally, _formula: Formula | None) -> None:
        """Called when a run starts or is resumed."""
        self.current = record.id

    def moved(self, _result: CaseResult, _tally: Tally) -> None:
        """Called after each case."""

    def progressed(self, _done: int, _standing: str) -> None:
        """Show nothing."""


class BarWatch(PlainWatch):
    """Progress of a run as a bar. Messages appear above it."""

    every = None
    bar: Any = None
    task: Any = None
    drawn = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula | None) -> None:
        """Show the bar."""
        from rich.console import Console  # noqa: PLC0415 (heavy)
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 (heavy)

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[standing]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.bar.start()
        self.task = self.bar.add_task(name_model(record), total=record.total, standing="")
        super().started(record, tally, formula)

    def moved(self, result: CaseResult, tally: Tally) -> None:
        """Move the bar, ten times a second at most."""
        super().moved(result, tally)
        if time.monotonic() - self.drawn < 0.1 and tally.finished < self.total:
            return
        self.drawn = time.monotonic()
        self.bar.update(self.task, completed=tally.finished, standing=self.describe(tally))

    def progressed(self, done: int, standing: str) -> None:
        """Move the bar."""
        shown = f"{done:,}/{self.total:,}  {standing}"
        self.bar.update(self.task, completed=done, standing=shown)

    def ended(self, record: RunRecord) -> None:
        """Take the bar away."""
        super().ended(record)
        self.bar.stop()
