"""The guide's examples give the values that its TypeScript gives, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tallymark.scoring import EvalContext, Score, load_scorer
from tallymark.scoring.scorer_registry import import_scorer

FILE = str(Path(__file__).parents[2] / "examples" / "trace_scorers.py")


def mock_context(output: str, *tools: tuple[str, str]) -> EvalContext:
    """The guide's own mock context, in its camelCase, with tool calls if any."""
    spans: list[dict[str, Any]] = [
        {"spanType": "tool", "toolName": name, "toolInput": given} for name, given in tools
    ]
    spans.append(
        {
            "spanId": "test-span",
            "name": "generation",
            "spanType": "generation",
            "input": "test input",
            "output": output,
            "durationMs": 1000,
        }
    )
    facts = {"traceId": "test-trace", "name": "test", "status": "ok", "durationMs": 1000}
    trace = {"trace": {**facts, "metadata": {"run": 7}}, "spans": spans}
    return EvalContext.from_dict({"trace": trace, "expected": {}, "metadata": {}})


def score(name: str, output: str, *tools: tuple[str, str]) -> Score:
    return load_scorer(f"{FILE}:{name}").score(mock_context(output, *tools))


def test_scores_short_responses_low() -> None:
    value = score("word_count", "Hello world").value
    assert value is not None
    assert value < 0.5


def test_scores_optimal_length_responses_high() -> None:
    assert score("word_count", "A " * 100).value == 1


@pytest.mark.parametrize(
    ("name", "output", "value", "reason"),
    [
        ("my_scorer", "", 0.85, "Explanation of the score"),
        ("word_count", "", 0.0, "Response has 0 words"),
        ("word_count", "Hello world", 0.1, "Response has 2 words"),
        ("word_count", "word " * 260, 0.8, "Response has 260 words"),
        ("word_count", "word " * 500, 0.0, "Response has 500 words"),
        ("has_email", "Mail ann.b@example.com!", 1.0, "Pattern matched"),
        ("has_email", "Mail ann at example.com!", 0.0, "Pattern not found"),
        ("sentiment", "The sky is blue", 0.5, "Neutral sentiment"),
        ("sentiment", "GREAT, thanks!", 1.0, "Sentiment: positive"),
        ("sentiment", "good, but it failed: error", 1 / 3, "Sentiment: negative"),
        ("sentiment", "good or bad", 0.5, "Sentiment: negative"),
        ("not_empty", " \n", 0.0, "Empty output"),
        ("not_empty", "x", 1.0, "Has an output"),
        (
            "weather_words",
            "city, sky and wind",
            0.75,
            'Score 0.75: Found 3 of 4 expected keywords (missing: "temperature")',
        ),
        ("patterns", "In 2026 it was $5", 1.0, "Evaluation complete"),
        ("patterns", "In 2026 it was free", 0.5, "Evaluation complete"),
        ('keyword_match(keywords=["Sun", "rain"])', "sun", 0.5, "Matched 1/2 keywords"),
        ('keyword_match(keywords=["a", "b"], min_match=2)', "a", 0.0, "Matched 1/2 keywords"),
        ('keyword_match(keywords=["A"], case_sensitive=true)', "a", 0.0, "Matched 0/1 keywords"),
    ],
)
def test_the_values_of_the_typescript(name: str, output: str, value: float, reason: str) -> None:
    found = score(name, output)
    assert found.value == pytest.approx(value)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("tools", "value", "reason"),
    [
        ([], 0.0, "No tool calls found"),
        ([("search", '{"query": "x"}'), ("mail", "")], 1.0, "All tool calls valid"),
        ([("search", "{}"), ("mail", "{}")], 0.5, "search: missing query parameter"),
        (
            [("search", '{"query": ""}'), ("search", "")],
            0.0,
            "search: missing query parameter; search: missing query parameter",
        ),
    ],
)
def test_tool_params(tools: list[tuple[str, str]], value: float, reason: str) -> None:
    found = score("tool_params", "", *tools)
    assert (found.value, found.reason) == (value, reason)


def test_an_exception_is_a_failed_score_of_that_scorer() -> None:
    error = score("tool_params", "", ("search", "{")).error
    assert str(error).startswith("tool_params raised JSONDecodeError")


def test_the_composite() -> None:
    # 0.1 * 0.3 + 1 * 0.3 + 0.5 * 0.4
    found = score("quality", "Great work", ("search", "{}"), ("mail", "{}"))
    assert found.value == pytest.approx(0.53)
    assert found.reason == "word_count: 0.10, sentiment: 1.00, tool_params: 0.50"
    assert [part["value"] for part in found.metadata["breakdown"]] == [0.1, 1.0, 0.5]


def test_metadata() -> None:
    assert score("word_count", "Hello world").metadata == {"word_count": 2}
    assert score("sentiment", "good").metadata == {"positive_count": 1, "negative_count": 0}
    debugging = score("patterns", "2026").metadata
    assert debugging.pop("processing_ms") >= 0
    assert debugging == {"input": {"run": 7}, "output_length": 4, "matched_patterns": ["year"]}


@contextmanager
def service(answer: str) -> Iterator[str]:
    """The address of a fact checker that gives this answer, and echoes the text as its claim."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            body = answer.replace("TEXT", text).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/verify"
        server.shutdown()


def test_fact_check_asks_the_service() -> None:
    with service('{"accuracy": 0.9, "explanation": "Mostly true", "claims": [TEXT]}') as url:
        found = score(f'fact_check(url="{url}")', "Water is wet")
    assert (found.value, found.reason) == (0.9, "Mostly true")
    assert found.metadata == {"claims": [{"text": "Water is wet"}]}


def test_fact_check_gives_0_when_the_call_fails() -> None:
    with service("<html>") as url:
        broken = score(f'fact_check(url="{url}")', "Water is wet")
    gone = score(f'fact_check(url="{url}")', "Water is wet")
    for found in (broken, gone):
        assert found.value == 0.0
        assert found.reason.startswith("Fact check failed: ")


def test_from_api() -> None:
    async def kind(text: str) -> dict[str, Any]:
        return {"score": len(text) / 10, "explanation": "Counted"}

    async def down(text: str) -> dict[str, Any]:
        raise ConnectionError("no route")

    from_api = import_scorer(FILE, "from_api")
    counted = from_api(kind).score(mock_context("Hello"))
    failed = from_api(down).score(mock_context("Hello"))
    assert (counted.value, counted.reason) == (0.5, "Counted")
    assert (failed.value, failed.reason) == (0.0, "Evaluation failed: no route")
