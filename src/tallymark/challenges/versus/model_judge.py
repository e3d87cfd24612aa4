"""A judge that is a model: shown one attack and one defence, fenced off, and asked one question.

Its options are those of the evaluator `judge`, as far as they concern the asking.
"""

from __future__ import annotations

import asyncio
import hashlib
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.evaluators.evaluator_kind import find_inner_file, read_options
from tallymark.challenges.evaluators.judge import JudgeTurns, render_submission
from tallymark.challenges.versus.pairings import Meeting, Ruling, read_ruling, require_versus
from tallymark.documents.agent_json import read_json
from tallymark.errors import InvalidInput, ModelError

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge

_WORDS = Path(__file__).with_suffix(".toml")
_AT_ONCE = 8
_TRIES = 2
"""How often a judge is asked when its answer cannot be read."""


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
        told = "\0".join((*_load_words().values(), challenge.goal, rubric))
        words = hashlib.sha256(told.encode()).hexdigest()[:12]
        return cls(f"model {model} {words}", model, folder, challenge.goal, rubric, options)

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        return asyncio.run(self._rule_all(meetings))

    async def _rule_all(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        # Models are heavy, and whoever only looks at a board asks none.
        from tallymark.models import (  # noqa: PLC0415
            Message,
            Pace,
            Request,
            answer_with_retries,
            open_model,
        )

        options = self.options
        model, pace = open_model(self.model, folder=self.folder), Pace(_AT_ONCE)
        settings = {} if options.temperature is None else {"temperature": options.temperature}

        async def ask(turns: JudgeTurns) -> str:
            request = Request(messages=tuple(Message(*turn) for turn in turns), settings=settings)
            answer, _ = await answer_with_retries(model, request, pace, timeout=options.timeout)
            return answer.output

        try:
            return await asyncio.gather(*(self._judge_one(each, ask) for each in meetings))
        finally:
            await model.close()

    async def _judge_one(
        self, meeting: Meeting, ask: Callable[[JudgeTurns], Awaitable[str]]
    ) -> Ruling:
        failed, ruling = None, Ruling.failed("")
        for _ in range(_TRIES):
            try:
                output = await ask(self.turns(meeting, failed))
            except ModelError as error:
                return Ruling.failed(f"the judge did not answer: {error}")
            ruling = _read_answer(output)
            if ruling.error is None:
                return ruling
            failed = output, ruling.error
        return Ruling.failed(f"the judge's answer could not be used, twice: {ruling.error}")

    def turns(self, meeting: Meeting, failed: tuple[str, str] | None = None) -> JudgeTurns:
        """What the judge is told: the same meeting always in the same words."""
        attack, _ = render_submission(meeting.attack, self.options.max_chars)
        defence, _ = render_submission(meeting.defence, self.options.max_chars)
        # The mark is a hash of what it fences, so that no text can hold its own.
        mark = hashlib.sha256(f"{attack}\0{defence}".encode()).hexdigest()[:16]
        told = Template(_load_words()["instructions"]).substitute(
            goal=self.goal.strip(), rubric=self.rubric.strip(), category=meeting.category, mark=mark
        )
        shown = "\n\n".join(
            f"<<< {title} {mark}\n{text}\n>>> {title} {mark}"
            for title, text in (("ATTACK", attack), ("DEFENCE", defence))
        )
        first: JudgeTurns = (("system", told.strip()), ("user", shown))
        if failed is None:
            return first
        answer, why = failed
        retry = Template(_load_words()["retry"]).substitute(why=why).strip()
        return (*first, ("assistant", answer[:2000] or "(nothing)"), ("user", retry))


def _read_answer(text: str) -> Ruling:
    try:
        answer = read_json(text.strip()[:20_000])
    except ValueError as error:
        return Ruling.failed(f"it is not one JSON object: {error}")
    if not isinstance(answer, dict):
        return Ruling.failed("it is not one JSON object")
    return read_ruling(answer)


@cache
def _load_words() -> dict[str, str]:
    return tomllib.loads(_WORDS.read_text(encoding="utf-8"))
