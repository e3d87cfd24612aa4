"""The dialogue with a judge: telling it, reading its answer, asking once more, what it cost."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from tallymark.errors import ModelError
from tallymark.judging.spending import JudgeSpending
from tallymark.models.model import Message

if TYPE_CHECKING:
    from tallymark.models.model import Answer, Message

_DIGITS = 16


class FencedText(msgspec.Struct, frozen=True):
    """Untrusted texts, each between its fences, and the mark that only their fences have."""

    text: str
    mark: str

    def cut_from(self, answer: str) -> str:
        """The judge's own words: everything that it repeats from inside the fences is removed.

        A fence that it did not close holds everything to the end, and one that it did not open
        everything before: no verdict is better than one that the evidence wrote.
        """
        fence = rf"[^\n]{{1,40}} {self.mark}"
        own = re.sub(rf"<<<{fence}.*?(?:>>>{fence}|\Z)", "", answer, flags=re.DOTALL)
        return re.split(rf">>>{fence}", own)[-1]


def fence(parts: Mapping[str, str], *known: str) -> FencedText:
    """Each part between lines with its title; `known` are texts that the mark depends on too."""
    clean = {title: _clean(text) for title, text in parts.items()}
    mark = _choose_mark("\0".join((*map(_clean, known), *clean.values())))
    fenced = (
        f"<<< {title} {mark}\n{text or '(empty)'}\n>>> {title} {mark}"
        for title, text in clean.items()
    )
    return FencedText("\n\n".join(fenced), mark)


def _choose_mark(texts: str) -> str:
    """Choose a mark that is not in the texts; their hash is in them only after 2**64 tries."""
    mark = _hash(texts)
    while mark in texts.casefold():
        mark = _hash(mark)
    return mark


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _clean(text: str) -> str:
    """Replace half surrogate pairs, which cannot be sent or hashed."""
    return text.encode("utf-8", "replace").decode()


READER = 1
"""Version of the code that reads answers: after a change, questions are sent again."""


class JudgeAnswer(NamedTuple):
    """An answer that was a verdict, and the model that gave it."""

    text: str
    model: str | None


class AnswerStore(Protocol):
    """Storage of answers, such as `store.judge_answers`."""

    def find(self, question: str) -> JudgeAnswer | None:
        """The stored answer to a question."""
        ...

    def keep(self, question: str, answer: JudgeAnswer) -> JudgeAnswer:
        """Store an answer unless there is one already; return the stored one."""
        ...


OpenAnswers: TypeAlias = Callable[[], AnswerStore]
"""Called only when a model judges."""


@dataclass(frozen=True, slots=True)
class JudgeMemory:
    """The earlier verdicts of one judge; failures are not stored."""

    store: AnswerStore
    judge: str
    """The model's reference as given."""
    version: str = ""
    """Version of the model's files, for a local model."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def recall(self, messages: tuple[Message, ...]) -> JudgeAnswer | None:
        """The earlier answer to the same messages."""
        return self.store.find(self._hash(messages))

    def remember(self, messages: tuple[Message, ...], answer: JudgeAnswer) -> JudgeAnswer:
        """Store an answer; of two concurrent ones to equal messages, both callers get the first."""
        return self.store.keep(self._hash(messages), answer)

    def _hash(self, messages: tuple[Message, ...]) -> str:
        # A fence's mark is a hash of what it holds, so the same texts are the same question.
        asked = [(each.role, each.content) for each in messages]
        parts = [READER, self.judge, self.version, sorted(self.settings.items()), asked]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


T = TypeVar("T")
AskJudge: TypeAlias = "Callable[[tuple[Message, ...]], Awaitable[Answer]]"
NOT_ANSWERED = "the judge did not answer"
IT_SAID = "; it said "
"""In an error, the text after this is the judge's, and may repeat the evidence."""
_TRIES = 2
_LONGEST_OBJECT = 20_000


class UnreadableAnswer(Exception):
    """The reason why an answer is no verdict, without any of the judge's own words.

    The judge gets this reason outside of the fence, and its own words may be those of the
    evidence.
    """


@dataclass(frozen=True, slots=True)
class JudgeTask(Generic[T]):
    """One thing to judge."""

    words: Mapping[str, str]
    """`instructions` and `retry`, with places for the values, for $mark and for $why."""
    values: Mapping[str, str]
    material: FencedText
    read: Callable[[str], T]
    """From the judge's own words to its verdict, or an UnreadableAnswer."""

    def messages(self, why: str | None = None) -> tuple[Message, ...]:
        """The messages for the judge; `why` explains why its last answer could not be read.

        There is always one user message only: some models ignore any other.
        """
        known = {**self.values, "mark": self.material.mark, "why": why or ""}
        instructions, retry = (
            Template(self.words[part]).substitute(known).strip()
            for part in ("instructions", "retry")
        )
        shown = self.material.text if why is None else f"{self.material.text}\n\n{retry}"
        return Message("system", instructions), Message("user", shown)

    def read_answer(self, answer: str) -> T:
        """The verdict in the judge's own words."""
        return self.read(self.material.cut_from(answer))


@dataclass(frozen=True, slots=True)
class JudgeFinding(Generic[T]):
    """The verdict, or None with an error; in both cases the spending."""

    verdict: T | None
    error: str | None
    spending: JudgeSpending
    unavailable: bool = False
    """True if the judge did not answer, and would not have answered any other question."""
    kept: bool = False
    """True for a stored verdict on the same question, without a new request."""
    retry_after: float | None = None
    """Seconds to wait, requested by a model that did not answer."""


async def ask_judge(
    task: JudgeTask[T], ask: AskJudge, memory: JudgeMemory | None = None
) -> JudgeFinding[T]:
    """Get the verdict of a judge; an answer that cannot be read is requested once more.

    With a `memory`, the same question is sent once and has one verdict.
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
                given = JudgeAnswer(answer.output, answer.model)
                verdict = task.read_answer(memory.remember(task.messages(), given).text)
            return JudgeFinding(verdict, None, JudgeSpending.of(answers))
    said = f"{answers[-1].output[:200]!r}" if answers[-1].output else "nothing"
    failed = f"the judge's answer could not be read, twice{f': {why}' if why else ''}"
    return JudgeFinding(None, f"{failed}{IT_SAID}{said}", JudgeSpending.of(answers))


@cache
def load_words(path: Path) -> dict[str, str]:
    """The texts of a task, from a TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_object(text: str) -> dict[str, Any]:
    """Read an answer that must be one JSON object and nothing else."""
    try:
        found = json.loads(text.strip()[:_LONGEST_OBJECT], object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreadableAnswer("it is not one JSON object")
    return found


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)  # of two equal keys, the last would win
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
