"""From traces to a suite: production questions become cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallymark.formula import eval_name_problems
from tallymark.suites.imports.imported_suite import make_name
from tallymark.traces.lenient_json import as_mapping, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallymark.store.traces.trace_rows import TraceRecord
    from tallymark.store.traces.trace_scores import StoredScore
    from tallymark.traces.trace import Span, Trace

_EXPECTED = ("expected", "expected_output", "reference", "reference_output", "ground_truth")
_TEMPLATE = "{{"
_LONGEST_NAME = 40


class TracedCase(NamedTuple):
    """A trace that may become a case."""

    record: TraceRecord
    trace: Trace
    scores: Sequence[StoredScore]


def make_suite(
    cases: Iterable[TracedCase], *, name: str, scorers: Sequence[str] = ()
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Make a suite with a case for each question, and list the other traces with the reason.

    What is expected comes from people's own scores, or from the trace. Such a case is scored by
    `contains` unless scorers are named; one of which nothing is known is only measured.
    """
    evals: list[dict[str, Any]] = []
    left_out: list[tuple[str, str]] = []
    names: list[str] = []
    questions: dict[str, str] = {}
    for record, trace, scores in cases:
        asked = _read_question(trace)
        if not asked:
            left_out.append((record.id, "it does not record its input"))
            continue
        if any(_TEMPLATE in each for each in _list_texts(asked)):
            left_out.append((record.id, "its question has {{ in it, which suites fill in"))
            continue
        question = repr(asked)
        if question in questions:
            left_out.append((record.id, f"it asks the same as {questions[question]}"))
            continue
        questions[question] = record.id
        expected = _find_expected(trace, scores)
        entry: dict[str, Any] = {"name": _name_case(record, names), **asked}
        names.append(entry["name"])
        entry |= _write_checks(expected, scorers)
        entry["metadata"] = {"trace": record.id, "status": record.status}
        entry["tags"] = ["production", *([record.service] if record.service else [])]
        evals.append(entry)
    return {"metadata": {"name": name}, "evals": evals}, left_out


def _read_question(trace: Trace) -> dict[str, Any]:
    """The prompt; for a conversation, its turns."""
    first = next((span for span in trace.spans if span.span_type == "generation"), None)
    messages = [] if first is None else _read_messages(first)
    turns: list[Any] = []
    system = next((text for role, text in messages if role == "system"), "")
    for role, text in messages:
        if role == "user":
            turns.append({"user": text})
        elif role == "assistant" and turns and "assistant" not in turns[-1]:
            turns[-1]["assistant"] = text
    found: dict[str, Any] = {}
    if (
        len(turns) > 1
        and "assistant" not in turns[-1]
        and all("assistant" in turn for turn in turns[:-1])
    ):
        found["turns"] = [*turns[:-1], turns[-1]["user"]]
    elif trace.first_input.strip():
        found["prompt"] = trace.first_input
    if found and system:
        found["system_prompt"] = system
    return found


def _read_messages(span: Span) -> list[tuple[str, str]]:
    told = span.metadata.get("messages")
    listed = told if isinstance(told, list) else []
    plain = [
        (as_text(as_mapping(each).get("role")), as_mapping(each).get("content")) for each in listed
    ]
    return [(role, text) for role, text in plain if isinstance(text, str) and text.strip()]


def _list_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _list_texts(each)]


def _find_expected(trace: Trace, scores: Sequence[StoredScore]) -> str | None:
    for score in reversed(scores):
        if isinstance(said := score.metadata.get("expected"), str) and said.strip():
            return said
    holders = [trace.metadata, *(span.metadata for span in trace.spans if not span.parent_id)]
    for holder in holders:
        for name in _EXPECTED:
            if isinstance(said := holder.get(name), str) and said.strip():
                return said
    return None


def _write_checks(expected: str | None, scorers: Sequence[str]) -> dict[str, Any]:
    if expected is None or _TEMPLATE in expected:
        return {"scorers": list(scorers)} if scorers else {"checks": []}
    wanted = {"output": expected, "output_contains": [expected]}
    return {"scorers": list(scorers) or ["contains"], "expected": wanted}


def _name_case(record: TraceRecord, names: list[str]) -> str:
    """By what the trace is called, and where that is taken or no name, by its id too."""
    short = (make_name(record.name) or "trace")[:_LONGEST_NAME].strip("-") or "trace"
    for length in (0, 8, len(record.id)):
        tried = f"{short}-{make_name(record.id[:length])}" if length else short
        if not eval_name_problems([*names, tried]):
            return tried
    return f"trace-{len(names) + 1}"
