"""`SpanRelay`: local receiver of an agent's spans, which forwards them to the server.

OpenTelemetry exporters find its address in their usual variables. It adds the attempt's token to
the spans, so that any agent is witnessed without code, forwards them at once with safe retries,
and counts them. The agent never sees the key of the server.
"""

from __future__ import annotations

import json
import secrets
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tallymark.client.connection import Connection
from tallymark.client.exchange import ATTEMPT_TOKEN, Call
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.installation import require_extra
from tallymark.traces.otlp_document import write_attributes

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MOST_BYTES = 20_000_000
_SILENT = ("/v1/metrics", "/v1/logs")
"""Accepted and ignored: exporters log errors where these are refused."""


class SpanRelay:
    """Listens on loopback for the time of a `with`, at an address that cannot be guessed."""

    def __init__(self, connection: Connection, token: str) -> None:
        self.spans = 0
        """Number of spans that the server accepted."""
        self.problem: str | None = None
        """First reason why some were not."""
        self._connection = connection
        self._token = token
        self._path = f"/{secrets.token_urlsafe(16)}"
        self._lock = threading.Lock()
        self._server = _Server(self)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()  # waits for what is on its way
        self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for exporters."""
        address = f"http://127.0.0.1:{self._server.server_port}{self._path}"
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{address}/v1/traces",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_HEADERS": "",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "",
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "1000",
        }

    def take(self, path: str, kind: str, body: bytes) -> tuple[int, str, bytes]:
        """Forward an export; return status, media type and body of the answer."""
        if not path.startswith(f"{self._path}/"):
            return 404, JSON, b"{}"
        if path.endswith(_SILENT):
            return 200, kind, b"{}" if kind == JSON else b""
        try:
            count, marked = _mark(kind, body, self._token)
        except InvalidInput as error:
            self._note(0, error.render())
            return 503, JSON, json.dumps({"message": str(error)}).encode()
        except ValueError as error:
            return 400, JSON, json.dumps({"message": str(error)}).encode()
        call = Call(
            method="POST", path="/v1/traces", prefix="", body=marked, content_type=kind,
            headers={"Accept": kind},
        )  # fmt: skip
        try:
            answer = self._connection.send(call)
        except TallymarkError as error:
            self._note(0, str(error))
            return 503, JSON, json.dumps({"message": str(error)}).encode()
        refused, why = _read_refused(kind, answer.content)
        self._note(count - refused, why)
        return 200, kind, answer.content

    def _note(self, taken: int, why: str) -> None:
        with self._lock:
            self.spans += taken
            self.problem = self.problem or why or None


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, relay: SpanRelay) -> None:
        self.relay = relay
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore an agent that was ended in the middle of a request."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 60

    def do_POST(self) -> None:
        """Take an export."""
        kind = self.headers.get("content-type", PROTOBUF).partition(";")[0].strip().lower()
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            answer = (413, JSON, b"{}")
        else:
            body = self.rfile.read(int(length))
            if "gzip" in self.headers.get("content-encoding", ""):
                body = zlib.decompressobj(wbits=47).decompress(body, MOST_BYTES)
            answer = self.server.relay.take(self.path, kind, body)
        status, kind, said = answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its name there)
        """Log nothing."""


def _mark(kind: str, body: bytes, token: str) -> tuple[int, bytes]:
    """Count the spans, and add the token to every resource."""
    if kind == JSON:
        return _mark_json(body, token)
    require_extra("tracing", "a trace in protobuf", "opentelemetry.proto")
    # Protobuf is heavy and part of that extra, and most agents in Python send none.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # noqa: PLC0415
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415

    request = trace_service_pb2.ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise ValueError(f"not OTLP: {error}") from None
    count = 0
    for batch in request.resource_spans:
        kept = [each for each in batch.resource.attributes if each.key != ATTEMPT_TOKEN]
        del batch.resource.attributes[:]
        batch.resource.attributes.extend(kept)
        batch.resource.attributes.add(key=ATTEMPT_TOKEN).value.string_value = token
        count += sum(len(scope.spans) for scope in batch.scope_spans)
    return count, request.SerializeToString()


def _mark_json(body: bytes, token: str) -> tuple[int, bytes]:
    count = 0
    try:
        document = json.loads(body)
        for batch in document.get("resourceSpans", ()):
            found = batch.setdefault("resource", {}).setdefault("attributes", [])
            found[:] = [each for each in found if each.get("key") != ATTEMPT_TOKEN]
            found += write_attributes({ATTEMPT_TOKEN: token})
            count += sum(len(each.get("spans", ())) for each in batch.get("scopeSpans", ()))
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"not OTLP: {error}") from None
    return count, json.dumps(document).encode()


def _read_refused(kind: str, answer: bytes) -> tuple[int, str]:
    """Read how many spans the server refused, and why."""
    if not answer:
        return 0, ""
    if kind == JSON:
        told = json.loads(answer).get("partialSuccess") or {}
        return int(told.get("rejectedSpans", 0)), str(told.get("errorMessage", ""))
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415

    partial = trace_service_pb2.ExportTraceServiceResponse.FromString(answer).partial_success
    return partial.rejected_spans, partial.error_message
