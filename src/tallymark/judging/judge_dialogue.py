"""The dialogue with a judge: telling it, reading its answer, asking once more, what it cost."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from tallymark.errors import ModelError
from tallymark.judging.kept_answers import KeptAnswer
from tallymark.judging.spending import JudgeSpending
from tallymark.models.model import Message

if TYPE_CHECKING:
    from tallymark.judging.fence import FencedText
    from tallymark.judging.kept_answers import JudgeMemory
    from tallymark.models.model import Answer

T = TypeVar("T")
AskJudge: TypeAlias = "Callable[[tuple[Message, ...]], Awaitable[Answer]]"
NOT_ANSWERED = "the judge did not answer"
IT_SAID = "; it said "
"""In an error, what comes after this is the judge's, and may be what it was told to say."""
_TRIES = 2
_LONGEST_OBJECT = 20_000


class UnreadableAnswer(Exception):
    """Why an answer is no verdict, in words of ours alone.

    The judge is told them outside of the fence, and its own words may be those of the evidence.
    """


@dataclass(frozen=True, slots=True)
class JudgeTask(Generic[T]):
    """One thing to judge."""

    words: Mapping[str, str]
    """`instructions` and `retry`, with places for the values, for $mark and for $why."""
    values: Mapping[str, str]
    material: FencedText
    read: Callable[[str], T]
    """From what the judge said itself to its verdict, or an UnreadableAnswer."""

    def messages(self, why: str | None = None) -> tuple[Message, ...]:
        """What the judge is told; `why` its last answer could not be read.

        It is one message of the user's even then: some models see no other.
        """
        known = {**self.values, "mark": self.material.mark, "why": why or ""}
        told, retry = (
            Template(self.words[part]).substitute(known).strip()
            for part in ("instructions", "retry")
        )
        shown = self.material.text if why is None else f"{self.material.text}\n\n{retry}"
        return Message("system", told), Message("user", shown)

    def read_answer(self, answer: str) -> T:
        """The verdict in what the judge said itself."""
        return self.read(self.material.cut_from(answer))


@dataclass(frozen=True, slots=True)
class JudgeFinding(Generic[T]):
    """The verdict, or None and why there is none; what it took, either way."""

    verdict: T | None
    error: str | None
    spending: JudgeSpending
    unavailable: bool = False
    """It did not answer, and would not have answered anything else either."""
    kept: bool = False
    """The verdict on the same question of earlier: nobody was asked."""
    retry_after: float | None = None
    """How many seconds one who did not answer asks to be left alone."""


async def ask_judge(
    task: JudgeTask[T], ask: AskJudge, memory: JudgeMemory | None = None
) -> JudgeFinding[T]:
    """The verdict of a judge; an answer that cannot be read is asked for once more.

    With a `memory`, the same question is asked once and has one verdict.
    """
    if memory is not None and (known := memory.recall(task.messages())) is not None:
        nothing = JudgeSpending(known.model, 0, 0, 0, 0.0)
        return JudgeFinding(task.read_answer(known.text), None, nothing, kept=True)
    answers: list[Answer] = []
    why: str | None = None
    for _ in range(_TRIES):
        try:
            answer = await ask(task.messages(why))
        except ModelError as error:
            said = f"{NOT_ANSWERED}: {error}"
            spent = JudgeSpending.of(answers, unanswered=1, refused=error.refused)
            # Only a refusal that names no remedy (a filter, a length) can be about these words.
            down = error.retryable or error.problems[0].hint is not None
            return JudgeFinding(None, said, spent, down, retry_after=error.retry_after)
        answers.append(answer)
        try:
            verdict = task.read_answer(answer.output)
        except UnreadableAnswer as unreadable:
            why = str(unreadable)
        else:
            if memory is not None:
                given = KeptAnswer(answer.output, answer.model)
                verdict = task.read_answer(memory.remember(task.messages(), given).text)
            return JudgeFinding(verdict, None, JudgeSpending.of(answers))
    said = f"{answers[-1].output[:200]!r}" if answers[-1].output else "nothing"
    failed = f"the judge's answer could not be read, twice{f': {why}' if why else ''}"
    return JudgeFinding(None, f"{failed}{IT_SAID}{said}", JudgeSpending.of(answers))


@cache
def load_words(path: Path) -> dict[str, str]:
    """The words of a task, from a TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_object(text: str) -> dict[str, Any]:
    """The answer of a judge that was asked for one JSON object and nothing else."""
    try:
        found = json.loads(text.strip()[:_LONGEST_OBJECT], object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreadableAnswer("it is not one JSON object")
    return found


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)  # of a key that is there twice, the last would count
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
