"""Record the traces that tracing libraries write about a small agent, and read them back.

    python -m scripts.record_traces [NAME ...]    writes tests/fixtures/traces/recorded/

`make proof` records all anew, with the newest versions, and only looks.

Each library lives in an environment of its own, made from the package registry under
`.venv-recorded/`. The agents (`scripts/traced_agents/`) ask a model that is played here, and send
what they trace here too. These bytes are kept as they came, but for what they say about the
machine.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tallymark.traces import Trace, read_traces

TREE = Path(__file__).parents[1]
AGENTS = TREE / "scripts" / "traced_agents"
FIXTURES = TREE / "tests" / "fixtures" / "traces" / "recorded"
PLACES = TREE / ".venv-recorded"


@dataclass(frozen=True, slots=True)
class Recording:
    """A library, how its agent is started, and what a reader can find in what it wrote."""

    file: str
    agent: str
    packages: tuple[str, ...]
    setting: dict[str, str] = field(default_factory=dict)
    """Environment variables; `{recorder}` stands for where all is sent to."""
    tools: tuple[str, ...] = ("weather",)
    calls: int = 2

    @property
    def name(self) -> str:
        return self.file.partition(".")[0]


OTLP = "opentelemetry-exporter-otlp-proto-http"
LANGSMITH = {
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_ENDPOINT": "{recorder}",
    "LANGSMITH_API_KEY": "none",
}
# What its autologging asks for beside what it declares.
MLFLOW = ("mlflow-skinny", OTLP, "openai", "numpy", "pandas")
RECORDINGS = (
    Recording(
        "langfuse.pb",
        "langfuse_agent.py",
        ("langfuse", "openai"),
        {
            "LANGFUSE_HOST": "{recorder}",
            "LANGFUSE_PUBLIC_KEY": "pk-none",
            "LANGFUSE_SECRET_KEY": "sk-none",
        },
    ),
    Recording(
        "openinference_openai.pb",
        "openinference_agent.py",
        ("openinference-instrumentation-openai", OTLP, "openai"),
    ),
    Recording(
        "openinference_only_agent.pb",
        "openinference_agent.py",
        ("openinference-instrumentation-openai", OTLP, "openai"),
        {"ONLY_AGENT": "1"},
        tools=(),
        calls=0,
    ),
    Recording(
        "openllmetry_openai.pb", "openllmetry_agent.py", ("traceloop-sdk", OTLP, "openai", "httpx")
    ),
    Recording(
        "mlflow.pb",
        "mlflow_agent.py",
        MLFLOW,
        {
            "MLFLOW_TRACKING_URI": "{recorder}",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{recorder}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        },
    ),
    Recording(
        "mlflow_trace.jsonl",
        "mlflow_agent.py",
        MLFLOW,
        {"MLFLOW_TRACKING_URI": "file:./mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"},
    ),
    Recording(
        "langsmith_otel.pb",
        "langsmith_agent.py",
        ("langsmith[otel]", OTLP, "openai"),
        {
            **LANGSMITH,
            "LANGSMITH_OTEL_ENABLED": "true",
            "LANGSMITH_OTEL_ONLY": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "{recorder}",
        },
    ),
    Recording(
        "langsmith_runs.jsonl", "langsmith_agent.py", ("langsmith[otel]", OTLP, "openai"), LANGSMITH
    ),
    Recording("logfire_openai.pb", "logfire_agent.py", ("logfire", "openai")),
    Recording(
        "vercel.pb",
        "vercel_agent.mjs",
        (
            *("ai@6", "@ai-sdk/openai@3", "zod@4", "@opentelemetry/api@1"),
            *("@opentelemetry/sdk-trace-node@2", "@opentelemetry/exporter-trace-otlp-proto"),
        ),
    ),
)


class Recorder(ThreadingHTTPServer):
    """Plays the model, and keeps what is exported."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.exports: list[bytes] = []
        self.runs: dict[str, dict[str, Any]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def content(self) -> bytes:
        """OTLP requests one after another are one request; other things come line by line."""
        lines = [json.dumps(run, separators=(",", ":")) + "\n" for run in self.runs.values()]
        return b"".join(self.exports) + "".join(lines).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._reply({})

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = read_body(self)
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        elif self.headers.get("Content-Encoding") == "deflate":
            body = zlib.decompress(body)
        if self.path.endswith("/chat/completions"):
            self._reply(complete(json.loads(body)))
            return
        if self.path.endswith("/traces"):
            self.server.exports.append(_forget_machine(body))
        elif self.path == "/file":
            self.server.exports.append(body)
        elif "/runs" in self.path:
            for run in read_runs(body, self.headers.get("Content-Type") or "", self.path):
                self.server.runs.setdefault(run["id"], {}).update(run)
        self._reply({})

    def _reply(self, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def read_body(request: BaseHTTPRequestHandler) -> bytes:
    """What was sent, in one piece or in chunks."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    chunks = []
    while size := int(request.rfile.readline(), 16):
        chunks.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(chunks)


def _forget_machine(export: bytes) -> bytes:
    """The request without what its resources say about the machine."""
    request = ExportTraceServiceRequest.FromString(export)
    for batch in request.resource_spans:
        kept = [
            each
            for each in batch.resource.attributes
            if not each.key.startswith(("host.", "os.", "process."))
        ]
        del batch.resource.attributes[:]
        batch.resource.attributes.extend(kept)
    return bytes(request.SerializeToString())


def complete(request: dict[str, Any]) -> dict[str, Any]:
    """A model that asks for the tool first, and answers when it has been told."""
    told = any(message["role"] == "tool" for message in request["messages"])
    call = {"name": "weather", "arguments": '{"city": "Paris"}'}
    wish = {"id": "call-1", "type": "function", "function": call}
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [wish]}
    if told:
        message = {"role": "assistant", "content": "It is 12 degrees in Paris."}
    given, gave = (60, 9) if told else (40, 6)
    return {
        "id": f"chatcmpl-{given}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {"index": 0, "message": message, "finish_reason": "stop" if told else "tool_calls"}
        ],
        "usage": {
            "prompt_tokens": given,
            "completion_tokens": gave,
            "total_tokens": given + gave,
        },
    }


def read_runs(body: bytes, kind: str, path: str) -> Iterator[dict[str, Any]]:
    """The runs in what LangSmith's client sends: one, several, or parts of a form."""
    if not kind.startswith("multipart/"):
        document = json.loads(body)
        runs = [*document.get("post", ()), *document.get("patch", ())]
        yield from runs or [{"id": path.rpartition("/")[2], **document}]
        return
    boundary = kind.partition("boundary=")[2].strip('"').encode()
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.strip(b"\r\n").partition(b"\r\n\r\n")
        name = head.partition(b'name="')[2].partition(b'"')[0].decode()
        _, run, *field_name = name.split(".")
        value = json.loads(content)
        if "extra" in field_name:
            value.pop("runtime", None)  # what it notes is about this machine
        yield {"id": run, **({field_name[0]: value} if field_name else value)}


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder that listens."""
    with Recorder() as recorder:
        thread = Thread(target=recorder.serve_forever, daemon=True)
        thread.start()
        try:
            yield recorder
        finally:
            recorder.shutdown()
            thread.join()


def find_place(each: Recording) -> Path:
    """Where its library lives."""
    return PLACES / each.agent.replace(".", "_")


def make_environment(each: Recording) -> list[str]:
    """The library in a place of its own, and the words that start a program there."""
    return install(find_place(each), each.packages, node=each.agent.endswith(".mjs"))


def install(place: Path, packages: Sequence[str], *, node: bool = False) -> list[str]:
    """Packages in a place of their own, and the words that start a program there."""
    ready = place / ".ready"
    wanted = " ".join(packages)
    if not ready.is_file() or ready.read_text() != wanted:
        place.mkdir(parents=True, exist_ok=True)
        if node:
            (place / "package.json").write_text("{}")
            _run(["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], place)
        else:
            _run([sys.executable, "-m", "venv", str(place)], TREE)
            pip = ["-m", "pip", "install", "-qq", "--disable-pip-version-check"]
            _run([str(place / "bin" / "python"), *pip, *packages], TREE)
        ready.write_text(wanted)
    return ["node"] if node else [str(place / "bin" / "python")]


def _run(
    words: list[str], folder: Path, more: dict[str, str] | None = None, *, fails: bool = False
) -> None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    told = subprocess.DEVNULL if fails else None
    done = subprocess.run(
        words, cwd=folder, env=kept | (more or {}), check=False, stdout=sys.stderr, stderr=told
    )
    if (done.returncode != 0) != fails:
        raise RuntimeError(f"{words[-1]} ended with {done.returncode}")


def run_agent(each: Recording, variables: dict[str, str], *, fails: bool = False) -> None:
    """Runs its agent, which may have to fail.

    From a folder that says nothing about this machine: some libraries note it.
    """
    words = make_environment(each)
    with tempfile.TemporaryDirectory() as folder:
        for file in ("weather.py", each.agent):
            (Path(folder) / file).write_text((AGENTS / file).read_text())
        if words == ["node"]:
            (Path(folder) / "node_modules").symlink_to(find_place(each) / "node_modules")
        _run([*words, each.agent], Path(folder), variables, fails=fails)


def record(each: Recording) -> bytes:
    """What the library wrote about one run of its agent."""
    with recording() as recorder:
        told = {key: value.format(recorder=recorder.url) for key, value in each.setting.items()}
        run_agent(each, {"RECORDER": recorder.url, **told})
        return recorder.content()


def find_faults(each: Recording, traces: list[Trace]) -> list[str]:
    """What reading them should have given, and did not."""
    if len(traces) != 1:
        return [f"{len(traces)} traces instead of one"]
    (trace,) = traces
    tokens = (100, 15) if each.calls else (None, None)
    arguments = [json.loads(call.tool_input or "null") for call in trace.tool_calls]
    checks = {
        "answer": (trace.answer, "It is 12 degrees in Paris."),
        "tools": (tuple(trace.tool_names), each.tools),
        "arguments": (arguments, [{"city": "Paris"}] * len(each.tools)),
        "results": (
            [call.tool_output for call in trace.tool_calls],
            ["12 degrees in Paris"] * len(each.tools),
        ),
        "model calls": (len(trace.generations), each.calls),
        "tokens": ((trace.input_tokens, trace.output_tokens), tokens),
        "question": ("How warm is it in Paris?" in trace.first_input, True),
        "cost known": (trace.cost is not None, each.calls > 0),
    }
    return [f"{what}: {got!r}, not {want!r}" for what, (got, want) in checks.items() if got != want]


def tell_recordings() -> tuple[bool, str]:
    """Whether what the libraries write today reads as it should, and the table that says so."""
    table = "| recorded | bytes | read |\n|---|---|---|\n"
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        for each in RECORDINGS:
            path = Path(folder) / each.file
            path.write_bytes(record(each))
            faults = find_faults(each, list(read_traces(path)))
            holds = holds and not faults
            found = "; ".join(faults) or "all of it"
            table += f"| {each.name} | {path.stat().st_size} | {found} |\n"
    return holds, table


def main(names: list[str]) -> int:
    """0 when all that was recorded reads as it should."""
    failed = False
    FIXTURES.mkdir(exist_ok=True)
    for each in RECORDINGS:
        if not names or each.name in names:
            path = FIXTURES / each.file
            path.write_bytes(record(each))
            faults = find_faults(each, list(read_traces(path)))
            sys.stdout.write(f"{each.name}: {'; '.join(faults) or 'as it should be'}\n")
            failed = failed or bool(faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
