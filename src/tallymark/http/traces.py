"""`/traces`: production traces, what they come to, and what people think of them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from tallymark.errors import Place, TraceError
from tallymark.http.access import ORGANISERS, REPORTERS, TEAM, Services, Who, find_service, may
from tallymark.http.answers import Cursor, Fields, Limit, ValidateOnly, answer, pick, pick_each
from tallymark.http.api_route import make_router
from tallymark.http.reports import NDJSON, split_lines
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.traces import change_settings
from tallymark.service.whole_traces import LoadedTraces
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.store.traces.trace_scores import TraceScore
from tallymark.suites.imports.imported_suite import write_yaml
from tallymark.traces.trace import Trace
from tallymark.wire import traces as wire

router = make_router("traces")
_LINES = {
    "requestBody": {
        "content": {NDJSON: {"schema": {"description": "A trace a line, or none."}}},
    }
}
Filter = Annotated[
    str,
    Query(
        max_length=2000,
        description="Which traces: `status:error tool:search cost>0.01 since:2h`.",
    ),
]
Measure = Annotated[
    str | None, Query(max_length=200, description="cost, duration, tokens, error or score.NAME.")
]


def describe_trace(record: TraceRecord, scores: list[TraceScore]) -> dict[str, Any]:
    """A trace without its spans."""
    return record.to_dict() | {"scores": [each.to_dict() for each in scores]}


@router.get("/traces", response_model=wire.TracePage, dependencies=[may(TEAM)])
def list_traces(
    services: Services,
    filter: Filter = "",  # noqa: A002 (the word users expect)
    limit: Limit = 50,
    cursor: Cursor = None,
    fields: Fields = None,
) -> Response:
    """Traces that fit, newest first; spans are not in it."""
    after = read_cursor(cursor, float, int)
    place = None if after is None else (after[0], after[1])
    page = services.traces.page(filter, after=place, limit=limit)
    scores = services.traces.find_scores(page.items)
    items = (describe_trace(each, scores[each.key]) for each in page.items)
    more = None if page.next is None else write_cursor(*page.next)
    return answer(
        {"items": pick_each(items, fields, wire.TraceItem), "next": more, "scanned": page.scanned}
    )


@router.post(
    "/traces",
    response_model=wire.LoadedTraces,
    status_code=201,
    dependencies=[may(REPORTERS, "report")],
    openapi_extra=_LINES,
)
async def load_traces(
    request: Request, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Keep whole traces, one as JSON a line; sent again, they add nothing.

    Spans as they come from an exporter go to `/v1/traces` instead.
    """
    body = await request.body()

    def load() -> LoadedTraces:
        found = [_read_trace(line, at) for at, line in split_lines(body)]
        return LoadedTraces(0, 0, 0) if validate_only else services.trace_intake.load(found)

    done = await find_service(request).run_in_thread(request.state.caller, load)
    return answer({"traces": sum(done), **done._asdict()}, 201)


def _read_trace(line: bytes, number: int) -> Trace:
    place = Place(line=number)
    try:
        document = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"it is not JSON: {error}", place=place) from None
    if not isinstance(document, dict):
        raise TraceError("it is not a JSON object", place=place)
    return Trace.from_dict(document, place=place)


@router.get("/traces/sums", response_model=wire.TraceSums, dependencies=[may(TEAM, "work")])
def sum_traces(
    services: Services,
    filter: Filter = "",  # noqa: A002
    by: Annotated[
        str | None, Query(max_length=20, description="model, tool, version, service, session, ...")
    ] = None,
    every: Annotated[
        str | None, Query(max_length=20, description="minute, hour, day, week, or seconds.")
    ] = None,
    measure: Measure = None,
) -> Response:
    """Counts, costs and means of what fits: all of it, by what it has in common, or over time."""
    traces = services.traces
    items = []
    if by is not None:
        items = traces.sum_by(filter, by, measure)
    elif every is not None:
        items = traces.sum_over_time(filter, _read_step(every), measure)
    return answer({"whole": traces.sum_all(filter, measure), "items": items})


def _read_step(every: str) -> str | float:
    try:
        return float(every)
    except ValueError:
        return every


@router.get("/traces/compare", response_model=wire.OneComparison, dependencies=[may(TEAM, "work")])
def compare_traces(
    services: Services,
    first: Filter,
    second: Filter,
    measure: Annotated[
        str, Query(max_length=200, description="cost, duration, tokens, error or score.NAME.")
    ],
) -> Response:
    """Two filters by one measure, with the interval of the difference."""
    return answer({"comparison": services.traces.compare(first, second, measure)})


@router.get("/traces/worst", response_model=wire.WorstTraces, dependencies=[may(TEAM, "work")])
def list_worst(
    services: Services,
    score: Annotated[str, Query(min_length=1, max_length=100, description="Its name.")],
    filter: Filter = "",  # noqa: A002
    limit: Limit = 100,
    best: Annotated[bool, Query(description="The highest instead.")] = False,
) -> Response:
    """The traces with the lowest scores."""
    found = services.traces.worst(score, filter, limit=limit, best=best)
    scores = services.traces.find_scores([each.trace for each in found])
    items = [
        {"value": each.value, "trace": describe_trace(each.trace, scores[each.trace.key])}
        for each in found
    ]
    return answer({"items": items})


@router.get("/traces/choices", response_model=wire.TraceChoices, dependencies=[may(TEAM)])
def list_choices(services: Services) -> Response:
    """What filters can name."""
    return answer(services.traces.choices())


@router.get(
    "/traces/sessions/{name}", response_model=wire.OneSession, dependencies=[may(TEAM, "work")]
)
def get_session(name: str, services: Services) -> Response:
    """A session as a whole."""
    found = services.traces.session(name)
    scores = services.traces.find_scores(found.traces)
    told = found._asdict() | {
        "traces": [describe_trace(each, scores[each.key]) for each in found.traces]
    }
    return answer({"session": told})


@router.get("/traces/settings", response_model=wire.OneTraceSettings, dependencies=[may(TEAM)])
def get_settings(services: Services) -> Response:
    """What is kept of traces, and what is taken out of them."""
    return answer({"settings": services.store.tenants.settings().traces})


@router.patch(
    "/traces/settings",
    response_model=wire.OneTraceSettings,
    dependencies=[may(ORGANISERS, "write")],
)
def patch_settings(
    body: wire.TraceSettings,
    request: Request,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Change what is kept: for spans that come from now on, and for what is removed."""
    changes = body.model_dump(exclude_unset=True)
    at = find_service(request).clock()
    return answer({"settings": change_settings(services.store, changes, at=at)})


@router.post("/traces/suite", response_model=wire.TracedSuite, dependencies=[may(TEAM, "work")])
def make_traced_suite(
    body: wire.NewSuite, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """A suite whose cases ask what these traces were asked."""
    made = services.traces.make_suite(
        filter_=body.filter,
        traces=body.traces,
        name=body.name,
        scorers=body.scorers,
        limit=body.limit,
    )
    left_out = [{"trace": trace, "reason": why} for trace, why in made.left_out]
    counts = {"cases": len(made.document["evals"]), "unchecked": made.unchecked}
    return answer({"suite": write_yaml(made.document), **counts, "left_out": left_out})


@router.get("/traces/{trace_id}", response_model=wire.OneTrace, dependencies=[may(TEAM)])
def get_trace(
    trace_id: str,
    services: Services,
    version: Annotated[
        int | None, Query(ge=1, le=2**31, description="As it was when it was settled so often.")
    ] = None,
    fields: Fields = None,
) -> Response:
    """A trace with its spans."""
    shown = services.traces.show(trace_id, version)
    told = describe_trace(shown.record, shown.scores) | {"trace": shown.trace.to_dict()}
    return answer({"trace": pick(told, fields, wire.WholeTrace)})


@router.delete("/traces/{trace_id}", status_code=204, dependencies=[may(ORGANISERS, "write")])
def delete_trace(trace_id: str, services: Services) -> Response:
    """Remove a trace with all that is known of it."""
    services.store.traces.remove([services.store.traces.get(trace_id).key])
    return Response(status_code=204)


@router.post(
    "/traces/{trace_id}/scores",
    response_model=wire.OneTraceScore,
    status_code=201,
    dependencies=[may(REPORTERS, "write")],
)
def add_score(
    trace_id: str,
    body: wire.NewTraceScore,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """One's own score of a trace; giving another replaces it."""
    score = services.traces.add_score(
        trace_id,
        body.name,
        body.value,
        author=caller.owner or caller.name,
        label=body.label,
        reason=body.reason,
        expected=body.expected,
    )
    return answer({"score": score.to_dict()}, 201)
