"""`tool_called` and `not_tool_called`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.suites.checks.built_checks import checked

from tallymark.traces import Span

SPANS = (
    Span(span_type="generation", output="thinking"),
    Span(span_type="tool", tool_name="search", tool_input='{"q": "cats", "limit": 5}'),
    Span(span_type="tool", name="read", tool_input="not json"),
    Span(span_type="tool", tool_name="search", tool_input='{"q": "dogs", "deep": {"a": [1]}}'),
)


@pytest.mark.parametrize(
    ("config", "called"),
    [
        ("search", True),
        ("read", True),
        ("Search", False),
        ("write", False),
        ({"name": "search"}, True),
        ({"name": "search", "arguments": {"q": "dogs"}}, True),
        ({"name": "search", "arguments": {"q": "cats", "limit": 5}}, True),
        ({"name": "search", "arguments": {"q": "cats", "limit": 6}}, False),
        ({"name": "search", "arguments": {"deep": {"a": [1]}}}, True),
        ({"name": "search", "arguments": {"limit": True}}, False),
        ({"name": "search", "arguments": {"none": None}}, False),
        ({"name": "read", "arguments": {"q": "cats"}}, False),
        ({"name": "read", "arguments": {"input": "not json"}}, True),
    ],
)
def test_calls(config: Any, called: bool) -> None:
    assert checked("tool_called", config, spans=SPANS).passed is called
    assert checked("not_tool_called", config, spans=SPANS).passed is not called


def test_an_answer_without_tools() -> None:
    result = checked("tool_called", "search")
    assert (result.passed, result.reason) == (False, "'search' was not called; called: no tool")
    assert checked("not_tool_called", "search").passed


def test_the_reason_lists_what_was_called() -> None:
    reason = checked("tool_called", {"name": "search", "arguments": {"q": 1}}, spans=SPANS).reason
    assert reason == "'search' with these arguments was not called; called: search, read"
