"""`/v1/traces`: spans from OpenTelemetry exporters, by the OTLP specification."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tallymark.errors import TraceError
from tallymark.http.problems import answer_error, refuse
from tallymark.http.routes import PlainRoute, find_service
from tallymark.service.callers import COMPETITORS, REPORTERS
from tallymark.service.limits import AGENT_BYTES, AGENT_VALUES, narrow_body
from tallymark.service.sign_in import OTLP_PATH
from tallymark.service.tenant import TenantServices
from tallymark.service.trace_intake import Taken
from tallymark.traces.otlp_export import Encoding

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_ENCODINGS: dict[str, Encoding] = {PROTOBUF: "protobuf", JSON: "json"}
_SMALL = 16_384
"""Bytes of a body that is decoded in the event loop, without a thread."""
_RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 413: 8, 415: 3, 422: 3, 429: 8, 503: 14}
_INTERNAL = 13


async def export_spans(request: Request, services: TenantServices) -> Response:
    """Take spans in OTLP, protobuf or JSON; they are stored when this is answered."""
    kind = _find_kind(request)
    if kind and kind not in _ENCODINGS:
        raise refuse(415, f"the body is {kind}", f"send Content-Type: {PROTOBUF} or {JSON}")
    encoding = _find_encoding(request)
    service = find_service(request)
    caller = request.state.caller
    intake = services.trace_intake
    agent = caller.agent if caller.role == "agent" else None
    if agent is not None:
        narrow_body(request.scope, AGENT_BYTES, AGENT_VALUES)
    body = await request.body()
    read = partial(intake.read, body, encoding, agent=agent)
    try:
        if len(body) <= _SMALL:
            export, item = read()
        else:
            export, item = await service.run_in_thread(caller, read)
    except TraceError as error:
        raise refuse(400, error.problems[0].message) from None
    taken = await intake.akeep(export, item)
    return Response(_write_answer(taken, encoding), media_type=_name_encoding(encoding))


def _find_kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _find_encoding(request: Request) -> Encoding:
    kind = _find_kind(request)
    return _ENCODINGS.get(kind, "json" if kind else "protobuf")


def _name_encoding(encoding: Encoding) -> str:
    return PROTOBUF if encoding == "protobuf" else JSON


def _write_answer(taken: Taken, encoding: Encoding) -> bytes:
    """Write an `ExportTraceServiceResponse`; empty if all spans were taken without remarks."""
    if not taken.refused and not taken.message:
        return b"" if encoding == "protobuf" else b"{}"
    if encoding == "json":
        told: dict[str, Any] = {"errorMessage": taken.message}
        if taken.refused:
            told["rejectedSpans"] = str(taken.refused)  # as protobuf's JSON has 64 bits
        return msgspec.json.encode({"partialSuccess": told})
    partial = _write_field(1, taken.refused) + _write_field(2, taken.message)
    return _write_field(1, partial)


async def answer_status(request: Request, error: Exception) -> Response:
    """Answer an error with a `google.rpc.Status` in the encoding of the request."""
    response = await answer_error(request, error)
    problem = msgspec.json.decode(bytes(response.body))
    status = response.status_code if response.status_code != 422 else 400
    code = _RPC_CODES.get(status, _INTERNAL)
    kept = {
        name: response.headers[name]
        for name in ("retry-after", "www-authenticate")
        if name in response.headers
    }
    encoding = _find_encoding(request)
    if encoding == "json":
        body = msgspec.json.encode({"code": code, "message": problem["detail"]})
    else:
        body = _write_field(1, code) + _write_field(2, problem["detail"])
    return Response(body, status, kept, _name_encoding(encoding))


def _write_field(number: int, value: int | str | bytes) -> bytes:
    """Write a protobuf field; 0 and empty values are omitted."""
    if not value:
        return b""
    if isinstance(value, int):
        return _write_varint(number << 3) + _write_varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _write_varint(number << 3 | 2) + _write_varint(len(content)) + content


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_STATUS = {
    "type": "object",
    "description": "google.rpc.Status",
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}
ROUTE = PlainRoute(
    method="POST",
    path=OTLP_PATH,
    handle=export_spans,
    may=REPORTERS | COMPETITORS,
    rate="report",
    answer_error=answer_status,
    entry={
        "summary": "Take spans in OTLP; they are stored when this is answered.",
        "tags": ["traces"],
        "requestBody": {
            # An export without spans is no bytes in protobuf.
            "content": {
                PROTOBUF: _BINARY,
                JSON: {"schema": {"type": "object", "description": "ExportTraceServiceRequest"}},
            },
        },
        "responses": {
            "200": {
                "description": "All spans are stored, except those in `partialSuccess`.",
                "content": {PROTOBUF: _BINARY, JSON: {"schema": {"type": "object"}}},
            },
            "default": {
                "description": "Nothing was stored.",
                "content": {PROTOBUF: _BINARY, JSON: {"schema": _STATUS}},
            },
        },
    },
)
