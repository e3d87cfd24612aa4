"""`Subject`: what a check looks at, made once for each answer."""

from __future__ import annotations

import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.models.model import Request
from tallymark.models.model_answers import trace_of
from tallymark.scoring import Config, EvalContext, Expected

if TYPE_CHECKING:
    from tallymark.models.model import Answer
    from tallymark.traces import Trace

_NOTHING_ASKED = Request(messages=())
_NOTHING_EXPECTED = Expected()
_NO_CONFIG = Config()


class Subject(msgspec.Struct, dict=True, eq=False):
    """An answer with its case. Parts that only some checks need are built on demand."""

    answer: Answer
    request: Request = _NOTHING_ASKED
    expected: Expected = _NOTHING_EXPECTED
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    config: Config = _NO_CONFIG
    given_trace: Trace | None = None
    """Context for scorers; made from request and answer if not given."""
    _folded: str | None = None

    @property
    def folded(self) -> str:
        """The output, trimmed, without differences of case."""
        # Not `cached_property`, whose lock takes longer than this: nearly every check asks.
        if self._folded is None:
            self._folded = fold(self.answer.output)
        return self._folded

    @cached_property
    def trace(self) -> Trace:
        """Trace of the call."""
        given = self.given_trace
        return trace_of(self.request, self.answer) if given is None else given

    @cached_property
    def context(self) -> EvalContext:
        """Context for scorers."""
        return EvalContext(self.trace, self.expected, self.metadata, self.config)


def fold(text: str) -> str:
    """Text as `match` compares it: trimmed, in one Unicode form, case folded."""
    text = text.strip()
    # Most answers are ASCII, where the short way gives the same.
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()
