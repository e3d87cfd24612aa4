"""Facts of a whole trace: everything that a store filters, sums and lists by.

Sessions, users, versions and tags have no field in a trace. Each library has its own attributes for
them, which are in the table here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from tallymark.text import shorten
from tallymark.traces.lenient_json import as_amount, as_count, as_label, as_list, as_mapping
from tallymark.traces.trace import Status, sum_known

if TYPE_CHECKING:
    from collections.abc import Collection

    from tallymark.traces.trace import Trace

_LONGEST = 300
"""Characters of question and answer that a list shows."""
_LONGEST_LABEL = 200
_MOST_LABELS = 50
_FAR = 4e9
"""Seconds since 1970 beyond which a start is not one."""
TOLD_START = "tally.started_at"
"""Metadata with the start of a trace whose spans have no times, in seconds since 1970."""
_MOST_EPOCHS = 1_000_000
"""A larger number is not an epoch."""
GROUPS = ("service", "version", "session", "user", "name", "status", "model", "tool", "tag")
"""Labels that traces can be grouped by."""
_FIELDS = {
    "session.id": "session",
    "session_id": "session",
    "sessionId": "session",
    "thread_id": "session",
    "langfuse.session.id": "session",
    "gen_ai.conversation.id": "session",
    "mlflow.trace.session": "session",
    "langsmith.metadata.session_id": "session",
    "langsmith.metadata.thread_id": "session",
    "traceloop.association.properties.session_id": "session",
    "ai.telemetry.metadata.sessionId": "session",
    "user.id": "user",
    "user_id": "user",
    "userId": "user",
    "enduser.id": "user",
    "langfuse.user.id": "user",
    "mlflow.trace.user": "user",
    "langsmith.metadata.user_id": "user",
    "traceloop.association.properties.user_id": "user",
    "ai.telemetry.metadata.userId": "user",
    "service.version": "version",
    "app.version": "version",
    "version": "version",
    "release": "version",
    "langfuse.version": "version",
    "langfuse.release": "version",
    "service.name": "service",
    "service": "service",
    "tag.tags": "tags",
    "tags": "tags",
    "langfuse.trace.tags": "tags",
    "langsmith.span.tags": "tags",
    "logfire.tags": "tags",
    "ai.telemetry.metadata.tags": "tags",
    "deployment.environment": "environment",
    "deployment.environment.name": "environment",
    "langfuse.environment": "environment",
}
KNOWN = frozenset(_FIELDS)
"""The attributes that are read."""


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a trace except its spans; None if unknown."""

    started_at: float | None = None
    """Seconds since 1970, by the agent's clock."""
    duration: float = 0.0
    """Seconds."""
    status: Status = "ok"
    has_root: bool = False
    spans: int = 0
    errors: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    name: str = ""
    service: str | None = None
    version: str | None = None
    session: str | None = None
    user: str | None = None
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    error: str | None = None
    asked: str | None = None
    answered: str | None = None

    @property
    def tokens(self) -> int | None:
        """Input and output together."""
        return sum_known((self.input_tokens, self.output_tokens))


def read_facts(trace: Trace) -> TraceFacts:
    """The facts of a trace."""
    models: dict[str, None] = {}
    tools: dict[str, None] = {}
    first_error: str | None = None
    root_error: str | None = None
    errors = calls = used = 0
    has_root = False
    begin, end = _FAR * 1000, 0.0
    said: dict[str, Any] = {}
    for span in trace.spans:
        kind, start = span.span_type, span.start_ms
        if not span.parent_id:
            has_root = True
        if span.model:
            models[span.model] = None
        if kind == "generation":
            calls += 1
        elif kind == "tool":
            used += 1
            tools[span.tool_name or span.name] = None
        if span.failed:
            errors += 1
            first_error = first_error or span.error
            if not span.parent_id:
                root_error = root_error or span.error
        if start is not None and 0 < start < _FAR * 1000:
            begin = min(begin, start)
            end = max(end, start + span.duration_ms)
        if not KNOWN.isdisjoint(span.metadata):
            _gather(said, span.metadata)
    _gather(said, trace.metadata)
    _gather(said, as_mapping(trace.metadata.get("resource")))
    spent = trace.sum_spending()
    asked, answered = trace.first_input, trace.answer
    return TraceFacts(
        started_at=begin / 1000 if end else _read_told_start(trace),
        duration=(trace.duration_ms or max(0.0, end - begin if end else 0.0)) / 1000,
        status=trace.status,
        has_root=has_root,
        spans=len(trace.spans),
        errors=errors,
        model_calls=calls,
        tool_calls=used,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost=spent.cost,
        name=shorten(trace.name, _LONGEST_LABEL),
        service=said.get("service"),
        version=said.get("version"),
        session=said.get("session"),
        user=said.get("user"),
        models=_list_labels(models),
        tools=_list_labels(tools),
        tags=_list_labels(said.get("tags", {})),
        error=None if not errors else shorten(root_error or first_error or "failed", _LONGEST),
        asked=shorten(asked, _LONGEST) if asked else None,
        answered=shorten(answered, _LONGEST) if answered else None,
    )


def _read_told_start(trace: Trace) -> float | None:
    told = as_amount(trace.metadata.get(TOLD_START))
    return told if told and told < _FAR else None


def _gather(said: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Add the labels of one mapping; earlier ones win."""
    for name in KNOWN.intersection(metadata):
        field, value = _FIELDS[name], metadata[name]
        if field == "tags":
            named = value.split(",") if isinstance(value, str) else as_list(value)
            for each in named:
                if tag := (as_label(each) or "").strip():
                    said.setdefault("tags", {})[tag] = None
            continue
        label = as_label(value)
        if label is None:
            continue
        if field == "environment":
            said.setdefault("tags", {})[f"env:{label}"] = None
        else:
            said.setdefault(field, shorten(label, _LONGEST_LABEL))


def _list_labels(found: Collection[str]) -> tuple[str, ...]:
    """At most `_MOST_LABELS` labels, shortened, in their order."""
    if not found:
        return ()
    shortened = dict.fromkeys(shorten(each, _LONGEST_LABEL) for each in found)
    return tuple(shortened)[:_MOST_LABELS]


def combine_facts(known: TraceFacts, more: TraceFacts) -> TraceFacts:
    """The facts of two parts of a trace that were read separately.

    Spans in both parts count twice, until the whole trace is counted when it is finalised.
    """
    first, second = (more, known) if _begins_before(more, known) else (known, more)
    root = more if more.has_root and not known.has_root else known
    begin = first.started_at
    end = max((each.started_at or 0.0) + each.duration for each in (known, more))
    return TraceFacts(
        started_at=begin,
        duration=max(known.duration, more.duration, end - begin if begin else 0.0),
        status=root.status,
        has_root=known.has_root or more.has_root,
        spans=known.spans + more.spans,
        errors=known.errors + more.errors,
        model_calls=known.model_calls + more.model_calls,
        tool_calls=known.tool_calls + more.tool_calls,
        input_tokens=sum_known((known.input_tokens, more.input_tokens)),
        output_tokens=sum_known((known.output_tokens, more.output_tokens)),
        cost=sum_known((known.cost, more.cost)),
        name=root.name,
        service=root.service or known.service or more.service,
        version=root.version or known.version or more.version,
        session=known.session or more.session,
        user=known.user or more.user,
        models=_list_labels((*known.models, *more.models)),
        tools=_list_labels((*known.tools, *more.tools)),
        tags=_list_labels((*known.tags, *more.tags)),
        error=root.error or known.error or more.error,
        asked=first.asked or second.asked,
        answered=second.answered or first.answered,
    )


def _begins_before(one: TraceFacts, other: TraceFacts) -> bool:
    return (one.started_at or _FAR) < (other.started_at or _FAR)


class StatedCase(NamedTuple):
    """The case of an evaluation that a trace belongs to."""

    case: str
    epoch: int
    """From 0, as results count; sources count from 1."""
    model: str | None
    """The model or agent under test: its answers are a run of their own."""
    prompt: str | None
    """The name of the prompt, where the evaluation may have several."""


def read_case(trace: Trace) -> StatedCase | None:
    """The case in a trace's metadata; None where they do not have both `case` and `epoch`."""
    told = as_mapping(trace.metadata)
    if "case" not in told:
        return None
    case, epoch = as_label(told["case"]), as_count(told.get("epoch"))
    if case is None or epoch is None or epoch > _MOST_EPOCHS:
        return None
    model, prompt = as_label(told.get("model")), as_label(told.get("prompt_label"))
    return StatedCase(case, max(0, epoch - 1), model, prompt)


class TraceSum(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, costs and means of several traces."""

    group: Annotated[
        str | float | None, Meta(description="A label, or the time at which a step begins.")
    ]
    traces: int
    errors: int
    cost: float | None
    tokens: int | None
    duration: Annotated[float | None, Meta(description="The mean, in seconds.")]
    measured: Annotated[int, Meta(description="Traces that have the measure.")] = 0
    mean: float | None = None
    low: Annotated[float | None, Meta(description="With `high`, 95 % interval of the mean.")] = None
    high: float | None = None
