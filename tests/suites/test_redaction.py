"""A secret does not come out again, in whatever way it went in."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.runs.record import CaseResult, CheckResult
from tallymark.suites.redaction import Redactor
from tallymark.traces import Span, Trace

SECRET = 'p@ss/wörd "42"+x'
REDACTOR = Redactor({"key": SECRET})
ENCODERS: list[Callable[[str], str]] = [
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    repr,
    html.escape,
    lambda text: json.dumps(text).replace("/", "\\/"),
    lambda text: json.dumps({"a": [text]}),
]


@pytest.mark.parametrize(
    "leak",
    [
        SECRET,
        f"You said: {SECRET}.",
        SECRET * 3,
        SECRET.upper(),
        SECRET.lower(),
        json.dumps({"echo": SECRET}),
        json.dumps({"echo": SECRET}, ensure_ascii=False),
        repr([SECRET]),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        urlencode({"q": SECRET}),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        base64.b64encode(f"u:{SECRET}\n".encode()).decode(),
        json.dumps(json.dumps({"echo": SECRET})),
        json.dumps(json.dumps(json.dumps(SECRET))),
        json.dumps(json.dumps({"echo": SECRET}, ensure_ascii=False)),
        json.dumps(repr([SECRET])),
        repr(repr(SECRET + "'")),
        repr(SECRET.encode()),
        json.dumps({"url": "http://h/?q=" + quote(SECRET)}),
        quote(quote(SECRET, safe=""), safe=""),
        quote(json.dumps(SECRET)),
        html.escape(SECRET),
        html.escape(json.dumps(SECRET)),
        json.dumps(SECRET).replace("/", "\\/"),
        json.dumps(SECRET).replace('\\"', "\\u0022").replace("+", "\\u002B"),
        json.dumps(json.dumps(SECRET).replace("/", "\\/")),
        base64.b64encode(json.dumps({"key": SECRET}).encode()).decode(),
        quote(base64.b64encode(f"user:{SECRET}".encode()).decode(), safe=""),
        f"cut at the end {SECRET[:9]}",
        f"cut in JSON {json.dumps(SECRET)[1:-5]}…",
        f"cut in the middle {SECRET[:7]}... and on",
        f"cut by a sign {SECRET[:8]}…",
    ],
)
def test_every_form_is_replaced_by_the_name(leak: str) -> None:
    shown = REDACTOR.text(leak)
    assert "***key***" in shown
    assert not any(part in shown for part in ("p@ss", "rd ", "42", "%20", "d+"))


@pytest.mark.parametrize("text", ["", "nothing here", "p@ss is a word", SECRET[:8] + " goes on"])
def test_other_text_is_left_alone(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_the_longest_secret_wins() -> None:
    redactor = Redactor({"short": "abcd", "long": "abcdefgh"})
    assert redactor.text("abcdefgh abcd") == "***long*** ***short***"


def test_what_was_put_in_is_not_looked_at_again() -> None:
    assert Redactor({"first": "abcdef", "second": "first"}).text("abcdef first") == (
        "***first*** ***second***"
    )


def test_records_are_redacted_all_the_way_down() -> None:
    span = Span(span_type="tool", tool_input=json.dumps({"q": SECRET}), metadata={SECRET: [SECRET]})
    result = CaseResult(
        case="a",
        status="failed",
        output=f"It is {SECRET}",
        checks=(
            CheckResult(
                kind="or", passed=False, parts=(CheckResult(kind="x", passed=False, error=SECRET),)
            ),
        ),
        trace=Trace(spans=[span]),
        cost=0.5,
    )
    shown = REDACTOR.redact(result)
    assert isinstance(shown, CaseResult)
    assert "p@ss" not in repr(shown)
    assert (shown.output, shown.cost, shown.case) == ("It is ***key***", 0.5, "a")
    assert shown.trace is not None
    assert shown.trace.spans[0].metadata == {"***key***": ["***key***"]}


def test_without_secrets_nothing_is_copied() -> None:
    data = {"a": ["b"]}
    assert Redactor({}).redact(data) is data


@given(st.text(min_size=8), st.text(), st.text())
def test_no_text_lets_a_secret_through(secret: str, before: str, after: str) -> None:
    shown = Redactor({"k": secret}).text(before + secret + after)
    marked = shown.replace("***k***", "")
    assert secret not in marked or secret in before + after


@given(st.text(min_size=4, max_size=12), st.lists(st.sampled_from(ENCODERS), max_size=3))
def test_a_secret_that_is_escaped_again_and_again_is_hidden(
    secret: str, encoders: list[Callable[[str], str]]
) -> None:
    text = secret
    for encode in encoders:
        text = encode(text)
    assert "***k***" in Redactor({"k": secret}).text(f"before {text} after")


def test_five_megabytes_take_no_time_to_speak_of() -> None:
    text = "p@ss " * 1_000_000
    assert REDACTOR.text(text) == text
