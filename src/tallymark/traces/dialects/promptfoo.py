"""promptfoo's results, JSON or JSONL: a test run with one prompt and one provider is a trace."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tallymark.errors import Place, TraceError
from tallymark.text import clean_line
from tallymark.traces.call_price import cost_fields
from tallymark.traces.chat_messages import ToolCall, last_text, parse_messages, unpack_json
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import (
    as_amount,
    as_count,
    as_label,
    as_list,
    as_mapping,
    as_text,
)
from tallymark.traces.otel_traces import add_requested_tools
from tallymark.traces.token_counts import read_usage
from tallymark.traces.trace import Span, Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.trace_source import TraceSource

_ARRAYS = (("results", "results"), ("results",))
_KEPT = (("evalId",),)
_FILE_MARKS = {"evalId", "shareableUrl", "results.version", "results.results", "stats", "table"}
_RESULT_MARKS = ({"promptIdx", "testIdx"}, {"success", "score", "latencyMs"})
_FAILED_TO_RUN = 2
_LONGEST_NAME = 60
_CODE = ("file", "exec", "python", "javascript", "package", "http", "https", "webhook")
"""Kinds of providers that name a program, not a model."""
_CONTAINS = {
    "contains": "output_contains",
    "contains-all": "output_contains",
    "icontains": "output_icontains",
    "icontains-all": "output_icontains",
}


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a file of results, or one result."""
    if "results" in keys:
        return not _FILE_MARKS.isdisjoint(keys)
    return any(marks.issubset(keys) for marks in _RESULT_MARKS)


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every result's trace, or the reason why there is none."""
    eval_id, number = "", 0
    for record in read_records(source, arrays=_ARRAYS, kept=_KEPT):
        try:
            value = record.decode()
        except TraceError as error:
            yield error
            continue
        if record.path == ("evalId",):
            eval_id = as_label(value) or ""
            continue
        results = [value]
        # A whole file on one line, with the results inside.
        if record.path is None and "results" in as_mapping(value):
            eval_id, inner = as_label(value.get("evalId")) or "", value["results"]
            results = (
                inner if isinstance(inner, list) else as_list(as_mapping(inner).get("results"))
            )
        for result in results:
            number += 1
            yield _read_result(result, eval_id, number, record.place)


def _read_result(result: Any, eval_id: str, number: int, place: Place) -> Trace | TraceError:
    if not isinstance(result, dict) or "success" not in result:
        return TraceError("not a result of promptfoo: it has no `success`", place=place)
    try:
        return _make_trace(result, eval_id, number)
    except RecursionError:
        return TraceError("the result is nested too deeply to read", place=place)


def _make_trace(result: dict[str, Any], eval_id: str, number: int) -> Trace:
    test = as_mapping(result.get("testCase"))
    span = _make_generation(result)
    description = as_label(result.get("description")) or as_label(test.get("description"))
    return Trace(
        trace_id=as_label(result.get("id")) or f"{eval_id or 'result'}-{number}",
        name=description or as_label(as_mapping(result.get("prompt")).get("label")) or "result",
        status=span.status,
        duration_ms=span.duration_ms,
        metadata=_collect_metadata(result, test, eval_id),
        spans=add_requested_tools([span]),
    )


def _make_generation(result: dict[str, Any]) -> Span:
    response = as_mapping(result.get("response"))
    prompt = as_mapping(result.get("prompt")).get("raw", result.get("prompt"))
    asked, output = parse_messages(prompt), response.get("output")
    calls = [call._asdict() for call in _list_calls(output)]
    error = _find_error(result, response)
    provider, model = _find_provider(result)
    usage = as_mapping(response.get("tokenUsage")) or as_mapping(result.get("tokenUsage"))
    details = as_mapping(usage.get("completionDetails"))
    counts = read_usage(
        {
            **usage,
            "reasoning_tokens": details.get("reasoning"),
            "cache_read_tokens": details.get("cacheReadInputTokens"),
            "cache_write_tokens": details.get("cacheCreationInputTokens"),
        }
    )
    cost = as_amount(result.get("cost"))
    return Span(
        span_id="generation",
        name=provider or "provider",
        span_type="generation",
        input=last_text(asked, "user") or as_text(prompt),
        output="" if calls else as_text(output),
        model=model,
        duration_ms=as_amount(result.get("latencyMs"))
        or as_amount(response.get("latencyMs"))
        or 0.0,
        status="ok" if error is None else "error",
        error=error,
        **counts.as_fields(),
        **cost_fields(cost, model, provider, counts),
        metadata={"tool_calls": calls} if calls else {},
    )


def _list_calls(output: Any) -> list[ToolCall]:
    """The tool calls that a provider gave as its output, instead of text."""
    listed = output if isinstance(output, list) else as_list(as_mapping(output).get("tool_calls"))
    return [call for message in parse_messages([{"tool_calls": listed}]) for call in message.calls]


def _find_error(result: dict[str, Any], response: dict[str, Any]) -> str | None:
    """Why the call failed. promptfoo also writes a failed assertion's reason under `error`."""
    said = as_label(response.get("error")) or as_label(result.get("error"))
    reason = result.get("failureReason")
    ran = reason != _FAILED_TO_RUN if reason is not None else bool(response)
    return None if ran and not response.get("error") else said or ("failed" if not ran else None)


def _find_provider(result: dict[str, Any]) -> tuple[str | None, str | None]:
    """The provider's id, and the model that it names."""
    given = result.get("provider")
    identity = as_label(given) or as_label(as_mapping(given).get("id"))
    kind, _, rest = (identity or "").partition(":")
    return identity, identity if not rest or kind in _CODE else rest.rpartition(":")[2]


def _find_label(result: dict[str, Any]) -> str | None:
    """A provider's name; providers with the same id and other settings have different labels."""
    return as_label(as_mapping(result.get("provider")).get("label")) or _find_provider(result)[0]


def _name_case(result: dict[str, Any], test: dict[str, Any]) -> str | None:
    """A test by its description and variables: `capitals[France]`; the same with any provider.

    The test's number is no name: repeats of a test have numbers of their own.
    """
    told = as_mapping(test.get("vars")) or as_mapping(result.get("vars"))
    values = {key: as_text(value) for key, value in told.items()}
    row = next(iter(values.values())) if len(values) == 1 else ""
    row = row or ", ".join(f"{key}={value}" for key, value in values.items())
    name = as_label(result.get("description")) or as_label(test.get("description"))
    if name is not None:
        return f"{_abbreviate(name)}[{_abbreviate(row)}]" if row else _abbreviate(name)
    if row:
        return _abbreviate(row)
    number = as_count(result.get("testIdx"))
    return None if number is None else f"test {number + 1}"


def _abbreviate(text: str) -> str:
    """Text on one line; if it is cut, a digest keeps it distinct."""
    line = clean_line(text)
    if line == text.strip() and len(line) <= _LONGEST_NAME:
        return line
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{line[: _LONGEST_NAME - 9]}…{digest}"


def _collect_metadata(result: dict[str, Any], test: dict[str, Any], eval_id: str) -> dict[str, Any]:
    known = {
        "case": _name_case(result, test),
        "epoch": 1,
        "model": _find_label(result),
        "prompt_label": _abbreviate(as_label(as_mapping(result.get("prompt")).get("label")) or ""),
        "eval_id": eval_id,
        "provider": _find_provider(result)[0],
        "vars": result.get("vars") or test.get("vars"),
        "success": result.get("success"),
        "score": as_amount(result.get("score")),
        "named_scores": result.get("namedScores"),
        "reason": as_label(as_mapping(result.get("gradingResult")).get("reason")),
        "expected": _collect_expected(test),
        "metadata": test.get("metadata"),
    }
    return {key: value for key, value in known.items() if value not in (None, "", {})}


def _collect_expected(test: dict[str, Any]) -> dict[str, Any]:
    """Expected output, from assertions with a plain value."""
    expected: dict[str, Any] = {}
    for check in map(as_mapping, as_list(test.get("assert"))):
        kind, value = as_label(check.get("type")), unpack_json(check.get("value"))
        if kind == "equals" and value is not None:
            expected["output"] = as_text(check.get("value"))
        elif kind in _CONTAINS and value is not None:
            wanted = value if isinstance(value, list) else [value]
            expected.setdefault(_CONTAINS[kind], []).extend(as_text(each) for each in wanted)
    return expected


DIALECT = Dialect(
    name="promptfoo",
    files="promptfoo's results, JSON (versions 2 and 3) and JSONL",
    known_by="`results` and its companions; a result's keys",
    read=read,
    sniff=sniff,
)
