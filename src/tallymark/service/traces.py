"""Production traces: lists, sums, comparisons, sessions, people's own scores, suites, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tallymark.errors import InvalidInput, NotFound, Place, TraceError
from tallymark.runs.statistics import estimate_difference
from tallymark.service.callers import ORGANISERS, REPORTERS, TEAM, name_author
from tallymark.service.cursors import Cursor, Limit, read_cursor, write_cursor
from tallymark.service.limits import Lines, split_lines
from tallymark.service.operations import Page, Resource, operation
from tallymark.store.dry_run import is_dry_run
from tallymark.store.retention_policy import TraceSettings as TraceSettings  # noqa: PLC0414
from tallymark.store.traces.trace_rows import TraceOverview
from tallymark.store.traces.trace_scores import StoredScore
from tallymark.store.traces.trace_sums import check_measure, estimate_mean
from tallymark.text import format_number
from tallymark.traces.trace import Trace
from tallymark.traces.trace_facts import TraceSum
from tallymark.traces.trace_query import PEOPLE, SCORE, Term, TraceQuery, parse_query

if TYPE_CHECKING:
    from tallymark.runs.statistics import ClusterMoments, MeanEstimate
    from tallymark.store.traces.trace_lists import TracePlace
    from tallymark.store.traces.trace_rows import TraceRecord
    from tallymark.store.traces.trace_sums import TraceSums

Filter = Annotated[
    str,
    Meta(
        max_length=2000,
        description="Which traces: `status:error tool:search cost>0.01 since:2h`; empty is all.",
        examples=["status:error since:2h"],
    ),
]
Measure = Annotated[
    str, Meta(max_length=200, description="cost, duration, tokens, error, score.NAME, people.NAME.")
]
TraceId = Annotated[str, Meta(max_length=500)]
ScoreName = Annotated[str, Meta(min_length=1, max_length=100)]
TraceIds = Annotated[Sequence[TraceId], Meta(max_length=1000)]
ScorerNames = Annotated[
    Sequence[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=20)
]
AttributeNames = Sequence[Annotated[str, Meta(min_length=1, max_length=200)]]
Patterns = Sequence[Annotated[str, Meta(min_length=1, max_length=500)]]
STEPS: dict[str, float] = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
AUTO = "auto"
_MOST_STEPS = 2_000
_AUTO_STEPS = (3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)
_MOST_AUTO_STEPS = 120
_LONGEST_NAME = 100
_MOST_IN_SESSION = 1_000
_PACKED_BYTES = 4_000_000
"""Bytes of traces in one request."""


class TraceScore(msgspec.Struct, frozen=True, kw_only=True):
    """A score of one version of a trace."""

    name: str
    value: float | None
    label: str | None
    reason: str | None
    error: str | None
    author: Annotated[str | None, Meta(description="Null if a rule scored it.")]
    rule: Annotated[int, Meta(description="0 if a person scored it.")]
    rule_version: int
    version: Annotated[int, Meta(description="Version of the trace.")]
    at: float
    cost: float | None
    metadata: dict[str, Any]
    is_current: bool


class TraceItem(TraceOverview, frozen=True, kw_only=True):
    """A trace without its spans, with the scores that count."""

    scores: list[TraceScore]


class TraceDetails(TraceItem, frozen=True, kw_only=True):
    """A trace with its spans, and with the scores of all its versions."""

    trace: dict[str, Any]


class TracePage(Page[TraceItem]):
    """A page of traces, newest first."""

    scanned: Annotated[
        int | None,
        Meta(
            description="Number of traces that were looked at one by one, where no index has the"
            " condition; such a page may be short, and `next` continues behind them."
        ),
    ] = None


class WorstTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with the score that it is listed for."""

    value: float
    trace: TraceItem


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of all traces that fit, and by group or over time."""

    whole: TraceSum
    items: list[TraceSum]
    step: Annotated[float | None, Meta(description="Seconds; null unless over time.")]


class NewestTraces(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the newest traces that fit: all of them, over time and by group."""

    whole: TraceSum
    points: list[TraceSum]
    step: float
    groups: list[TraceSum]
    is_cut: bool
    """Older ones are left out."""


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of two filters."""

    filter: str
    traces: int
    sessions: Annotated[int, Meta(description="Independent ones: a session is one cluster.")]
    mean: float | None
    low: float | None
    high: float | None


class TraceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two filters by one measure."""

    measure: str
    first: ComparedSide
    second: ComparedSide
    difference: Annotated[float | None, Meta(description="The second minus the first.")]
    low: Annotated[float | None, Meta(description="With `high`, 95 % interval of the difference.")]
    high: float | None
    verdict: str


class TraceSession(msgspec.Struct, frozen=True, kw_only=True):
    """All traces of one session."""

    name: str
    sums: TraceSum
    scores: Annotated[
        dict[str, TraceSum], Meta(description="By name; scores of people begin with `people.`.")
    ]
    traces: Annotated[list[TraceItem], Meta(description="In the order in which they began.")]
    more: Annotated[bool, Meta(description="The session has more traces than these.")]


class TraceChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Values that filters can name."""

    service: list[str]
    model: list[str]
    tool: list[str]
    tag: list[str]
    version: list[str]
    name: list[str]
    score: Annotated[list[str], Meta(description="Scores of rules.")]
    people: Annotated[list[str], Meta(description="Scores of people.")]

    @property
    def measures(self) -> list[str]:
        """Scores as measures name them."""
        rules = [f"{SCORE}{each}" for each in self.score]
        return rules + [f"{PEOPLE}{each}" for each in self.people]


class LoadedTraces(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of whole traces that were loaded."""

    traces: Annotated[int, Meta(description="All of them.")] = 0
    new: int = 0
    changed: Annotated[int, Meta(description="Made a new version of a stored trace.")] = 0
    known: Annotated[int, Meta(description="Were stored already and changed nothing.")] = 0


class LeftOutTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that made no case, and the reason."""

    trace: str
    reason: str


class TracedSuite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite made of traces."""

    suite: Annotated[str, Meta(description="YAML.")]
    cases: int
    unchecked: Annotated[int, Meta(description="Cases without a check: no answer was expected.")]
    left_out: list[LeftOutTrace]


class Traces(Resource):
    """Production traces."""

    @operation("GET /traces", TEAM)
    def list(
        self,
        filter: Filter = "",  # noqa: A002 (the word users expect)
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> TracePage:
        """List traces that fit a filter, newest first."""
        after = read_cursor(cursor, float, int)
        query = self._parse(filter)
        if not self.store.exists:
            return TracePage(items=[])
        place = None if after is None else (after[0], after[1])
        page = self.store.traces.page(query, after=place, limit=limit)
        return TracePage(
            items=[*self._describe_all(page.items)],
            next=None if page.next is None else write_cursor(*page.next),
            scanned=page.scanned,
        )

    @operation("POST /traces", REPORTERS, rate="report", status=201, body="lines")
    def load(self, lines: Lines) -> LoadedTraces:
        """Store whole traces, one as JSON in each line; a trace that is sent again adds nothing.

        `pack_traces` writes the lines. Spans of exporters go to `/v1/traces` instead.
        """
        traces = [_read_trace(line, number) for number, line in split_lines(lines)]
        return LoadedTraces() if is_dry_run() else self.services.trace_intake.load(traces)

    @operation("GET /traces/sums", TEAM, rate="work")
    def sums(
        self,
        filter: Filter = "",  # noqa: A002
        by: Annotated[
            str, Meta(max_length=20, description="model, tool, version, service, session, ...")
        ]
        | None = None,
        every: Annotated[
            str, Meta(max_length=20, description="minute, hour, day, week, seconds, or auto.")
        ]
        | None = None,
        measure: Measure | None = None,
    ) -> TraceSummary:
        """Sum up traces that fit: all of them, and by a label or over time.

        `auto` takes hours, quarters of days, days or weeks: the first with at most 120 steps.
        """
        sums = self.store.traces.sums(self._parse(filter))
        step = None
        items: Sequence[TraceSum] = ()
        if by is not None:
            items = sums.by(by, measure)
        elif every == AUTO:
            step, items = _sum_over_time(sums, measure)
        elif every is not None:
            step = _read_step(every)
            items = sums.over_time(step, measure)[-_MOST_STEPS:]
        return TraceSummary(whole=sums.whole(measure), items=[*items], step=step)

    def sum_newest(self, text: str, measure: str, by: str | None, limit: int) -> NewestTraces:
        """Sum up the newest traces that fit, over time and by a label if one is named."""
        sums = self.store.traces.sums(self._parse(text), limit)
        step, points = _sum_over_time(sums, measure)
        return NewestTraces(
            whole=sums.whole(measure),
            points=[*points],
            step=step,
            groups=[*sums.by(by, measure)] if by else [],
            is_cut=sums.is_cut,
        )

    @operation("GET /traces/compare", TEAM, rate="work", noun="comparison")
    def compare(self, first: Filter, second: Filter, measure: Measure) -> TraceComparison:
        """Compare two filters by one measure, with the interval of the difference."""
        check_measure(measure)
        one, two = (
            self.store.traces.sums(self._parse(each)).moments(measure) for each in (first, second)
        )
        sides = [estimate_mean(measure, each) for each in (one, two)]
        between = estimate_difference(*sides)
        return TraceComparison(
            measure=measure,
            first=_describe_side(first, one, sides[0]),
            second=_describe_side(second, two, sides[1]),
            difference=between.mean,
            low=between.low,
            high=between.high,
            verdict=_judge(one, two, between),
        )

    @operation("GET /traces/worst", TEAM, rate="work")
    def worst(
        self,
        score: Annotated[str, Meta(min_length=1, max_length=100, description="Name of a score.")],
        filter: Filter = "",  # noqa: A002
        limit: Limit = 100,
        best: Annotated[bool, Meta(description="List the highest instead.")] = False,
    ) -> Page[WorstTrace]:
        """List traces with the lowest scores of a name."""
        found = self.store.traces.worst(score, self._parse(filter), limit=limit, best=best)
        traces = self._describe_all([each.trace for each in found])
        return Page(
            items=[
                WorstTrace(value=each.value, trace=trace)
                for each, trace in zip(found, traces, strict=True)
            ]
        )

    @operation("GET /traces/choices", TEAM)
    def choices(self) -> TraceChoices:
        """List values that filters can name."""
        traces, known = self.store.traces, self.store.exists
        kinds = ("service", "model", "tool", "tag", "version", "name")
        scores = traces.score_names() if known else []
        return TraceChoices(
            **{kind: traces.label_values(kind) if known else [] for kind in kinds},
            score=[each.removeprefix(SCORE) for each in scores if each.startswith(SCORE)],
            people=[each.removeprefix(PEOPLE) for each in scores if each.startswith(PEOPLE)],
        )

    @operation("GET /traces/sessions/{name}", TEAM, rate="work", noun="session")
    def session(self, name: str) -> TraceSession:
        """Get a session with its traces and their sums."""
        query = TraceQuery(terms=(Term("session", "=", (name,)),))
        page = self.store.traces.page(query, limit=_MOST_IN_SESSION)
        if not page.items:
            raise NotFound(f"no trace is of the session {name!r}")
        sums = self.store.traces.sums(query)
        scores = {
            each.removeprefix(SCORE): found
            for each in self.store.traces.score_names()
            if (found := sums.whole(each)).measured
        }
        return TraceSession(
            name=name,
            sums=sums.whole(),
            scores=scores,
            traces=[*self._describe_all(page.items[::-1])],
            more=page.next is not None,
        )

    @operation("GET /traces/settings", TEAM, noun="settings")
    def settings(self) -> TraceSettings:
        """Get the settings of traces: retention and redaction."""
        return self.store.tenants.settings().traces

    @operation("PATCH /traces/settings", ORGANISERS, rate="write", noun="settings")
    def change_settings(
        self,
        quiet_s: Annotated[float, Meta(ge=0.1, le=86_400)] | UnsetType | None = UNSET,
        keep_days: Annotated[float, Meta(gt=0, le=36_500)] | UnsetType | None = UNSET,
        keep_mb: Annotated[int, Meta(ge=1, le=1_000_000_000)] | UnsetType | None = UNSET,
        redact_attributes: AttributeNames | UnsetType | None = UNSET,
        redact_patterns: Patterns | UnsetType | None = UNSET,
    ) -> TraceSettings:
        """Change settings that are given; for traces that arrive from now on, and for removal.

        Null means no limit for `keep_days` and `keep_mb`, and the default for the others.
        """
        from tallymark.traces.redaction import Redactor  # noqa: PLC0415 (it compiles patterns)

        changes: dict[str, Any] = {"keep_days": keep_days, "keep_mb": keep_mb}
        defaults = TraceSettings()
        for key, value in (
            ("quiet_s", quiet_s),
            ("redact_attributes", redact_attributes),
            ("redact_patterns", redact_patterns),
        ):
            changes[key] = getattr(defaults, key) if value is None else value
        given = {key: value for key, value in changes.items() if value is not UNSET}
        self.store.prepare()
        before = msgspec.to_builtins(self.store.tenants.settings().traces)
        after = msgspec.convert(before | given, TraceSettings)
        Redactor(after.redact_attributes, after.redact_patterns)  # refuses a wrong pattern
        stored = {"traces": msgspec.to_builtins(after)}
        return self.store.tenants.change(stored, at=self.now).traces

    @operation("POST /traces/suite", TEAM, rate="work")
    def make_suite(
        self,
        filter: Filter = "",  # noqa: A002
        traces: TraceIds | None = None,
        name: Annotated[str, Meta(min_length=1, max_length=100)] = "from-production",
        scorers: ScorerNames = (),
        limit: Limit = 100,
    ) -> TracedSuite:
        """Make a suite of the traces with these ids, or of the newest that fit a filter."""
        from tallymark.service.trace_suites import (  # noqa: PLC0415 (suites load slowly)
            TracedCase,
            make_suite,
        )
        from tallymark.suites.imports.imported_suite import write_yaml  # noqa: PLC0415 (as above)

        self.store.require()
        stored = self.store.traces
        records: Sequence[TraceRecord]
        if traces is not None:
            records = [stored.get(each) for each in dict.fromkeys(traces)]
        else:
            records = self._collect(self._parse(filter), limit)
        if not records:
            raise NotFound("no trace fits", hint="list them: tally traces list")
        scores = stored.scores([each.key for each in records], all_of_them=True)
        loaded = {key: trace for key, _, trace in stored.load_many((r.key, 0) for r in records)}
        document, left_out = make_suite(
            (
                TracedCase(each, loaded[each.key], scores[each.key])
                for each in records
                if each.key in loaded
            ),
            name=name,
            scorers=scorers,
        )
        return TracedSuite(
            suite=write_yaml(document),
            cases=len(document["evals"]),
            unchecked=sum(each.get("checks") == [] for each in document["evals"]),
            left_out=[LeftOutTrace(trace=trace, reason=reason) for trace, reason in left_out],
        )

    @operation("GET /traces/{trace_id}", TEAM, noun="trace")
    def get(
        self, trace_id: TraceId, version: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    ) -> TraceDetails:
        """Get a trace with its spans, as it is now or as one of its versions was."""
        return self.read(trace_id, version)[0]

    def read(
        self, trace_id: str, version: int | None, *, whole: bool = True
    ) -> tuple[TraceDetails, Trace]:
        """Read a trace and its record, which without `whole` has no spans."""
        record = self.store.traces.get(trace_id)
        trace = self.store.traces.load(trace_id, version)
        scores = self.store.traces.scores([record.key], all_of_them=True)[record.key]
        details = TraceDetails(
            **describe_trace(record),
            scores=[_describe_score(each) for each in scores],
            trace=trace.to_dict() if whole else {},
        )
        return details, trace

    @operation("DELETE /traces/{trace_id}", ORGANISERS, rate="write", status=204)
    def remove(self, trace_id: TraceId) -> None:
        """Remove a trace with its scores and decisions."""
        self.store.traces.remove([self.store.traces.get(trace_id).key])

    @operation("POST /traces/{trace_id}/scores", REPORTERS, rate="write", status=201, noun="score")
    def score(
        self,
        trace_id: TraceId,
        name: ScoreName,
        value: Annotated[float, Meta(description="From 0 to 1.")] | None = None,
        label: Annotated[str, Meta(max_length=200)] | None = None,
        reason: Annotated[str, Meta(max_length=5000)] | None = None,
        expected: Annotated[
            str, Meta(max_length=100_000, description="The answer it should have given.")
        ]
        | None = None,
    ) -> TraceScore:
        """Score a trace as it is now; another score of the same name and author replaces it.

        A suite that is made of the trace checks for the expected answer.
        """
        if len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
            hint = f"1 to {_LONGEST_NAME} characters that can be seen"
            raise InvalidInput(f"a score cannot be called {name!r}", hint=hint)
        if value is not None and not 0.0 <= value <= 1.0:
            hint = "write a number from 0 to 1"
            raise InvalidInput(f"{format_number(value)} is no score", hint=hint)
        if value is None and label is None and expected is None:
            raise InvalidInput(
                "the score has no value", hint="give a value, a label (--label) or both"
            )
        record = self.store.traces.get(trace_id)
        score = StoredScore(
            trace=record.key,
            version=record.version,
            name=name,
            author=name_author(self.caller),
            value=value,
            label=label,
            reason=reason,
            metadata={} if expected is None else {"expected": expected},
            at=self.now,
            started_at=record.started_at,
        )
        self.store.traces.put_scores([score], correct=True)
        return _describe_score(score)

    def _parse(self, text: str) -> TraceQuery:
        return parse_query(text, now=self.now)

    def _describe_all(self, records: Sequence[TraceRecord]) -> Sequence[TraceItem]:
        scores = self.store.traces.scores([each.key for each in records])
        return [
            TraceItem(
                **describe_trace(each),
                scores=[_describe_score(score) for score in scores[each.key]],
            )
            for each in records
        ]

    def _collect(self, query: TraceQuery, limit: int) -> Sequence[TraceRecord]:
        """Read as many as the limit, over as many pages as a condition without an index needs."""
        found: Sequence[TraceRecord] = []
        after: TracePlace | None = None
        while len(found) < limit:
            page = self.store.traces.page(query, after=after, limit=limit - len(found))
            found = [*found, *page.items]
            after = page.next
            if after is None:
                break
        return found


def pack_traces(traces: Iterable[Trace]) -> Iterator[bytes]:
    """Write traces as JSON lines for `Traces.load`, in parts of a few megabytes."""
    lines: list[bytes] = []
    size = 0
    for trace in traces:
        line = msgspec.json.encode(trace.to_dict())
        if lines and size + len(line) > _PACKED_BYTES:
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"\n".join(lines)


def _read_trace(line: bytes, number: int) -> Trace:
    place = Place(line=number)
    try:
        document = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"it is not JSON: {error}", place=place) from None
    if not isinstance(document, dict):
        raise TraceError("it is not a JSON object", place=place)
    return Trace.from_dict(document, place=place)


def _read_step(every: str) -> float:
    try:
        step = STEPS[every] if every in STEPS else float(every)
    except ValueError:
        step = 0.0
    if not 1 <= step <= 366 * 86_400:
        hint = f"write {', '.join(STEPS)}, {AUTO} or seconds"
        raise InvalidInput(f"{every!r} is no step of time", hint=hint)
    return step


def describe_trace(record: TraceRecord) -> dict[str, Any]:
    """Return the fields of a trace without its scores."""
    values = msgspec.structs.asdict(record)
    del values["key"]
    return values


def _describe_score(score: StoredScore) -> TraceScore:
    values = {name: getattr(score, name) for name in TraceScore.__struct_fields__}
    return TraceScore(**values | {"author": score.author or None})


def _describe_side(text: str, moments: ClusterMoments, estimate: MeanEstimate) -> ComparedSide:
    return ComparedSide(
        filter=text,
        traces=moments.count,
        sessions=moments.clusters,
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
    )


def _judge(one: ClusterMoments, two: ClusterMoments, between: MeanEstimate) -> str:
    for nth, side in (("first", one), ("second", two)):
        if not side.count:
            return f"no trace of the {nth} filter has it"
    if between.low is None or between.high is None:
        few = min(one.clusters, two.clusters) < 2
        why = "one session cannot show how much it varies" if few else "all of them are alike"
        return f"inconclusive: {why}"
    if between.low > 0:
        return "the second is higher"
    if between.high < 0:
        return "the second is lower"
    return "no difference can be shown"


def _sum_over_time(sums: TraceSums, measure: str | None) -> tuple[float, Sequence[TraceSum]]:
    """Sum up in the first steps of which there are not too many."""
    days = sums.find_days()
    steps = (each for each in _AUTO_STEPS if days / each <= _MOST_AUTO_STEPS)
    step = next(steps, _AUTO_STEPS[-1]) if days else 86_400.0
    return step, sums.over_time(step, measure)[-_MOST_AUTO_STEPS:]
