"""What must not be stored is gone before anything is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.traces.otlp_samples import as_json, span

from tallymark.errors import InvalidInput
from tallymark.traces import Span, Trace
from tallymark.traces.otlp_export import SpanGroup, read_export
from tallymark.traces.redaction import REDACTED, Redactor

CARD = r"\d{4} \d{4} \d{4} \d{4}"


def redact(redactor: Redactor, **attributes: Any) -> SpanGroup:
    export = read_export(as_json(span(name="pay", **attributes), host="web-1"), "json")
    groups = export.traces[f"{1:032x}"].groups
    redactor.clean_groups(groups)
    return groups[0]


def test_attributes_lose_their_values_by_name() -> None:
    group = redact(Redactor(["USER.*", "host"], []), user__email="a@b.c", city="Paris")
    assert group.spans[0].attributes == {"user.email": REDACTED, "city": "Paris"}
    assert group.resource == {"host": REDACTED}


def test_texts_lose_what_fits_a_pattern() -> None:
    group = redact(Redactor([], [CARD]), prompt="my card is 1234 5678 9012 3456, thanks")
    assert group.spans[0].attributes["prompt"] == f"my card is {REDACTED}, thanks"


def test_a_trace_of_another_dialect_is_redacted_and_holds_together() -> None:
    inner = Span(
        span_id="1234 5678 9012 3456",
        input="1234 5678 9012 3456",
        metadata={"deep": [{"secret": "x", "said": "1234 5678 9012 3456"}]},
    )
    trace = Redactor(["secret"], [CARD]).clean_trace(Trace(trace_id="t", spans=[inner]))
    (kept,) = trace.spans
    assert (kept.span_id, kept.input) == ("1234 5678 9012 3456", REDACTED)
    assert kept.metadata == {"deep": [{"secret": REDACTED, "said": REDACTED}]}


def test_an_answer_that_is_redacted_by_its_name_is_still_the_answer() -> None:
    answer = Span(output="secret", output_is_answer=True)
    trace = Redactor(["output*"], []).clean_trace(Trace(trace_id="t", spans=[answer]))
    assert trace.answer == REDACTED


def test_a_pattern_that_takes_too_long_costs_the_whole_text() -> None:
    slow = Redactor([], ["(x+x+)+y"])
    assert slow.clean_text("x" * 5000) == REDACTED


@pytest.mark.parametrize("pattern", ["(", "x*", "a" * 501])
def test_patterns_that_cannot_be_used_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="redaction pattern"):
        Redactor([], [pattern])
