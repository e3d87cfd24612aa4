"""promptfoo's results, JSON or JSONL: a test run with one prompt and one provider is a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import Place, TraceError
from tallymark.traces.assembly import with_requested_tools
from tallymark.traces.json_records import read_records
from tallymark.traces.messages import Call, last_text, parse, unpacked
from tallymark.traces.plain import count, items, label, mapping, number, text
from tallymark.traces.pricing import price
from tallymark.traces.trace import Span, Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.source import Source

_ARRAYS = (("results", "results"), ("results",))
_KEPT = (("evalId",),)
_FILE_MARKS = {"evalId", "shareableUrl", "results.version", "results.results", "stats", "table"}
_RESULT_MARKS = ({"promptIdx", "testIdx"}, {"success", "score", "latencyMs"})
_FAILED_TO_RUN = 2
_CODE = ("file", "exec", "python", "javascript", "package", "http", "https", "webhook")
"""Kinds of providers that name a program, not a model."""
_CONTAINS = ("contains", "icontains", "contains-all", "icontains-all")


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a file of results, or one result."""
    if "results" in keys:
        return not _FILE_MARKS.isdisjoint(keys)
    return any(marks.issubset(keys) for marks in _RESULT_MARKS)


def read(source: Source) -> Iterator[Trace | TraceError]:
    """Every result's trace, or the reason why there is none."""
    eval_id, number_ = "", 0
    for record in read_records(source, arrays=_ARRAYS, kept=_KEPT):
        try:
            value = record.decoded()
        except TraceError as error:
            yield error
            continue
        if record.path == ("evalId",):
            eval_id = label(value) or ""
            continue
        results = [value]
        # A whole file on one line, with the results inside.
        if record.path is None and "results" in mapping(value):
            eval_id, inner = label(value.get("evalId")) or "", value["results"]
            results = inner if isinstance(inner, list) else items(mapping(inner).get("results"))
        for result in results:
            number_ += 1
            yield _trace(result, eval_id, number_, record.place)


def _trace(result: Any, eval_id: str, number_: int, place: Place) -> Trace | TraceError:
    if not isinstance(result, dict) or "success" not in result:
        return TraceError("not a result of promptfoo: it has no `success`", place=place)
    try:
        return _result_trace(result, eval_id, number_)
    except RecursionError:
        return TraceError("the result is nested too deeply to read", place=place)


def _result_trace(result: dict[str, Any], eval_id: str, number_: int) -> Trace:
    test = mapping(result.get("testCase"))
    span = _generation(result)
    description = label(result.get("description")) or label(test.get("description"))
    return Trace(
        trace_id=label(result.get("id")) or f"{eval_id or 'result'}-{number_}",
        name=description or label(mapping(result.get("prompt")).get("label")) or "result",
        status=span.status,
        duration_ms=span.duration_ms,
        metadata=_metadata(result, test, eval_id),
        spans=with_requested_tools([span]),
    )


def _generation(result: dict[str, Any]) -> Span:
    response = mapping(result.get("response"))
    prompt = mapping(result.get("prompt")).get("raw", result.get("prompt"))
    asked, output = parse(prompt), response.get("output")
    calls = [call._asdict() for call in _calls(output)]
    error = _error(result, response)
    provider, model = _provider(result)
    usage = mapping(response.get("tokenUsage")) or mapping(result.get("tokenUsage"))
    tokens = count(usage.get("prompt")), count(usage.get("completion"))
    cost = number(result.get("cost"))
    return Span(
        span_id="generation",
        name=provider or "provider",
        span_type="generation",
        input=last_text(asked, "user") or text(prompt),
        output="" if calls else text(output),
        model=model,
        duration_ms=number(result.get("latencyMs")) or number(response.get("latencyMs")) or 0.0,
        status="ok" if error is None else "error",
        error=error,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        cost=cost if cost is not None else price(model, provider, tokens),
        metadata={"tool_calls": calls} if calls else {},
    )


def _calls(output: Any) -> list[Call]:
    """The tool calls that a provider gave as its output, instead of text."""
    listed = output if isinstance(output, list) else items(mapping(output).get("tool_calls"))
    return [call for message in parse([{"tool_calls": listed}]) for call in message.calls]


def _error(result: dict[str, Any], response: dict[str, Any]) -> str | None:
    """Why the call failed. promptfoo also writes a failed assertion's reason under `error`."""
    said = label(response.get("error")) or label(result.get("error"))
    reason = result.get("failureReason")
    ran = reason != _FAILED_TO_RUN if reason is not None else bool(response)
    return None if ran and not response.get("error") else said or ("failed" if not ran else None)


def _provider(result: dict[str, Any]) -> tuple[str | None, str | None]:
    """The provider's id, and the model that it names."""
    given = result.get("provider")
    identity = label(given) or label(mapping(given).get("id"))
    kind, _, rest = (identity or "").partition(":")
    return identity, identity if not rest or kind in _CODE else rest.rpartition(":")[2]


def _metadata(result: dict[str, Any], test: dict[str, Any], eval_id: str) -> dict[str, Any]:
    known = {
        "eval_id": eval_id,
        "provider": _provider(result)[0],
        "vars": result.get("vars") or test.get("vars"),
        "success": result.get("success"),
        "score": number(result.get("score")),
        "named_scores": result.get("namedScores"),
        "reason": label(mapping(result.get("gradingResult")).get("reason")),
        "expected": _expected(test),
        "metadata": test.get("metadata"),
    }
    return {key: value for key, value in known.items() if value not in (None, "", {})}


def _expected(test: dict[str, Any]) -> dict[str, Any]:
    """What assertions with a plain value say about the output."""
    expected: dict[str, Any] = {}
    for check in map(mapping, items(test.get("assert"))):
        kind, value = check.get("type"), unpacked(check.get("value"))
        if kind == "equals" and value is not None:
            expected["output"] = text(check.get("value"))
        elif kind in _CONTAINS and value is not None:
            wanted = value if isinstance(value, list) else [value]
            expected.setdefault("output_contains", []).extend(text(each) for each in wanted)
    return expected
