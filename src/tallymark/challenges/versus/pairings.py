"""Which pairings a new submission makes, and the verdict on each: was a defence breached?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from tallymark.challenges.challenge import PublicChallenge, Versus
from tallymark.errors import InvalidInput
from tallymark.scoring.score import show_value

Side = Literal["red", "blue"]
OTHER_SIDE: dict[Side, Side] = {"red": "blue", "blue": "red"}
VerdictState = Literal["pending", "judged", "failed"]
MAX_REASON_CHARS = 2000
JUDGE_FAILED = "the judge failed; the organiser can see why"


class SideSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """An attack or a defence, without its content."""

    id: int
    """Later ones of a challenge have greater ids."""
    agent: str
    side: Side
    number: int
    """1 for the agent's first on this side."""
    submitted_at: float
    version: str
    """Version of the challenge at submission."""


class Pairing(NamedTuple):
    """An attack and a defence that meet, by the ids of the submissions."""

    red: int
    blue: int


def find_active(submissions: Iterable[SideSubmission], side: Side) -> list[SideSubmission]:
    """The newest submission of every player on a side, oldest first."""
    ordered = sorted((each for each in submissions if each.side == side), key=lambda each: each.id)
    newest = {each.agent: each for each in ordered}
    return [each for each in ordered if newest[each.agent] is each]


def make_pairings(new: SideSubmission, others: Iterable[SideSubmission]) -> list[Pairing]:
    """Pairings of a new submission, in the order of its opponents' arrival.

    It meets the newest one of every opponent. No one meets themselves: points against one's own
    other side would be free.
    """
    opponents = [
        each for each in find_active(others, OTHER_SIDE[new.side]) if each.agent != new.agent
    ]
    if new.side == "red":
        return [Pairing(new.id, each.id) for each in opponents]
    return [Pairing(each.id, new.id) for each in opponents]


def require_versus(challenge: PublicChallenge) -> Versus:
    """The red and blue settings of a challenge; refuses another kind."""
    if challenge.kind != "versus" or challenge.versus is None:
        raise InvalidInput(
            f"{challenge.name} is not a challenge of red against blue",
            hint="such a challenge has kind: versus",
        )
    return challenge.versus


class Meeting(NamedTuple):
    """A pairing: an attack, a defence, and the category in which they meet."""

    attack: Any
    defence: Any
    category: str


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer: breached or not, or None with the reason."""

    breached: bool | None
    reason: str = ""
    error: str | None = None
    waiting: bool = False
    """The judge was unreachable or not called; neither side is the cause."""

    @classmethod
    def failed(cls, error: str, *, waiting: bool = False) -> Ruling:
        """No answer."""
        return cls(breached=None, error=error[:MAX_REASON_CHARS], waiting=waiting)


class BreachVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one pairing in one category, with all that is needed to check it.

    pending -> judged, or pending -> failed -> judged: a failed verdict can be judged again, a
    judged one stands. A ruling that waits leaves the state as it is.
    """

    red: int
    blue: int
    """The ids of the submissions that met."""
    category: str
    state: VerdictState = "pending"
    breached: bool | None = None
    reason: str = ""
    error: str | None = None
    """Reason of the judge's last failure; unchanged by a later success."""
    judge: str = ""
    """Which judge, in which version."""
    tries: int = 0
    judged_at: float | None = None

    def without_words(self) -> BreachVerdict:
        """The verdict as a player may see it: a judge's text quotes the other side and secrets."""
        error = None if self.error is None else JUDGE_FAILED
        return msgspec.structs.replace(self, error=error, reason="")


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
