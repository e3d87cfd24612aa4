"""A judge that is a model: shown one attack and one defence, fenced off, and asked one question.

Its options are those of the evaluator `judge`, as far as they concern the asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.evaluators.evaluator_kind import find_inner_file, read_options
from tallymark.challenges.evaluators.judge import EVALUATOR as RATING
from tallymark.challenges.evaluators.judge import hash_rubric, open_asking, render_submission
from tallymark.challenges.versus.pairings import Meeting, Ruling, read_ruling, require_versus
from tallymark.errors import InvalidInput
from tallymark.judging.fence import fence
from tallymark.judging.judge_dialogue import (
    AskJudge,
    JudgeTask,
    UnreadableAnswer,
    ask_judge,
    load_words,
    read_object,
)

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge

_WORDS = Path(__file__).with_suffix(".toml")


class ModelJudgeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `judge:` may say beside `type: judge`."""

    rubric: str
    model: str | None = None
    temperature: float | None = 0.0
    max_chars: int = 20_000
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """Asks a model for every meeting, a few at a time."""

    name: str
    model: str
    folder: Path
    goal: str
    rubric: str
    options: ModelJudgeOptions

    @classmethod
    def of(cls, challenge: Challenge, folder: Path, judge_model: str | None) -> ModelJudge:
        """The judge that a challenge names, or the model that is given in its place."""
        options = read_options(require_versus(challenge).judge, ModelJudgeOptions)
        model = judge_model or options.model
        if model is None:
            raise InvalidInput(
                "no model is named to judge", hint="write versus.judge.model, or give a judge model"
            )
        path = find_inner_file(folder, options.rubric, "versus, judge, rubric")
        try:
            rubric = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"versus, judge, rubric: it cannot be read: {error}") from None
        words = hash_rubric(_WORDS, challenge.goal, rubric)
        return cls(f"model {model} {words}", model, folder, challenge.goal, rubric, options)

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        options = self.options
        ask = open_asking(self.model, self.folder, options.timeout, options.temperature)
        return asyncio.run(self._rule_all(meetings, ask))

    async def _rule_all(self, meetings: Sequence[Meeting], ask: AskJudge) -> list[Ruling]:
        found = await asyncio.gather(*(ask_judge(self.task(each), ask) for each in meetings))
        return [each.verdict or Ruling.failed(each.error or "") for each in found]

    def task(self, meeting: Meeting) -> JudgeTask[Ruling]:
        """What the judge is told: the same meeting always in the same words."""
        attack, _ = render_submission(meeting.attack, self.options.max_chars)
        defence, _ = render_submission(meeting.defence, self.options.max_chars)
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


_DEFAULTS = ModelJudgeOptions(rubric="")
OPTIONS = {
    "rubric": RATING.options["rubric"],
    **{
        name: replace(RATING.options[name], default=getattr(_DEFAULTS, name))
        for name in ("model", "temperature", "max_chars", "timeout")
    },
}
