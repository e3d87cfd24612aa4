"""Streamed answers: server-sent events of boards and runs, and exports of all rows of a kind."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tallymark.http.routes import PlainRoute, find_service
from tallymark.service.attempts import AttemptRecord
from tallymark.service.callers import PUBLIC, TEAM
from tallymark.service.exports import ExportParameters, Exports
from tallymark.service.operations import read_parameters
from tallymark.service.tenant import TenantServices
from tallymark.text import format_cell

EVENTS = "text/event-stream"
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def find_last_event(request: Request) -> str | None:
    """Return the number of the event to continue after; browsers send it when they reconnect."""
    return request.headers.get("last-event-id") or request.query_params.get("after")


def stream_events(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    """Answer with encoded events until the listener disconnects."""
    return StreamingResponse(chunks, headers=_HEADERS, media_type=EVENTS)


async def listen_to_board(request: Request, services: TenantServices) -> Response:
    hub, name = find_service(request).live, request.path_params["name"]
    after = find_last_event(request)
    return stream_events(await hub.listen_to_board(services, request.state.caller, name, after))


async def listen_to_run(request: Request, services: TenantServices) -> Response:
    hub, run = find_service(request).live, request.path_params["run"]
    after = find_last_event(request)
    return stream_events(await hub.listen_to_run(services, request.state.caller, run, after))


def _describe(summary: str, tag: str, name: str) -> dict[str, object]:
    text = {"schema": {"type": "string"}}
    return {
        "summary": summary,
        "tags": [tag],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": text["schema"]}],
        "responses": {"200": {"description": "Events.", "content": {EVENTS: text}}},
    }


NDJSON = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
_COLUMNS = {"attempts": AttemptRecord.__struct_fields__}
"""Columns of a table that may have no rows."""


async def export(request: Request, services: TenantServices) -> Response:
    given = read_parameters(
        ExportParameters, request.path_params, request.query_params.multi_items()
    )
    service, caller = find_service(request), request.state.caller
    as_table = given.pop("format") == "csv"
    exports = Exports(services, caller)
    rows = await service.run_in_thread(caller, lambda: exports.rows(**given))
    lines = (msgspec.json.encode(row) + b"\n" for row in rows)
    if as_table:
        lines = (each.encode() for each in write_csv(rows, _COLUMNS.get(given["kind"])))
    streamed = service.iterate_in_thread(caller, lines)
    return StreamingResponse(streamed, media_type=CSV if as_table else NDJSON)


def write_csv(
    rows: Iterable[Mapping[str, Any]], columns: Iterable[str] | None = None
) -> Iterator[str]:
    """Write lines of a table. Columns are those of the first row if none are given."""
    if columns is not None:
        yield _write_line(columns)
    for row in rows:
        if columns is None:
            columns = tuple(row)
            yield _write_line(columns)
        yield _write_line(_write_value(row.get(name)) for name in columns)


def _write_value(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        value = msgspec.json.encode(value).decode()
    # A text that a spreadsheet would take for a formula is no longer one.
    return format_cell(value) if isinstance(value, str) else value


def _write_line(cells: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


ROUTES = [
    PlainRoute(
        method="GET",
        path="/api/v1/challenges/{name}/events",
        handle=listen_to_board,
        may=PUBLIC,
        entry=_describe("Changes of a challenge, as server-sent events.", "boards", "name"),
    ),
    PlainRoute(
        method="GET",
        path="/api/v1/runs/{run}/events",
        handle=listen_to_run,
        may=TEAM,
        entry=_describe("Progress of a run, as server-sent events.", "runs", "run"),
    ),
    PlainRoute(
        method="GET",
        path="/api/v1/export/{kind}",
        handle=export,
        may=TEAM,
        rate="work",
        parameters=ExportParameters,
        entry={
            "summary": "Stream all rows of a kind.",
            "description": "Stream all rows of a kind: runs, the cases of a run, the attempts or"
            " the board of a challenge, traces, scores, the audit log. Attempts come oldest first,"
            " traces newest first.",
            "tags": ["exports"],
            "responses": {
                "200": {
                    "description": "One row a line.",
                    "content": {kind: {"schema": {"type": "string"}} for kind in (NDJSON, CSV)},
                }
            },
        },
    ),
]
