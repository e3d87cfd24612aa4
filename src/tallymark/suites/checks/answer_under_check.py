"""`Subject`: what a check looks at, made once for each answer."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from tallymark.models.model import Request
from tallymark.models.model_answers import trace_of
from tallymark.scoring import Config, EvalContext, Expected

if TYPE_CHECKING:
    from tallymark.models.model import Answer
    from tallymark.traces import Trace

_NOTHING_ASKED = Request(messages=())
_NOTHING_EXPECTED = Expected()
_NO_CONFIG = Config()


class Subject:
    """An answer, and what its case says about it. What only some checks need is made late."""

    __slots__ = (
        "_context",
        "_folded",
        "_trace",
        "answer",
        "config",
        "expected",
        "metadata",
        "request",
    )

    def __init__(
        self,
        answer: Answer,
        request: Request = _NOTHING_ASKED,
        *,
        expected: Expected = _NOTHING_EXPECTED,
        metadata: dict[str, Any] | None = None,
        config: Config = _NO_CONFIG,
        trace: Trace | None = None,
    ) -> None:
        """`trace` is what scorers see; without one it is made from request and answer."""
        self.answer = answer
        self.request = request
        self.expected = expected
        self.metadata = metadata or {}
        self.config = config
        self._trace = trace
        self._folded: str | None = None
        self._context: EvalContext | None = None

    @property
    def folded(self) -> str:
        """The output, trimmed, without differences of case."""
        if self._folded is None:
            self._folded = fold(self.answer.output)
        return self._folded

    @property
    def trace(self) -> Trace:
        """What happened."""
        if self._trace is None:
            self._trace = trace_of(self.request, self.answer)
        return self._trace

    @property
    def context(self) -> EvalContext:
        """What scorers see."""
        if self._context is None:
            self._context = EvalContext(self.trace, self.expected, self.metadata, self.config)
        return self._context


def fold(text: str) -> str:
    """Text as `match` compares it: trimmed, in one Unicode form, case folded."""
    text = text.strip()
    # Most answers are ASCII, where the short way gives the same.
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()
