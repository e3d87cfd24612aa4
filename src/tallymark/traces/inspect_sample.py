"""One sample of an Inspect log as a trace.

The sample's events become spans: model calls, tool calls, errors, limits, and the solvers and
agents that hold them. A tool's own span and its call are one. What happens inside scorers is
not the agent's doing and is left out; the scores themselves are in the trace's metadata. Logs
without events give the messages instead. Scorers of Inspect see the sample's own question and
answer, which a solver may have written: if those of the steps differ,
the outermost span has the sample's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallymark.traces.call_price import cost_fields
from tallymark.traces.chat_messages import (
    conversation_metadata,
    last_text,
    parse_messages,
)
from tallymark.traces.flat_records import list_conversation_spans
from tallymark.traces.lenient_json import (
    as_amount,
    as_count,
    as_label,
    as_list,
    as_mapping,
    as_text,
    to_unix_ms,
)
from tallymark.traces.token_counts import read_usage
from tallymark.traces.trace import Span, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallymark.traces.chat_messages import ChatMessage

_ATTACHMENT = ("attachment://", "tc://")
_OUTSIDE = ("init", "scorer", "scorers")
"""Types of Inspect's spans that are not the agent's work."""


def make_sample_trace(sample: dict[str, Any], header: dict[str, Any]) -> Trace:
    """The trace of a sample; `header` is the log's `eval` part."""
    sample = put_back_attachments(_read_old_transcript(sample))
    model = as_label(header.get("model"))
    events = [
        each for each in map(as_mapping, as_list(sample.get("events"))) if not each.get("pending")
    ]
    pool = as_list(as_mapping(sample.get("events_data")).get("messages"))
    spans = sorted(_list_event_spans(events, pool, None), key=lambda span: span.start_ms or 0.0)
    if not spans:
        said = parse_messages(sample.get("messages"))
        spans = [Span(**each) for each in list_conversation_spans(said, model)]
    task = as_label(header.get("task")) or "sample"
    identity, epoch = as_label(sample.get("id")) or "", as_count(sample.get("epoch"))
    case = f"{task}/{identity}"
    trace = Trace(
        trace_id=as_label(sample.get("uuid")) or f"{case}/{epoch}",
        name=case,
        status="error" if sample.get("error") else "ok",
        duration_ms=(as_amount(sample.get("total_time")) or 0.0) * 1000,
        metadata={"case": case, **_collect_metadata(sample, task, model)},
        spans=_add_usage(spans, sample, model),
    )
    return _add_whole(trace, sample)


def _add_whole(trace: Trace, sample: dict[str, Any]) -> Trace:
    """The trace with the sample's own question and answer, if those of its steps differ."""
    asked, answer = _read_question(sample), _read_answer(sample)
    if asked in ("", trace.first_input) and answer in (None, trace.answer):
        return trace
    whole, steps = _take_whole(trace, sample)
    whole = replace(whole, input=asked, output=answer or "", output_is_answer=answer is not None)
    return replace(trace, spans=[whole, *steps])


def _take_whole(trace: Trace, sample: dict[str, Any]) -> tuple[Span, list[Span]]:
    """The span that holds all others, which are its solvers; in older logs, one for the sample."""
    outermost = [span for span in trace.roots if span.span_type != "event"]
    if outermost == trace.spans[:1] and outermost and outermost[0].span_type == "span":
        return outermost[0], trace.spans[1:]
    began, took = to_unix_ms(sample.get("started_at")), trace.duration_ms
    return Span(span_id="sample", name=trace.name, start_ms=began, duration_ms=took), trace.spans


def _read_question(sample: dict[str, Any]) -> str:
    asked = sample.get("input")
    return asked if isinstance(asked, str) else last_text(parse_messages(asked), "user")


def _read_answer(sample: dict[str, Any]) -> str | None:
    """The sample's answer; None if it has none."""
    output = as_mapping(sample.get("output"))
    said = _parse_choice(output)
    return as_label(output.get("completion")) or (last_text(said, "assistant") if said else None)


def _parse_choice(output: dict[str, Any]) -> list[ChatMessage]:
    """The messages in the first choice of a model's output."""
    choices = as_list(output.get("choices"))
    return parse_messages(as_mapping(choices[0] if choices else None).get("message"), "assistant")


def _collect_metadata(sample: dict[str, Any], task: str, model: str | None) -> dict[str, Any]:
    target = sample.get("target")
    targets = [each for each in (target if isinstance(target, list) else [target]) if each]
    known = {
        "task": task,
        "model": model,
        "sample_id": sample.get("id"),
        "epoch": sample.get("epoch"),
        "input": _read_question(sample),
        "target": target,
        "choices": sample.get("choices"),
        "expected": _collect_expected(targets),
        "scores": _collect_scores(sample),
        "metadata": as_mapping(sample.get("metadata")),
        "error": as_label(as_mapping(sample.get("error")).get("message")),
        "limit": as_label(as_mapping(sample.get("limit")).get("type")),
    }
    return {key: value for key, value in known.items() if value not in (None, "", {})}


def _collect_expected(targets: list[Any]) -> dict[str, Any] | None:
    """The expected output: any of the targets."""
    texts = [as_text(target) for target in targets]
    return {"output": texts if len(texts) > 1 else texts[0]} if texts else None


def _collect_scores(sample: dict[str, Any]) -> dict[str, Any]:
    """Each scorer's value, answer and explanation."""
    wanted = ("value", "answer", "explanation")
    return {
        name: {key: as_mapping(score)[key] for key in wanted if key in as_mapping(score)}
        for name, score in as_mapping(sample.get("scores")).items()
    }


def _read_old_transcript(sample: dict[str, Any]) -> dict[str, Any]:
    """Logs of 2024 have events and long texts under `transcript`, and one score."""
    old = as_mapping(sample.get("transcript"))
    if not old:
        return sample
    score = sample.get("score")
    now = {"events": old.get("events"), "attachments": old.get("content")}
    return {**now, **({} if score is None else {"scores": {"score": score}}), **sample}


def _add_usage(spans: list[Span], sample: dict[str, Any], model: str | None) -> list[Span]:
    """The spans with the sample's own totals, where no call knows what it used."""
    last = max((i for i, each in enumerate(spans) if each.span_type == "generation"), default=None)
    if last is None or any(span.tokens is not None for span in spans):
        return spans
    totals = as_mapping(sample.get("model_usage"))
    own = as_mapping(totals.get(model or "")) or as_mapping(
        as_mapping(sample.get("output")).get("usage")
    )
    return [*spans[:last], replace(spans[last], **_read_usage(own, model, {})), *spans[last + 1 :]]


def put_back_attachments(sample: dict[str, Any]) -> dict[str, Any]:
    """The sample with its long texts, which stand apart, put back where they are referred to."""
    texts = as_mapping(sample.get("attachments"))

    def put_back(value: Any) -> Any:
        if isinstance(value, str):
            if not value.startswith(_ATTACHMENT):
                return value
            return as_text(texts.get(value.partition("://")[2], value))
        if isinstance(value, list):
            return [put_back(each) for each in value]
        if isinstance(value, dict):
            return {key: put_back(each) for key, each in value.items()}
        return value

    kept = {key: value for key, value in sample.items() if key not in ("attachments", "store")}
    plain: dict[str, Any] = put_back(kept) if texts else kept
    return plain


def _list_event_spans(
    events: list[dict[str, Any]], pool: list[Any], parent: str | None
) -> Iterator[Span]:
    ends = {
        as_label(event.get("id")): to_unix_ms(event.get("timestamp"))
        for event in events
        if event.get("event") == "span_end"
    }
    tools: dict[str, list[str]] = {}
    for index, event in enumerate(_keep_agent_events(events)):
        kind, own = as_text(event.get("event")), as_label(event.get("id"))
        if kind == "span_begin" and event.get("type") == "tool" and own:
            tools.setdefault(as_text(event.get("name")), []).append(own)
        elif read := _READERS.get(kind):
            # A tool's call takes the id of its span, to which what happened inside refers.
            named = tools.get(as_text(event.get("function"))) if kind == "tool" else None
            span_id = named.pop(0) if named else as_label(event.get("uuid"))
            fields = {
                "span_id": span_id or f"{parent or 'event'}-{index + 1}",
                "parent_id": _find_parent(event) or parent,
                "start_ms": to_unix_ms(event.get("timestamp")),
                "duration_ms": _measure_duration(event, ends.get(own)),
            }
            span = Span(**fields | read(event, pool))
            yield span
            inner = [as_mapping(each) for each in as_list(event.get("events"))]
            yield from _list_event_spans(inner, pool, span.span_id)


def _find_parent(event: dict[str, Any]) -> str | None:
    """The span that an event happened in; a beginning span's own id is not it."""
    return as_label(event.get("parent_id" if event.get("event") == "span_begin" else "span_id"))


def _keep_agent_events(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events outside of setup and scoring, which are spans, or steps in older logs."""
    outside: set[str | None] = set()
    step: str | None = None
    for event in events:
        kind, type_ = event.get("event"), as_label(event.get("type"))
        within = _find_parent(event)
        if kind == "span_begin" and (type_ in _OUTSIDE or (within and within in outside)):
            outside.add(as_label(event.get("id")))
        elif kind == "step" and type_ in _OUTSIDE:
            step = type_ if event.get("action") == "begin" else None
        elif step is None and (within is None or within not in outside):
            yield event


def _measure_duration(event: dict[str, Any], ended: float | None) -> float:
    begin = to_unix_ms(event.get("timestamp"))
    end = to_unix_ms(event.get("completed")) or ended
    if begin is None or end is None:
        return (as_amount(event.get("working_time")) or 0.0) * 1000
    return max(0.0, end - begin)


def _read_model_event(event: dict[str, Any], pool: list[Any]) -> dict[str, Any]:
    pooled = [
        each for ref in as_list(event.get("input_refs")) for each in _take_from_pool(pool, ref)
    ]
    asked = parse_messages(pooled or event.get("input"))
    output = as_mapping(event.get("output"))
    answer = _parse_choice(output)
    model = as_label(output.get("model")) or as_label(event.get("model"))
    error = as_label(event.get("error")) or as_label(output.get("error"))
    return {
        "name": as_label(event.get("model")) or "model",
        "span_type": "generation",
        "input": last_text(asked, "user"),
        "output": last_text(answer, "assistant"),
        "model": model,
        **_read_usage(
            as_mapping(output.get("usage")), as_label(event.get("model")) or model, event
        ),
        **_failure_fields(error),
        "metadata": conversation_metadata(asked, answer),
    }


def _take_from_pool(pool: list[Any], ref: Any) -> list[Any]:
    """The messages of a `[start, end)` range of the pool."""
    start, end = (
        (as_count(each) for each in ref) if isinstance(ref, list) and len(ref) == 2 else (0, 0)
    )
    return pool[start or 0 : end or 0]


def _read_usage(usage: dict[str, Any], model: str | None, event: dict[str, Any]) -> dict[str, Any]:
    """Inspect counts cached input apart; here it is part of the input."""
    counts = read_usage(usage, cached_apart=True)
    reported = as_amount(usage.get("total_cost"))
    start = to_unix_ms(event.get("timestamp"))
    return {**counts.as_fields(), **cost_fields(reported, model, None, counts, start_ms=start)}


def _failure_fields(error: str | None) -> dict[str, Any]:
    return {} if error is None else {"status": "error", "error": error}


def _read_tool_event(event: dict[str, Any], _: list[Any]) -> dict[str, Any]:
    arguments, result = as_text(event.get("arguments")), _read_result_text(event.get("result"))
    error = as_mapping(event.get("error"))
    name = as_label(event.get("function")) or "tool"
    return {
        "name": name,
        "span_type": "tool",
        "input": arguments,
        "output": result,
        "tool_name": name,
        "tool_input": arguments,
        "tool_output": result,
        **_failure_fields(as_label(error.get("message")) or as_label(error.get("type"))),
    }


def _read_result_text(result: Any) -> str:
    """A tool's answer, whose text may stand in content parts."""
    if not result:
        return as_text(result)
    return parse_messages([{"role": "assistant", "content": result}])[0].text


def _read_span_event(event: dict[str, Any], _: list[Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": as_label(event.get("name")) or "", "span_type": "span"}
    own = as_label(event.get("id"))
    return fields | ({"span_id": own} if own else {})


def _read_error_event(event: dict[str, Any], _: list[Any]) -> dict[str, Any]:
    message = as_label(as_mapping(event.get("error")).get("message")) or "failed"
    return {"name": "error", "span_type": "event", **_failure_fields(message)}


def _read_limit_event(event: dict[str, Any], _: list[Any]) -> dict[str, Any]:
    kind = as_label(event.get("type")) or "sample"
    return {"name": f"{kind} limit", "span_type": "event", "output": as_text(event.get("message"))}


def _read_note_event(event: dict[str, Any], _: list[Any]) -> dict[str, Any]:
    body = event.get("data") if "data" in event else event.get("input")
    return {"name": as_text(event.get("event")), "span_type": "event", "output": as_text(body)}


def _read_subtask_event(event: dict[str, Any], _: list[Any]) -> dict[str, Any]:
    said = {"input": as_text(event.get("input")), "output": as_text(event.get("result"))}
    return {"name": as_label(event.get("name")) or "subtask", "span_type": "span", **said}


_READERS: dict[str, Callable[[dict[str, Any], list[Any]], dict[str, Any]]] = {
    "model": _read_model_event,
    "tool": _read_tool_event,
    "span_begin": _read_span_event,
    "subtask": _read_subtask_event,
    "error": _read_error_event,
    "sample_limit": _read_limit_event,
    "info": _read_note_event,
    "input": _read_note_event,
}
