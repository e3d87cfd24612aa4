"""Forms in which people score cases."""

from __future__ import annotations

from typing import Any

from tallymark.errors import InvalidInput
from tallymark.runs.reviews import VERDICT
from tallymark.service.callers import REPORTERS, name_author
from tallymark.web.visit import Visit


def find_author(visit: Visit) -> str | None:
    """The author of the visitor's scores; None if they may not give any."""
    return name_author(visit.caller) if visit.caller.role in REPORTERS else None


def give_score(visit: Visit, run: str, case: str, epoch: int) -> None:
    """Score a case as the form says."""
    visit.visitor.require_runs()
    name = visit.form.get("name") or VERDICT
    visit.tally.scores.give(run, case, name=name, epoch=epoch, **_read_given(visit))


def change_score(visit: Visit) -> None:
    """Replace a score by what the form says."""
    visit.visitor.require_runs()
    visit.tally.scores.change(visit.form.get("score"), **_read_given(visit))


def withdraw_score(visit: Visit) -> None:
    """Withdraw the score that the form names."""
    visit.visitor.require_runs()
    visit.tally.scores.withdraw(visit.form.get("score"))


def _read_given(visit: Visit) -> dict[str, Any]:
    form = visit.form
    text = form.get("value")
    try:
        value = float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{text[:40]!r} is no number from 0 to 1", hint="as in 0.5") from None
    return {"value": value, "label": form.get("label") or None, "comment": form.get("comment")}
