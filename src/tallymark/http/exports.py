"""`/export/{kind}`: everything of a kind, streamed row by row as NDJSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import Query, Request, Response
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from tallymark.errors import NotAllowed
from tallymark.http.access import TEAM, Services, Who, find_service, may
from tallymark.http.answers import Live, encode, list_defaults
from tallymark.http.api_route import make_router
from tallymark.http.problems import refuse
from tallymark.http.reports import NDJSON
from tallymark.runs.problems import show_result
from tallymark.service.callers import Caller
from tallymark.service.exports import stream_scores, stream_traces
from tallymark.service.runs import show_record
from tallymark.service.tenant import TenantServices
from tallymark.service.traces import describe_trace
from tallymark.service.visibility import is_public, list_attempts, sees_live
from tallymark.text import format_cell
from tallymark.traces.trace_query import parse_query
from tallymark.wire.attempts import AttemptState

router = make_router("exports")
Kind = Literal["runs", "cases", "attempts", "board", "audit", "traces", "scores"]
CSV = "text/csv; charset=utf-8"
_PAGE = 1000
Filter = Annotated[
    str, Query(max_length=2000, description="Which traces: `status:error since:2h`.")
]


@router.get(
    "/export/{kind}",
    dependencies=[may(TEAM, "work")],
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A row a line.",
            "content": {kind: {"schema": {"type": "string"}} for kind in (NDJSON, CSV)},
        }
    },
)
def export(
    kind: Kind,
    request: Request,
    services: Services,
    caller: Who,
    format: Annotated[Literal["ndjson", "csv"], Query()] = "ndjson",  # noqa: A002 (its name)
    challenge: Annotated[str | None, Query(max_length=200)] = None,
    run: Annotated[str | None, Query(max_length=200)] = None,
    filter: Filter = "",  # noqa: A002 (its name)
    live: Live = None,
) -> Response:
    """Runs, the cases of a run, the attempts or the board of a challenge, traces, scores, the log.

    A `filter` chooses traces. Attempts come oldest first, traces newest first.
    """
    is_public(caller, live)  # refuses who may not ask for it
    if kind == "audit" and not sees_live(caller):
        raise NotAllowed("the log is for organisers")
    takes = _TAKES.get(kind)
    given = {"challenge": challenge, "run": run, "filter": filter or None}
    for name, value in given.items():
        if value is not None and name != takes:
            hint = "leave it out" if takes is None else f"leave it out, and give {takes}"
            raise refuse(422, f"{name}: an export of {kind} does not take it", hint)
    if takes in ("challenge", "run") and given[takes] is None:
        raise refuse(400, f"{takes}: it is missing", f"name one with ?{takes}=")
    # Who asks for what is not there is told so, before a first byte is sent.
    if run is not None:
        run = services.store.run(run).id
    if challenge is not None:
        services.store.challenges.find(challenge)
    if filter:
        parse_query(filter, now=services.now)
    rows = _READERS[kind](_Source(services, caller, challenge or run or filter, live))
    lines = (encode(row) + b"\n" for row in rows)
    if format == "csv":
        lines = (each.encode() for each in _write_csv(rows, _DECLARED.get(kind)))
    streamed = find_service(request).iterate_in_thread(caller, lines)
    return StreamingResponse(streamed, media_type=CSV if format == "csv" else NDJSON)


class _Source(NamedTuple):
    """What is exported, and for whom."""

    services: TenantServices
    caller: Caller
    chosen: str
    """A challenge, a run or a filter: see `_TAKES`."""
    live: bool | None


def _read_runs(source: _Source) -> Iterator[dict[str, Any]]:
    after = None
    while found := source.services.store.runs(limit=_PAGE, after=after):
        yield from (msgspec.to_builtins(show_record(each)) for each in found)
        last = found[-1]
        after = (last.created_at, last.created_at, last.id)


def _read_cases(source: _Source) -> Iterator[dict[str, Any]]:
    for result in source.services.store.results(source.chosen):
        yield msgspec.to_builtins(show_result(result))


def _read_attempts(source: _Source) -> Iterator[dict[str, Any]]:
    after, (services, caller, name, live) = "", source
    while found := list_attempts(services, caller, name, live=live, limit=_PAGE, after=after):
        yield from (each.to_public() for each in found)
        after = found[-1].id


def _read_traces(source: _Source) -> Iterator[dict[str, Any]]:
    for record, trace in stream_traces(source.services.store, source.chosen):
        yield msgspec.to_builtins(describe_trace(record)) | {"trace": trace.to_dict()}


def _read_scores(source: _Source) -> Iterator[dict[str, Any]]:
    yield from map(msgspec.to_builtins, stream_scores(source.services.store, source.chosen))


def _read_board(source: _Source) -> Iterator[dict[str, Any]]:
    first, public = 0, is_public(source.caller, source.live)
    boards = source.services.store.boards
    while found := boards.top(source.chosen, limit=_PAGE, offset=first, public=public):
        yield from (msgspec.to_builtins(each) for each in found)
        first += len(found)


def _read_audit(source: _Source) -> Iterator[dict[str, Any]]:
    before = None
    while found := source.services.store.audit_log.entries(before=before, limit=_PAGE):
        yield from (msgspec.to_builtins(each) for each in found)
        before = found[-1].seq


_TAKES = {
    "cases": "run",
    "attempts": "challenge",
    "board": "challenge",
    "traces": "filter",
    "scores": "filter",
}
"""The parameter that chooses what is exported; kinds without one are exported whole."""
_READERS: dict[str, Callable[[_Source], Iterator[dict[str, Any]]]] = {
    "runs": _read_runs,
    "cases": _read_cases,
    "attempts": _read_attempts,
    "board": _read_board,
    "audit": _read_audit,
    "traces": _read_traces,
    "scores": _read_scores,
}


_DECLARED: dict[str, type[BaseModel]] = {"attempts": AttemptState}
"""Of rows that leave out what they have not come to: the first one cannot tell the columns."""


def _write_csv(
    rows: Iterable[dict[str, Any]], declared: type[BaseModel] | None = None
) -> Iterator[str]:
    """A table whose columns are those of the first row; what is no single value is JSON."""
    columns = [] if declared is None else list(declared.model_fields)
    usual = {} if declared is None else list_defaults(declared)
    if columns:
        yield _write_line(columns)
    for row in rows:
        if not columns:
            columns = list(row)
            yield _write_line(columns)
        yield _write_line([_write_value(row.get(name, usual.get(name))) for name in columns])


def _write_value(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        value = encode(value).decode()
    # A text that a spreadsheet would take for a formula is no longer one.
    return format_cell(value) if isinstance(value, str) else value


def _write_line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()
