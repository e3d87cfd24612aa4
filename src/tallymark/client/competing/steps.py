"""`Steps`: model and tool calls of an agent in Python, sent to the server as they end.

    def solve(brief):
        with brief.steps.tool("read_log", "access.log") as call:
            call.output = brief.data["access.log"]
        return {"attacker": brief.ask("openai/gpt-5-mini", "Who was it? " + call.output)}

A framework with OpenTelemetry needs none of this: variables configure its exporter.
"""

from __future__ import annotations

import os
import secrets
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tallymark.event_loops import run_to_end
from tallymark.traces import Span
from tallymark.traces.otlp_document import write_otlp

ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_TIMEOUT_S = 60.0


class Step:
    """A running call: set its output before it ends."""

    def __init__(self) -> None:
        self.output = ""
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cost: float | None = None


class Steps:
    """Records the steps of an agent and passes each to `send`."""

    def __init__(self, send: Callable[[Sequence[Span]], None]) -> None:
        self.send = send

    @classmethod
    def from_environment(cls) -> Steps:
        """Send steps to the address of OpenTelemetry exporters; drop them if there is none."""
        address = os.environ.get(ENDPOINT)
        return cls(_Exporter(address) if address else lambda _: None)

    @contextmanager
    def tool(self, name: str, given: str = "") -> Iterator[Step]:
        """A tool call, for the time of a `with`."""
        with self._step("tool", name, given, None) as step:
            yield step

    @contextmanager
    def model(self, name: str, prompt: str = "") -> Iterator[Step]:
        """A model call, for the time of a `with`; without its tokens it proves nothing."""
        with self._step("generation", "model call", prompt, name) as step:
            yield step

    def ask(self, model: str, prompt: str, **settings: Any) -> str:
        """Ask a model, named as in `tally run -m`."""
        began = time.time() * 1000
        answer, spans = run_to_end(lambda: _ask(model, prompt, settings))
        group = secrets.token_hex(8)
        told = [
            msgspec.structs.replace(
                span,
                span_id=f"{group}-{span.span_id or number}",
                parent_id=span.parent_id and f"{group}-{span.parent_id}",
                start_ms=began if span.start_ms is None else span.start_ms,
            )
            for number, span in enumerate(spans)
        ]
        self.send(told)
        return answer

    @contextmanager
    def _step(self, kind: Any, name: str, given: str, model: str | None) -> Iterator[Step]:
        step, began, failed = Step(), time.time(), None
        try:
            yield step
        except BaseException as error:
            failed = f"{type(error).__name__}: {error}"
            raise
        finally:
            span = Span(
                span_id=secrets.token_hex(8),
                name=name,
                span_type=kind,
                input=given,
                output=step.output,
                tool_name=name if kind == "tool" else None,
                model=model,
                start_ms=began * 1000,
                duration_ms=(time.time() - began) * 1000,
                input_tokens=step.input_tokens,
                output_tokens=step.output_tokens,
                cost=step.cost,
                error=failed,
            )
            self.send([span])


class _Exporter:
    """Sends spans to an address before the agent continues; later could be too late."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._trace = secrets.token_hex(16)

    def __call__(self, spans: Sequence[Span]) -> None:
        document = write_otlp(spans, {"service.name": "tallymark"}, self._trace)
        request = urllib.request.Request(  # noqa: S310 (the relay's, which we were given)
            self._address,
            msgspec.json.encode(document),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            answer.read()


async def _ask(model: str, prompt: str, settings: dict[str, Any]) -> tuple[str, Sequence[Span]]:
    # Providers are heavy, and most agents bring their own.
    from tallymark.models.model import Message, Request  # noqa: PLC0415
    from tallymark.models.model_answers import finish_answer, trace_of  # noqa: PLC0415
    from tallymark.models.model_kinds import open_model  # noqa: PLC0415

    opened = open_model(model)
    try:
        request = Request(messages=(Message("user", prompt),), settings=settings)
        # Count the tokens if the provider did not: a call without any proves nothing.
        answer = await finish_answer(request, await opened.answer(request), None)
    finally:
        await opened.close()
    return answer.output, trace_of(request, answer).spans
