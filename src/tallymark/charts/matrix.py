"""Matrix of cases and runs: a square for each result, linked to its case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tallymark.charts.frame import (
    NARROW,
    Chart,
    element,
    fit,
    frame,
    frame_nothing,
    label,
    pct,
    tell,
)

MOST_CASES = 100
MOST_SQUARES = 240
"""In the rows of several runs, and of a single one."""
_COLUMNS = 20
_NARROWEST_SIGN = 13
_MOST_NAMES = 14
_ROW = 24


class Outcome(NamedTuple):
    """Name and sign of an outcome, and its height where cells are too narrow for signs."""

    word: str
    sign: str
    height: float


OUTCOMES = {
    "passed": Outcome("Passed", "✓", 0.25),
    "flaky": Outcome("Sometimes", "~", 0.5),
    "failed": Outcome("Failed", "✗", 1.0),
    "error": Outcome("Errors", "!", 0.75),
    "none": Outcome("Not run", "", 0.1),
}
"""Outcomes of a case in a run."""


class CaseColumn(NamedTuple):
    """A case: its name, where its details are, and its outcome in each run."""

    name: str
    link: str | None
    outcomes: Sequence[str]


def draw_matrix(title: str, runs: Sequence[str], cases: Sequence[CaseColumn]) -> Chart:
    """Draw a row for each run; the cases of a single run wrap into further rows.

    Too many cases are sampled evenly.
    """
    single = len(runs) == 1
    count = min(len(cases), MOST_SQUARES if single else MOST_CASES)
    chosen = [cases[place * len(cases) // count] for place in range(count)]
    rows, says = [], ""
    for place, run in enumerate(runs):
        found = Counter(case.outcomes[place] for case in cases)
        rows.append((run, *(f"{found[name]:,}" for name in OUTCOMES)))
        counted = (f"{OUTCOMES[name].word.lower()} {found[name]:,}" for name in OUTCOMES)
        says += f"{run}: {', '.join(counted)}. "
    if not chosen or not runs:
        svg = frame_nothing(title, "There are no cases.")
    elif single:
        wide = max(min(count, _COLUMNS), 8)
        body = "".join(
            _draw_square(case, 0, place % wide, place // wide, wide)
            for place, case in enumerate(chosen)
        )
        svg = frame(title, says, -(-count // wide) * _ROW, body, "bare flush")
    else:
        svg = _draw_rows(title, says, runs, chosen)
    return Chart(
        svg=svg,
        head=("Run", *(each.word for each in OUTCOMES.values())),
        rows=rows,
        notes=[f"{count} of {len(cases):,} cases, chosen evenly."] if count < len(cases) else [],
    )


def _draw_rows(title: str, says: str, runs: Sequence[str], cases: Sequence[CaseColumn]) -> str:
    wide = max(len(cases), 6)
    body = ""
    for row, name in enumerate(runs):
        body += label(-8, row * _ROW + 15, fit(name, 30), text_anchor="end")
        body += "".join(
            _draw_square(case, row, column, row, wide) for column, case in enumerate(cases)
        )
    named = len(cases) <= _MOST_NAMES
    for column, case in enumerate(cases if named else ()):
        name = label(4, 0, fit(case.name, 84), text_anchor="end", transform="rotate(-40)")
        x, y = pct((column + 0.5) / wide), len(runs) * _ROW + 12
        body += element("svg", element("g", tell(case.name), name), x=x, y=y)
    return frame(title, says, len(runs) * _ROW, body, "slant" if named else "bare")


def _draw_square(case: CaseColumn, run: int, column: int, row: int, wide: int) -> str:
    outcome = OUTCOMES[case.outcomes[run]]
    signed = NARROW / wide >= _NARROWEST_SIGN
    tall = (_ROW - 2) * (1.0 if signed else outcome.height)
    drawn = element(
        "rect",
        tell(f"{case.name}: {outcome.word.lower()}"),
        class_=case.outcomes[run],
        x=pct((column + 0.05) / wide),
        width=pct(0.9 / wide),
        y=row * _ROW + _ROW - 2 - tall,
        height=tall,
        rx=3 if signed else 0,
    )
    if signed and outcome.sign:
        x, y = pct((column + 0.5) / wide), row * _ROW + 15
        drawn += label(x, y, outcome.sign, text_anchor="middle", class_="inside")
    return element("a", drawn, tabindex="-1", href=case.link) if case.link else drawn
