"""Real OpenTelemetry exporters sending to a server: what they sent is what it shows.

    python -m scripts.prove_exporters [NAME ...]

Each library traces one small agent (`scripts/traced_agents/`) twice, once with a tool that breaks,
and sends with its own exporter, told where to by its own variables. Between it and the server
stands a window that passes everything on and keeps what went through; that is read by protobuf's
own library, and compared with what the API and `tally traces` say.
"""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from scripts.record_traces import OTLP, Recording, find_faults, read_body, recording, run_agent
from scripts.server_process import ADMIN_KEY, serve

from tallymark.traces import Trace

TALLY = str(Path(sys.executable).with_name("tally"))
_PATIENCE = 60.0
_ERROR = 2
"""`STATUS_CODE_ERROR`."""
BROKEN = "the station is down"
ENDPOINT = {
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{window}/v1/traces",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20{key}",
}
EXPORTERS = (
    Recording(
        "opentelemetry_sdk.pb",
        "opentelemetry_agent.py",
        ("opentelemetry-sdk", OTLP, "openai"),
        ENDPOINT | {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
    ),
    Recording(
        "opentelemetry_js.json",
        "opentelemetry_agent.mjs",
        (
            *("@opentelemetry/api@1", "@opentelemetry/sdk-trace-node@2"),
            *("@opentelemetry/resources@2", "@opentelemetry/exporter-trace-otlp-http"),
        ),
        ENDPOINT,
    ),
    Recording(
        "openinference.pb",
        "openinference_agent.py",
        ("openinference-instrumentation-openai", OTLP, "openai"),
        ENDPOINT,
    ),
    Recording(
        "openllmetry.pb",
        "openllmetry_agent.py",
        ("traceloop-sdk", OTLP, "openai", "httpx"),
        ENDPOINT,
    ),
    Recording(
        "pydantic_ai.pb",
        "pydantic_ai_agent.py",
        ("pydantic-ai-slim[openai]", "logfire"),
        ENDPOINT,
    ),
    Recording("logfire.pb", "logfire_agent.py", ("logfire", "openai"), ENDPOINT),
    Recording(
        "langfuse.pb",
        "langfuse_agent.py",
        ("langfuse", "openai"),
        {
            "LANGFUSE_HOST": "{window}",
            "LANGFUSE_OTEL_TRACES_EXPORT_PATH": "v1/traces",
            "LANGFUSE_PUBLIC_KEY": "tally",
            "LANGFUSE_SECRET_KEY": "{key}",
        },
    ),
)


class SentSpan(NamedTuple):
    """What an exporter said of a span."""

    trace: str
    span: str
    parent: str
    name: str
    start_ns: int
    end_ns: int
    failed: bool
    message: str


class Window(ThreadingHTTPServer):
    """Passes requests on to a server as they came, and keeps what went through."""

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passage)
        self.behind = urlsplit(url).netloc
        self.seen: list[tuple[str, bytes, int, bytes]] = []
        """The kind of each body, the body, and the status and body of its answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Passage(BaseHTTPRequestHandler):
    server: Window

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        body = read_body(self)
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        passed = http.client.HTTPConnection(self.server.behind, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        passed.request(
            "POST", self.path, [body] if chunked else body, headers, encode_chunked=chunked
        )
        answer = passed.getresponse()
        content = answer.read()
        passed.close()
        packed = self.headers.get("Content-Encoding") == "gzip"
        plain = gzip.decompress(body) if packed else body
        kind = self.headers["Content-Type"].partition(";")[0]
        self.server.seen.append((kind, plain, answer.status, content))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type") or "")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def open_window(url: str) -> Iterator[Window]:
    """One in front of a server."""
    with Window(url) as window:
        thread = Thread(target=window.serve_forever, daemon=True)
        thread.start()
        try:
            yield window
        finally:
            window.shutdown()
            thread.join()


def read_sent(kind: str, body: bytes) -> Iterator[SentSpan]:
    """The spans of a request, by protobuf's own library or as plain JSON."""
    if kind == "application/json":
        for batch in json.loads(body)["resourceSpans"]:
            for scope in batch["scopeSpans"]:
                for each in scope["spans"]:
                    status = each.get("status") or {}
                    yield SentSpan(
                        *(each["traceId"], each["spanId"], each.get("parentSpanId") or ""),
                        each["name"],
                        *(int(each["startTimeUnixNano"]), int(each["endTimeUnixNano"])),
                        *(status.get("code") == _ERROR, status.get("message") or ""),
                    )
        return
    for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in batch.scope_spans:
            for each in scope.spans:
                yield SentSpan(
                    *(each.trace_id.hex(), each.span_id.hex(), each.parent_span_id.hex()),
                    each.name,
                    *(each.start_time_unix_nano, each.end_time_unix_nano),
                    *(each.status.code == _ERROR, each.status.message),
                )


@dataclass(frozen=True)
class Shown:
    """What the server says of a trace, by every door."""

    record: dict[str, Any]
    """As a list has it."""
    trace: Trace
    page: str
    """What `tally traces show` prints."""


@dataclass(frozen=True)
class Desk:
    """A server with its database, and a window in front of it."""

    url: str
    db: str
    window: Window
    key: str
    recorder: str

    def run(self, each: Recording, *, breaks: bool) -> list[SentSpan]:
        """What the library sent about one run of its agent."""
        self.window.seen.clear()
        told = {
            name: value.format(window=self.window.url, key=quote(self.key))
            for name, value in each.setting.items()
        }
        told |= {"RECORDER": self.recorder, "EXPORTS": f"{self.window.url}/v1/traces"}
        run_agent(each, told | ({"BROKEN_TOOL": "1"} if breaks else {}), fails=breaks)
        for _, _, status, content in self.window.seen:
            if status != 200 or content not in (b"", b"{}"):
                raise RuntimeError(f"the server answered {status}: {content!r}")
        return [span for kind, body, *_ in self.window.seen for span in read_sent(kind, body)]

    def show(self, trace_id: str) -> Shown:
        """A trace, once it is settled."""
        end = time.monotonic() + _PATIENCE
        while True:
            found = ask(self.url, "GET", f"/api/v1/traces?filter=id:{trace_id}")["items"]
            if found and found[0]["state"] == "settled":
                break
            if time.monotonic() > end:
                raise RuntimeError(f"the trace is not settled: {found}")
            time.sleep(0.1)
        whole = ask(self.url, "GET", f"/api/v1/traces/{trace_id}")["trace"]["trace"]
        command = [TALLY, "traces", "show", trace_id, "--db", self.db]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return Shown(found[0], msgspec.convert(whole, Trace), done.stdout)


def ask(url: str, method: str, path: str, given: Any = None) -> Any:
    """What the server answers to whoever runs it."""
    body = None if given is None else json.dumps(given).encode()
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answered:
        return json.loads(answered.read() or b"null")


def compare(each: Recording, sent: list[SentSpan], shown: Shown, *, breaks: bool) -> list[str]:
    """What is shown otherwise than it was sent, or than it was."""
    record, trace, page = shown.record, shown.trace, shown.page
    begun, ended = min(one.start_ns for one in sent), max(one.end_ns for one in sent)
    known = {span.span_id: span for span in trace.spans}
    # A tool that no span was made of is known by what the model was told.
    told = [span for span in trace.spans if "/" not in span.span_id]
    faults = find_faults(each, [trace]) if not breaks else []
    checks: dict[str, tuple[Any, Any]] = {
        "spans": (sorted(span.span_id for span in told), sorted({one.span for one in sent})),
        "count": (record["spans"], len(trace.spans)),
        "began": (round(record["started_at"], 3), round(begun / 1e9, 3)),
        "took": (round(record["duration"], 4), round((ended - begun) / 1e9, 4)),
        "status": (record["status"], "error" if breaks else "ok"),
        "tools": (record["tools"], ["weather"]),
        "question": ("How warm is it in Paris?" in (record["asked"] or ""), True),
        "model": ({name[:11] for name in record["models"]}, {"gpt-4o-mini"}),
        "cost known": (record["cost"] is not None, True),
    }
    if breaks:
        checks["tokens"] = ((record["input_tokens"], record["output_tokens"]), (40, 6))
        checks["error"] = (BROKEN in (record["error"] or ""), True)
        checks["failed spans"] = (
            sorted(span.span_id for span in told if span.failed),
            sorted({one.span for one in sent if one.failed}),
        )
    else:
        checks["tokens"] = ((record["input_tokens"], record["output_tokens"]), (100, 15))
        checks["answer"] = (record["answered"], "It is 12 degrees in Paris.")
    for one in sent:
        if (span := known.get(one.span)) is None:
            continue
        took = (one.end_ns - one.start_ns) / 1e6
        checks[f"{one.name}: name"] = (one.name in (span.name, span.metadata.get("name")), True)
        checks[f"{one.name}: parent"] = (span.parent_id or "", one.parent)
        checks[f"{one.name}: began"] = (abs((span.start_ms or 0) - one.start_ns / 1e6) < 0.01, True)
        checks[f"{one.name}: took"] = (abs(span.duration_ms - took) < 0.01, True)
    wanted = [record["id"], record["status"], *record["models"], "weather", "How warm is it"]
    wanted += [BROKEN] if breaks else ["It is 12 degrees in Paris.", "115"]
    checks["tally traces show"] = ([word for word in wanted if word not in page], [])
    return faults + [
        f"{what}: {got!r}, not {want!r}" for what, (got, want) in checks.items() if got != want
    ]


def try_exporter(desk: Desk, each: Recording) -> tuple[list[str], str]:
    """Everything that is wrong, and a row of the table."""
    faults: list[str] = []
    spans, kinds = 0, set()
    for breaks in (False, True):
        sent = desk.run(each, breaks=breaks)
        kinds |= {kind.rpartition("/")[2].removeprefix("x-") for kind, *_ in desk.window.seen}
        spans += len(sent)
        traces = {one.trace for one in sent}
        if len(traces) != 1:
            faults.append(f"{len(traces)} traces were sent instead of one")
            continue
        found = compare(each, sent, desk.show(traces.pop()), breaks=breaks)
        faults += [f"{'broken tool: ' if breaks else ''}{fault}" for fault in found]
    told = "; ".join(faults) or "all of it"
    return faults, f"| {each.name} | {', '.join(sorted(kinds))} | {spans} | {told} |\n"


def judge_exporters(names: list[str] | None = None) -> tuple[bool, str]:
    """Whether what was sent is what is shown, and the table that says so."""
    table = "| exporter | sent as | spans | shown as sent |\n|---|---|---|---|\n"
    holds = True
    with tempfile.TemporaryDirectory(prefix="tally-exporters-") as folder:
        db = str(Path(folder) / "tally.db")
        with (
            serve(db, workers=1) as server,
            open_window(server.url) as window,
            recording() as recorder,
        ):
            ask(server.url, "PATCH", "/api/v1/traces/settings", {"quiet_s": 0.5})
            made = ask(server.url, "POST", "/api/v1/keys", {"role": "reporter", "name": "agents"})
            desk = Desk(server.url, db, window, made["secret"], recorder.url)
            for each in EXPORTERS:
                if names and each.name not in names:
                    continue
                faults, row = try_exporter(desk, each)
                holds = holds and not faults
                table += row
                sys.stdout.write(row)
                sys.stdout.flush()
    said = (
        "Each library, newest version, traces an agent twice, once with a tool that breaks, and "
        "sends with its own exporter and a reporter's key to `tally serve` in another process. "
        "Names, parents, times, status, tokens, models, tools and texts are compared with what "
        "the API and `tally traces show` say."
    )
    return holds, f"{said}\n\n{table}"


def main(names: list[str]) -> int:
    """0 when all is shown as it was sent."""
    return 0 if judge_exporters(names)[0] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
