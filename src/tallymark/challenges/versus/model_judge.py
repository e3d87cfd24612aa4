"""A model as judge: shown one attack and one defence, fenced off, with one question.

Its options are those of the evaluator `judge` that concern the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.evaluators.evaluator_kind import fill_options
from tallymark.challenges.evaluators.judge import EVALUATOR as RATING
from tallymark.challenges.evaluators.judge import (
    hash_rubric,
    open_judging,
    read_rubric,
    render_submission,
)
from tallymark.challenges.versus.pairings import (
    Meeting,
    Ruling,
    read_ruling,
    require_versus,
)
from tallymark.errors import InvalidInput
from tallymark.judging.judge_dialogue import (
    JudgeTask,
    UnreadableAnswer,
    fence,
    load_words,
    read_object,
)

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.judging.judge_dialogue import OpenAnswers

_WORDS = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """Asks a model for every meeting, a few at a time."""

    name: str
    model: str
    folder: Path
    goal: str
    rubric: str
    options: Mapping[str, Any]
    version: str
    answers: OpenAnswers | None

    @classmethod
    def of(
        cls,
        challenge: Challenge,
        folder: Path,
        judge_model: str | None,
        answers: OpenAnswers | None = None,
    ) -> ModelJudge:
        """The judge that a challenge names, or the model that is given in its place."""
        options = fill_options(OPTIONS, require_versus(challenge).judge.options)
        model = judge_model or options.get("model")
        if model is None:
            raise InvalidInput(
                "no model is named to judge", hint="write versus.judge.model, or give a judge model"
            )
        rubric = read_rubric(folder, options["rubric"], "versus, judge, rubric")
        words = hash_rubric(_WORDS, challenge.goal, rubric)
        return cls(
            f"model {model} {words}",
            model,
            folder,
            challenge.goal,
            rubric,
            options,
            challenge.version,
            answers,
        )

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        return asyncio.run(self._rule_all(meetings))

    async def _rule_all(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        judge = open_judging(self.model, self.version, self.folder, self.options, self.answers)
        found = await asyncio.gather(*(judge(self.task(each)) for each in meetings))
        return [
            each.verdict or Ruling.failed(each.error or "", waiting=each.unavailable)
            for each in found
        ]

    def task(self, meeting: Meeting) -> JudgeTask[Ruling]:
        """The prompt of the judge: always the same for the same pairing."""
        attack, _ = render_submission(meeting.attack, self.options["max_chars"])
        defence, _ = render_submission(meeting.defence, self.options["max_chars"])
        values = {
            "goal": self.goal.strip(),
            "rubric": self.rubric.strip(),
            "category": meeting.category,
        }
        material = fence({"ATTACK": attack, "DEFENCE": defence})
        return JudgeTask(load_words(_WORDS), values, material, _read_ruling)


def _read_ruling(text: str) -> Ruling:
    ruling = read_ruling(read_object(text))
    if ruling.error is not None:
        raise UnreadableAnswer("its 'breached' is not true or false, or its 'reason' is not text")
    return ruling


OPTIONS = {
    **{name: RATING.options[name] for name in ("rubric", "model", "temperature", "timeout")},
    "max_chars": replace(RATING.options["max_chars"], default=20_000),
}
