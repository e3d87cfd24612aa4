"""Versus challenges, submissions and judges, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tallymark.challenges.challenge import Challenge, Evaluator, Submission, Versus, VersusJudge
from tallymark.challenges.versus import pairings
from tallymark.challenges.versus.pairings import Meeting, Ruling, Side


def a_challenge(name: str = "guard", **changes: Any) -> Challenge:
    judge = VersusJudge(type="script", options={"script": "judge.py"})
    given: dict[str, Any] = {
        "name": name,
        "title": name,
        "goal": "Get past the guard.",
        "version": "v1",
        "kind": "versus",
        "submission": Submission(format="json"),
        "evaluator": Evaluator(type="reported"),
        "versus": Versus(categories=("leak", "override"), judge=judge),
    }
    return Challenge(**given | changes)


def a_submission(number: int, player: str, side: Side) -> pairings.SideSubmission:
    return pairings.SideSubmission(
        id=number, agent=player, side=side, number=1, submitted_at=float(number), version="v1"
    )


class FakeJudge:
    """Rules by a function; what it raises is its failure. Remembers what it was asked."""

    def __init__(self, breached: Callable[[Meeting], bool]) -> None:
        self.name = "fake judge"
        self.asked: list[Meeting] = []
        self._breached = breached

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        return [self._ruling(each) for each in meetings]

    def _ruling(self, meeting: Meeting) -> Ruling:
        self.asked.append(meeting)
        try:
            return Ruling(breached=self._breached(meeting), reason="because")
        except ValueError as error:
            return Ruling.failed(str(error))
