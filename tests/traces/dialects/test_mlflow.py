"""MLflow's own traces; a whole recorded one is read in `test_otel_libraries.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tallymark.errors import TraceError
from tallymark.traces import Trace

Read = Callable[..., list[Trace]]


def trace(*spans: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": info, "data": {"spans": list(spans)}}


def test_the_names_of_version_2_are_read(tmp_path: Path, read: Read) -> None:
    old = {
        "name": "desk", "context": {"span_id": "0x1", "trace_id": "0x2"}, "parent_id": None,
        "start_time": 1_000_000, "end_time": 3_000_000, "status_code": "ERROR",
        "status_message": "gone", "attributes": {"mlflow.spanType": '"AGENT"'},
    }  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps([trace(old, request_id="r")]))
    (found,) = read(tmp_path / "a.json")
    assert (found.trace_id, found.status, found.duration_ms) == ("r", "error", 2.0)
    assert (found.spans[0].span_id, found.spans[0].error) == ("0x1", "gone")


def test_what_is_no_trace_is_told(tmp_path: Path, read: Read) -> None:
    given: list[Any] = [trace({}, trace_id="a"), {"info": {}}, 3]
    lines = [json.dumps(each) for each in given]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    told: list[TraceError] = []
    found = read(tmp_path / "a.jsonl", skip_broken=True, on_broken=told.append)
    assert [each.trace_id for each in found] == ["a"]
    assert ["no data.spans" in str(each) for each in told] == [True, True]
