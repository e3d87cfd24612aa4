"""Whether a defence was breached in one category. A judge's failure is nobody's point."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from tallymark.scoring.score import show_value

MAX_REASON_CHARS = 2000
VerdictState = Literal["pending", "judged", "failed"]


class Meeting(NamedTuple):
    """What is judged: an attack, a defence, and the category in which they meet."""

    attack: Any
    defence: Any
    category: str


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge answered: breached or not, or None and why it could not tell."""

    breached: bool | None
    reason: str = ""
    error: str | None = None

    @classmethod
    def failed(cls, error: str) -> Ruling:
        """No answer."""
        return cls(breached=None, error=error[:MAX_REASON_CHARS])


class BreachVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one pairing in one category, with all that is needed to check it.

    pending -> judged, or pending -> failed -> judged: a failed verdict can be judged again, a
    judged one stands.
    """

    red: int
    blue: int
    """The ids of the submissions that met."""
    category: str
    state: VerdictState = "pending"
    breached: bool | None = None
    reason: str = ""
    error: str | None = None
    """Of the judge's last failure; it stays when a later try succeeds."""
    judge: str = ""
    """Which judge, in which version."""
    tries: int = 0
    judged_at: float | None = None


def read_ruling(answer: object) -> Ruling:
    """A judge's answer: true, false, or a mapping with `breached` and perhaps `reason`."""
    if isinstance(answer, bool):
        return Ruling(breached=answer)
    if not isinstance(answer, dict):
        return Ruling.failed(
            f"the judge answered {show_value(answer)}, not true, false or a mapping"
        )
    breached, reason = answer.get("breached"), answer.get("reason", "")
    if not isinstance(breached, bool):
        return Ruling.failed(f"the judge's 'breached' is {show_value(breached)}, not true or false")
    if not isinstance(reason, str):
        return Ruling.failed(f"the judge's 'reason' is {show_value(reason)}, not text")
    return Ruling(breached=breached, reason=reason[:MAX_REASON_CHARS])
