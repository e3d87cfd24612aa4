"""What checks and scorers see of an answer."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import built, subject

from tallymark.models import Answer
from tallymark.suites.checks.answer_under_check import Subject, fold
from tallymark.suites.checks.check_definition import CheckSetting
from tallymark.traces import Span, Trace


@pytest.mark.parametrize(
    ("text", "folded"),
    [("  Yes\n", "yes"), ("Straße", "strasse"), ("É", "é"), ("E\u0301", "é"), ("", "")],
)
def test_folding(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_the_output_is_folded_once() -> None:
    about = subject("Yes")
    assert about.folded is about.folded


def test_an_answer_without_spans_is_one_model_call() -> None:
    trace = subject("hi", output_tokens=2, cost=0.1, latency=2.0).trace
    (span,) = trace.spans
    assert (span.span_type, span.input, span.output) == ("generation", "the prompt", "hi")
    assert (trace.duration_ms, trace.cost) == (2000.0, 0.1)


def test_spans_are_the_trace() -> None:
    spans = (Span(span_type="tool", tool_name="t"), Span(span_type="generation", output="hi"))
    asked, *told = subject("hi", spans=spans).trace.spans
    assert (asked.name, asked.input, told) == ("question", "the prompt", list(spans))


def test_a_trace_that_is_given_is_taken() -> None:
    trace = Trace(trace_id="mine")
    about = Subject(Answer(output="hi", latency=1.0), given_trace=trace)
    assert about.context.trace is trace


def test_what_is_shown_of_a_pattern_has_no_secret() -> None:
    setting = CheckSetting(redact=lambda text: text.replace("sekret", "***k***"))
    assert setting.quote("*sekret*") == "'****k****'"
    check = built("match", "sekret", redact=setting.redact)
    assert check.function(subject("x")).reason == "does not match '***k***'"
