"""A file much larger than the memory it takes to read it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import pytest

from .conftest import FIXTURES

ALLOWED_MB = 60
READ = """
import sys
from pathlib import Path
from tallymark.traces import read_traces
def peak():  # not getrusage, which also remembers the process that started this one
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
list(read_traces(sys.argv[2]))  # what reading needs at all: modules, price table
before, count, calls, broken = peak(), 0, [], []
for trace in read_traces(sys.argv[1], skip_broken=True, on_broken=broken.append,
                         on_progress=lambda done, total: calls.append(done)):
    count += 1
print(count, peak() - before, len(calls), len(broken))
"""


def own_trace() -> bytes:
    spans = json.loads((FIXTURES / "own.jsonl").read_text().splitlines()[0])["spans"] * 25
    return json.dumps({"trace_id": "t", "spans": spans}).encode()


def lines() -> Iterator[bytes]:
    yield from repeat(own_trace() + b"\n")


def array() -> Iterator[bytes]:
    yield b"[\n"
    yield from repeat(own_trace() + b",\n")


def otlp_document() -> Iterator[bytes]:
    """One request without line breaks, every trace in two batches far apart."""
    line = (FIXTURES / "pydantic_ai.otlp.jsonl").read_text().splitlines()[0]
    batch = json.loads(line)["resourceSpans"][0]
    trace_id = batch["scopeSpans"][0]["spans"][0]["traceId"].encode()
    text = json.dumps(batch).encode()
    yield b'{"resourceSpans":['
    number = 0
    while True:
        number += 1
        for each in (number, max(1, number - 500)):
            yield text.replace(trace_id, b"%032x" % each) + b","


def inspect_document() -> Iterator[bytes]:
    log = json.loads((FIXTURES / "inspect_sums.json").read_text())
    head = {key: log[key] for key in ("version", "status", "eval")}
    yield json.dumps(head).encode()[:-1] + b',"samples":['
    yield from repeat(json.dumps(log["samples"][0]).encode() + b",")


@pytest.mark.skipif(sys.platform != "linux", reason="measures through /proc")
@pytest.mark.parametrize(
    ("content", "megabytes", "small", "fewest"),
    [
        (lines, 200, "own.jsonl", 8_000),
        (otlp_document, 50, "pydantic_ai.otlp.jsonl", 2_000),
        pytest.param(array, 60, "own.jsonl", 2_500, marks=pytest.mark.proof),
        pytest.param(inspect_document, 50, "inspect_sums.json", 2_000, marks=pytest.mark.proof),
    ],
)
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, content: Callable[[], Iterator[bytes]], megabytes: int, small: str, fewest: int
) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        for part in content():
            file.write(part)
            if file.tell() > megabytes * 1_000_000:
                break
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(FIXTURES / small)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    path.unlink()
    count, grown, progress, broken = (float(each) for each in done.stdout.split())
    assert count >= fewest
    assert grown < ALLOWED_MB
    assert progress >= megabytes * 0.9
    assert broken == (0 if content is lines else 1)  # the others end in the middle
