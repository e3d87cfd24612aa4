"""Production traces on the wire: lists, one trace, sums, comparisons, sessions, people's scores."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tallymark.wire.parts import Asked, Listed, Moment, Told

TraceFilter = Annotated[
    str,
    Field(
        max_length=2000,
        description="Which traces: `status:error tool:search cost>0.01 since:2h`; empty is all.",
        examples=["status:error since:2h"],
    ),
]


class Lost(Told):
    """What of a trace was cut or refused."""

    spans_refused: int
    spans_cut: int
    characters_cut: int
    attributes_cut: int
    events_cut: int


class TraceScore(Told):
    """A score of one version of a trace."""

    name: str
    value: float | None
    label: str | None
    reason: str | None
    error: str | None
    author: str | None = Field(description="Whose own score it is; null is a rule's.")
    rule: int = Field(description="0 is a person's own.")
    rule_version: int
    version: int = Field(description="Of the trace.")
    at: Moment
    cost: float | None
    metadata: dict[str, Any]
    is_current: bool


class TraceItem(Told):
    """A trace without its spans."""

    id: str
    version: int = Field(description="How often it was settled; 0 while spans still come.")
    state: Literal["open", "settled"]
    segments: int
    first_at: Moment
    last_at: Moment
    settled_at: Moment | None
    started_at: float = Field(description="Seconds since 1970, by the agent's clock.")
    duration: float = Field(description="Seconds.")
    status: Literal["ok", "error"]
    has_root: bool
    spans: int
    errors: int
    model_calls: int
    tool_calls: int
    input_tokens: int | None
    output_tokens: int | None
    tokens: int | None
    cost: float | None = Field(description="US dollars.")
    name: str
    service: str | None
    service_version: str | None
    session: str | None
    user: str | None
    models: list[str]
    tools: list[str]
    tags: list[str]
    error: str | None
    asked: str | None
    answered: str | None
    lost: Lost | None
    scores: list[TraceScore]


class TracePage(Listed[TraceItem]):
    """A page of traces, newest first."""

    scanned: int | None = Field(
        description="How many traces were looked at one by one, where no index could tell: then a"
        " page may be short, and `next` goes on behind them. Else null."
    )


class WholeTrace(TraceItem):
    """A trace with its spans, and with scores of all its versions."""

    trace: dict[str, Any]


class OneTrace(Told):
    """A trace."""

    trace: WholeTrace


class WorstTrace(Told):
    """A trace with the score that it is listed for."""

    value: float
    trace: TraceItem


class WorstTraces(Told):
    """The lowest scores first."""

    items: list[WorstTrace]


class TraceSum(Told):
    """Some traces taken together."""

    group: str | float | None = Field(description="A label, or the moment at which a step begins.")
    traces: int
    errors: int
    cost: float | None
    tokens: int | None
    duration: float | None = Field(description="The mean, in seconds.")
    measured: int
    mean: float | None
    low: float | None = Field(description="With `high`, the 95 % interval of the mean.")
    high: float | None


class TraceSums(Told):
    """All that fit, and by what was asked for."""

    whole: TraceSum
    items: list[TraceSum]


class ComparedSide(Told):
    """One of two filters."""

    filter: str
    traces: int
    sessions: int
    mean: float | None
    low: float | None
    high: float | None


class TraceComparison(Told):
    """The second less the first."""

    measure: str
    first: ComparedSide
    second: ComparedSide
    difference: float | None
    low: float | None
    high: float | None
    verdict: str


class OneComparison(Told):
    """A comparison."""

    comparison: TraceComparison


class TraceSession(Told):
    """A session as a whole."""

    name: str
    sums: TraceSum
    scores: dict[str, TraceSum] = Field(
        description="By name; those of people apart, with people. in front."
    )
    traces: list[TraceItem]
    more: bool = Field(description="Whether it has more traces than these.")


class OneSession(Told):
    """A session."""

    session: TraceSession


class TraceChoices(Told):
    """What filters can name."""

    service: list[str]
    model: list[str]
    tool: list[str]
    tag: list[str]
    version: list[str]
    name: list[str]
    score: list[str] = Field(description="What rules give.")
    people: list[str] = Field(description="What people gave.")


class NewTraceScore(Asked):
    """A person's own score of a trace."""

    name: str = Field(min_length=1, max_length=100)
    value: float | None = Field(None, description="From 0 to 1.")
    label: str | None = Field(None, max_length=200)
    reason: str | None = Field(None, max_length=5000)
    expected: str | None = Field(
        None, max_length=100_000, description="What the answer should have been."
    )


class OneTraceScore(Told):
    """A score."""

    score: TraceScore


class LoadedTraces(Told):
    """What came of traces that were sent."""

    traces: int = Field(description="All of them.")
    new: int
    changed: int = Field(description="Those that made a new version of one that was there.")
    known: int = Field(description="Those that were there already; they changed nothing.")


class NewSuite(Asked):
    """Which traces become cases."""

    filter: TraceFilter = ""
    traces: list[Annotated[str, Field(max_length=500)]] | None = Field(
        None, max_length=1000, description="Ids, instead of a filter."
    )
    name: str = Field("from-production", min_length=1, max_length=100)
    scorers: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field([], max_length=20)
    limit: int = Field(100, ge=1, le=1000)


class TracedSuite(Told):
    """A suite as YAML."""

    suite: str
    cases: int
    unchecked: int = Field(description="Cases that check nothing: nobody said what is expected.")
    left_out: list[dict[str, str]]


class TraceSettings(Asked):
    """What is kept of traces; what is not named stays as it is."""

    quiet_s: float | None = Field(None, ge=0.1, le=86_400)
    keep_days: float | None = Field(None, gt=0, le=36_500, description="Null keeps them.")
    keep_mb: int | None = Field(None, ge=1, le=1_000_000_000)
    redact_attributes: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = None
    redact_patterns: list[Annotated[str, Field(min_length=1, max_length=500)]] | None = None


class KeptTraceSettings(Told):
    """What is kept of traces."""

    quiet_s: float
    keep_days: float | None
    keep_mb: int | None
    redact_attributes: list[str]
    redact_patterns: list[str]


class OneTraceSettings(Told):
    """The settings."""

    settings: KeptTraceSettings
