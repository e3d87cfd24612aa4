"""promptfoo's results, in files of versions 2 and 3 and as lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import TraceError
from tallymark.traces import Trace

Read = Callable[..., list[Trace]]


@pytest.mark.parametrize("name", ["promptfoo.json", "promptfoo.jsonl"])
def test_every_result_is_a_trace_with_one_model_call(read: Read, name: str) -> None:
    passed, failed, broke, called = read(name)
    (span,) = passed.spans
    assert (passed.trace_id, passed.name, passed.duration_ms) == ("result-0", "capitals", 412)
    assert (span.input, span.output, span.model) == ("Capital of France?", "Paris", "gpt-4o-mini")
    assert (span.input_tokens, span.output_tokens, span.cost) == (12, 2, 0.000003)
    assert (failed.status, failed.last_output) == ("ok", "Lyon")
    assert (broke.status, broke.spans[0].error) == ("error", "API error: 500")
    assert (called.tool_names, called.generations[0].input) == (["weather"], "Weather in Rome?")
    assert called.tool_calls[0].tool_input == '{"city":"Rome"}'


def test_a_failed_assertion_is_not_a_failed_run(read: Read) -> None:
    failed = read("promptfoo.json")[1]
    assert (failed.status, failed.errors) == ("ok", [])
    assert failed.metadata["success"] is False
    assert failed.metadata["reason"] == 'Expected output "Lyon" to equal "Paris"'


def test_what_the_test_says_is_in_the_metadata(read: Read) -> None:
    assert read("promptfoo.json")[0].metadata == {
        "case": "capitals[France]",
        "epoch": 1,
        "model": "openai:chat:gpt-4o-mini",
        "prompt_label": "Capital of {{country}}?",
        "eval_id": "eval-abc",
        "provider": "openai:chat:gpt-4o-mini",
        "vars": {"country": "France"},
        "success": True,
        "score": 1.0,
        "named_scores": {"brevity": 0.9},
        "reason": "All assertions passed",
        "expected": {"output": "Paris", "output_icontains": ["par"]},
        "metadata": {"topic": "geography"},
    }


def test_the_older_shape_has_no_ids_and_no_reasons(read: Read) -> None:
    worked, failed = read("promptfoo_v2.json")
    assert (worked.trace_id, worked.last_output, worked.cost) == ("result-1", "hi", 0.1)
    assert (failed.trace_id, failed.status, failed.spans[0].error) == (
        "result-2", "error", "timeout"
    )  # fmt: skip


def result(**fields: Any) -> dict[str, Any]:
    return {"success": True, "score": 1, "latencyMs": 5, "promptIdx": 0, **fields}


@pytest.mark.parametrize(
    ("document", "count"),
    [
        ({"version": 2, "results": [result()], "stats": {}}, 1),
        ({"version": 3, "results": {"results": [result(), result()]}}, 2),
        ({"evalId": None, "results": {"results": []}}, 0),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_results_are_found_at_either_depth(
    tmp_path: Path, read: Read, document: dict[str, Any], count: int, indent: int | None
) -> None:
    (tmp_path / "r.json").write_text(json.dumps(document, indent=indent))
    assert len(read(tmp_path / "r.json")) == count


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ({"id": "openai:chat:gpt-4o"}, "gpt-4o"),
        ("anthropic:claude-3-5-haiku-latest", "claude-3-5-haiku-latest"),
        ({"id": "file://agent.py:run"}, "file://agent.py:run"),
        ({"id": "https://example.org/api"}, "https://example.org/api"),
        ({"id": "echo"}, "echo"),
        (None, None),
    ],
)
def test_the_model_is_named_by_the_provider(
    tmp_path: Path, read: Read, provider: Any, model: str | None
) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(result(provider=provider)))
    assert read(tmp_path / "r.jsonl")[0].spans[0].model == model


@pytest.mark.parametrize(
    ("fields", "case"),
    [
        ({"testCase": {"vars": {"q": "2 + 2?"}}}, "2 + 2?"),
        ({"vars": {"q": "2 + 2?", "lang": "en"}}, "q=2 + 2?, lang=en"),
        ({"testCase": {"description": "sums", "vars": {"a": 1, "b": [2]}}}, "sums[a=1, b=[2]]"),
        ({"testCase": {"description": "greets"}}, "greets"),
        ({"testIdx": 4}, "test 5"),
        ({"vars": {"q": "x" * 99}}, "x" * 51 + "…5a9f112d"),
        ({"vars": {"q": "a\nb"}}, "a b…"),
    ],
)
def test_a_case_is_named_by_its_test(
    tmp_path: Path, read: Read, fields: dict[str, Any], case: str
) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(result(**fields)))
    assert read(tmp_path / "r.jsonl")[0].metadata["case"].startswith(case)


def test_long_variables_that_begin_alike_are_cases_apart(tmp_path: Path, read: Read) -> None:
    lines = [json.dumps(result(vars={"q": "x" * 99 + end})) for end in "ab"]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    assert len({trace.metadata["case"] for trace in read(tmp_path / "r.jsonl")}) == 2


def test_providers_of_one_id_differ_by_their_labels(tmp_path: Path, read: Read) -> None:
    provider = {"id": "openai:chat:gpt-4o", "label": "gpt-4o, warm"}
    (tmp_path / "r.jsonl").write_text(json.dumps(result(provider=provider)))
    (found,) = read(tmp_path / "r.jsonl")
    assert found.spans[0].model == "gpt-4o"
    assert found.metadata["provider"] == "openai:chat:gpt-4o"
    assert found.metadata["model"] == "gpt-4o, warm"


@pytest.mark.parametrize(
    ("output", "text"),
    [("hi", "hi"), ({"a": 1}, '{"a":1}'), ([1], "[1]"), (None, ""), ('{"a": 1}', '{"a": 1}')],
)
def test_an_output_is_text_or_compact_json(
    tmp_path: Path, read: Read, output: Any, text: str
) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(result(response={"output": output})))
    assert read(tmp_path / "r.jsonl")[0].last_output == text


def test_a_broken_result_is_reported_by_its_number(tmp_path: Path, read: Read) -> None:
    document = {"evalId": "e", "results": {"results": [result(), {"x": 1}, 7, result()]}}
    (tmp_path / "r.json").write_text(json.dumps(document, indent=2))
    with pytest.raises(TraceError, match=r"r\.json:record 2: not a result of promptfoo"):
        read(tmp_path / "r.json")
    assert [t.trace_id for t in read(tmp_path / "r.json", skip_broken=True)] == ["e-1", "e-4"]
