"""What is seen of a run while it goes on: a bar on a terminal, plain lines elsewhere.

Everything goes to stderr; stdout is for results.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tallymark.runs.problems import list_problems, name_case
from tallymark.runs.run import name_model
from tallymark.text import clean_line, format_count, format_money, format_score, format_share, say

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.tally import Tally

_EVERY = 5.0
"""Seconds between lines that say how far it is."""
_FAILURES_SHOWN = 20
"""Failures that are told as they come; the summary has them all."""


class PlainWatch:
    """A line now and then, and one for each failure."""

    every: float | None = _EVERY
    current: str | None = None
    """The run that goes on, or went on last."""
    formula: Formula | None = None
    total = 0
    told = 0
    last = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula) -> None:
        """A run begins, or goes on."""
        self.current, self.formula = record.id, formula
        self.total, self.told, self.last = record.total, 0, time.monotonic()
        already = f", {tally.finished:,} done before" if tally.finished else ""
        cases = format_count(record.total, "case")
        what = f"{record.suite} against {name_model(record)}, {cases}{already}"
        say(f"{record.id}: {what}", err=True)

    def moved(self, result: CaseResult, tally: Tally) -> None:
        """A case is done."""
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

    def ended(self, record: RunRecord) -> None:
        """A run is over; its summary says how."""

    def describe(self, tally: Tally) -> str:
        """`120/200  score 71.20, 80.0% passed, 2 errors, $0.0177`."""
        score = tally.score(self.formula).score if self.formula is not None else None
        total = tally.all
        parts = [f"score {format_score(score)}"] if score is not None else []
        parts += [f"{format_share(total.success)} passed"] if total.success is not None else []
        parts += [format_count(tally.errors, "error")] if tally.errors else []
        parts += [format_money(total.cost.total)] if total.cost.known else []
        return f"{tally.finished:,}/{self.total:,}  {', '.join(parts)}"


class BarWatch(PlainWatch):
    """A bar with the numbers so far. While it is shown, rich puts what is said above it."""

    every = None
    bar: Any = None
    task: Any = None
    drawn = 0.0

    def started(self, record: RunRecord, tally: Tally, formula: Formula) -> None:
        """Show the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

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

    def ended(self, record: RunRecord) -> None:
        """Take the bar away."""
        super().ended(record)
        self.bar.stop()
