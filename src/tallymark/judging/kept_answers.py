"""What judges answered, kept by a hash of what they were asked: one question has one verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from tallymark.models.model import Message

READER = 1
"""Which reader of answers this is: one that understands them otherwise asks anew."""


class KeptAnswer(NamedTuple):
    """An answer that was a verdict, and the name of who gave it."""

    text: str
    model: str | None


class AnswerStore(Protocol):
    """Where answers are kept; `store.judge_answers` is one."""

    def find(self, question: str) -> KeptAnswer | None:
        """What was answered."""
        ...

    def keep(self, question: str, answer: KeptAnswer) -> KeptAnswer:
        """Keeps an answer unless there is one already; gives back that which stands."""
        ...


OpenAnswers: TypeAlias = Callable[[], AnswerStore]
"""Called where a model judges, and nowhere else."""


@dataclass(frozen=True, slots=True)
class JudgeMemory:
    """What one judge has answered before. Only verdicts are kept, no failures."""

    store: AnswerStore
    judge: str
    """The model, as it was named."""
    version: str = ""
    """Of the files that the model is made of, where it is no model elsewhere."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def recall(self, messages: tuple[Message, ...]) -> KeptAnswer | None:
        """What it answered when it was asked the same."""
        return self.store.find(self._hash(messages))

    def remember(self, messages: tuple[Message, ...], answer: KeptAnswer) -> KeptAnswer:
        """The answer that stands: of two that ask the same at once, both get the first."""
        return self.store.keep(self._hash(messages), answer)

    def _hash(self, messages: tuple[Message, ...]) -> str:
        # A fence's mark is a hash of what it holds, so the same texts are the same question.
        asked = [(each.role, each.content) for each in messages]
        parts = [READER, self.judge, self.version, sorted(self.settings.items()), asked]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
