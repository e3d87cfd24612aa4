"""Contexts for the tables: what the agent said or did, and what was expected of it."""

from __future__ import annotations

from typing import Any

from tallymark.scoring import EvalContext, Expected
from tallymark.traces import Span, Trace


def ran(*spans: Span, **expected: Any) -> EvalContext:
    """A trace of these spans, and what was expected."""
    return EvalContext(Trace(spans=list(spans)), Expected.from_dict(expected, "expected"))


def said(output: str, /, **expected: Any) -> EvalContext:
    """A trace whose only model call gave this output."""
    return ran(model(output), **expected)


def called(*names: str, **expected: Any) -> EvalContext:
    """A trace of calls of these tools, and of the model that asked for them."""
    return ran(*(tool(name) for name in names), model("Done."), **expected)


def model(output: str = "", **fields: Any) -> Span:
    return Span(span_type="generation", output=output, **fields)


def tool(name: str, given: str | None = None, **fields: Any) -> Span:
    return Span(span_type="tool", tool_name=name, tool_input=given, **fields)


NOTHING = EvalContext(Trace())
"""No spans, nothing expected."""
