"""`echo/…`: answers with the prompt. For trying out a suite, and for measuring the rest."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from tallymark.models.model import Answer
from tallymark.models.model_answers import finish_answer

if TYPE_CHECKING:
    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference


class EchoModel:
    """Answers with the prompt; for speed, tokens are counted only where a price needs them."""

    def __init__(self, reference: ModelReference) -> None:
        """The text after `echo/` is only a label."""
        self.name = reference.text
        self._pricing = reference.pricing

    async def answer(self, request: Request) -> Answer:
        """The prompt."""
        began = perf_counter()
        output = request.messages[-1].content
        draft = Answer(output=output, latency=perf_counter() - began, model="echo")
        if self._pricing is None:
            return draft
        return await finish_answer(request, draft, self._pricing)

    async def close(self) -> None:
        """Do nothing: no connection is open."""
