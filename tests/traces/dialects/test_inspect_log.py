"""Inspect's logs: real ones, and what older or damaged ones look like."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tallymark.errors import TraceError
from tallymark.traces import Trace, read_traces

Read = Callable[..., list[Trace]]
HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"task": "sums", "model": "openai/gpt-4o-mini"},
}


@pytest.mark.parametrize("name", ["inspect_sums.eval", "inspect_chunked.eval", "inspect_sums.json"])
def test_every_epoch_of_a_sample_is_a_trace(read: Read, name: str) -> None:
    found = read(name)
    assert [trace.metadata["epoch"] for trace in found] == [1, 2]
    assert len({trace.trace_id for trace in found}) == 2
    for trace in found:
        assert (trace.name, trace.status) == ("sums/one", "ok")
        assert (trace.tool_names, trace.last_output) == (["add"], "The sum is 2.")
        assert trace.tool_calls[0].tool_input == '{"x":1,"y":1}'
        assert trace.tool_calls[0].tool_output == "2"
        assert len(trace.generations) == 2  # the grader's call is not the agent's
        assert trace.tokens == 229
        assert trace.duration_ms > 0


@pytest.mark.parametrize("name", ["inspect_sums.eval", "inspect_chunked.eval", "inspect_sums.json"])
def test_long_texts_and_pooled_messages_are_put_back(read: Read, name: str) -> None:
    trace = read(name)[0]
    question = "What is 1 + 1? " + "Take your time and think about it. " * 10
    assert trace.metadata["input"] == question
    assert trace.generations[0].input == question
    told = trace.generations[1].metadata["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool"]
    assert told[2]["tool_results"][0]["text"] == "2"


def test_a_chunked_sample_is_the_same_trace(read: Read) -> None:
    assert read("inspect_chunked.eval") == read("inspect_sums.eval")


def test_what_the_sample_says_is_in_the_metadata(read: Read) -> None:
    metadata = read("inspect_sums.eval")[0].metadata
    assert metadata["expected"] == {"output": "2"}
    assert metadata["metadata"] == {"level": "easy"}
    assert (metadata["task"], metadata["model"], metadata["sample_id"]) == (
        "sums", "mockllm/model", "one"
    )  # fmt: skip
    assert {name: score["value"] for name, score in metadata["scores"].items()} == {
        "includes": "C",
        "model_graded_qa": "C",
    }


def test_a_sample_that_failed_is_a_failed_trace(read: Read) -> None:
    works, fails = read("inspect_error.eval")
    assert (works.status, works.last_output) == ("ok", "hello")
    assert (fails.status, fails.metadata["error"]) == (
        "error", "ValueError('the sample is not for me')"
    )  # fmt: skip
    assert [span.error for span in fails.errors] == ["ValueError('the sample is not for me')"]


def test_inspect_is_not_needed(fixtures: Path) -> None:
    code = (
        "import sys; from tallymark.traces import read_traces;"
        f"print(len(list(read_traces({str(fixtures / 'inspect_sums.eval')!r}))));"
        "print([m for m in ('inspect_ai', 'zipfile_zstd') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["2", "[]"]


def test_a_zip_from_a_stream_is_read(fixtures: Path) -> None:
    stream = io.BytesIO((fixtures / "inspect_sums.eval").read_bytes())
    assert len(list(read_traces(stream))) == 2


def test_a_zip_that_was_compressed_again_is_read(
    tmp_path: Path, fixtures: Path, read: Read
) -> None:
    packed = gzip.compress((fixtures / "inspect_sums.eval").read_bytes())
    (tmp_path / "a.eval.gz").write_bytes(packed)
    assert len(read(tmp_path / "a.eval.gz")) == 2


def log(*samples: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEADER, "samples": list(samples), **more}


def sample(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "input": "1+1?", "target": "2", **fields}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"event": kind, "uuid": f"u-{kind}", "timestamp": "2026-01-05T10:00:00+00:00", **fields}


def answered(text: str, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **fields}
    return {"choices": [{"message": message}], "model": "gpt-4o-mini"}


@pytest.fixture
def traced(tmp_path: Path, read: Read) -> Callable[[dict[str, Any]], Trace]:
    def write_and_read(one: dict[str, Any]) -> Trace:
        path = tmp_path / "log.json"
        path.write_text(json.dumps(log(one), indent=1))
        (trace,) = read(path)
        return trace

    return write_and_read


Traced = Callable[[dict[str, Any]], Trace]


def test_a_log_without_events_gives_its_messages(traced: Traced) -> None:
    call = {"id": "c", "function": "add", "arguments": {"x": 1}}
    trace = traced(
        sample(
            messages=[
                {"role": "user", "content": "1+1?"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "2"},
            ]
        )
    )
    assert [span.span_type for span in trace.spans] == ["generation", "tool"]
    assert trace.tool_calls[0].tool_output == "2"
    assert trace.generations[0].input == "1+1?"


@pytest.mark.parametrize(
    ("usage", "tokens", "cost"),
    [
        ({"input_tokens": 10, "output_tokens": 2, "total_cost": 0.25}, (10, 2), 0.25),
        ({"input_tokens": 10**6, "output_tokens": 0}, (10**6, 0), 0.15),
        ({"input_tokens": 0, "input_tokens_cache_read": 10**6, "output_tokens": 0},
         (10**6, 0), 0.075),
        ({"input_tokens": 5, "input_tokens_cache_write": 3}, (8, None), 8 * 0.15e-6),
        (None, (None, None), None),
    ],
)  # fmt: skip
def test_cached_input_is_part_of_the_input(
    traced: Traced, usage: Any, tokens: tuple[int | None, int | None], cost: float | None
) -> None:
    output = {**answered("2"), "usage": usage}
    trace = traced(sample(events=[event("model", model="openai/gpt-4o-mini", output=output)]))
    assert (trace.input_tokens, trace.output_tokens) == tokens
    assert trace.cost == pytest.approx(cost)


@pytest.mark.parametrize(
    ("said", "output", "answer"),
    [
        ("draft", {**answered("draft\n\nParis"), "completion": "draft\n\nParis"}, "draft\n\nParis"),
        ("draft", answered("older logs"), "older logs"),
        (None, answered("no model was called"), "no model was called"),
        ("draft", answered(""), ""),
        ("draft", {"choices": [], "completion": ""}, "draft"),
        ("draft", None, "draft"),
    ],
)
def test_the_samples_own_output_is_the_answer(
    traced: Traced, said: str | None, output: Any, answer: str
) -> None:
    events = [] if said is None else [event("model", output=answered(said))]
    trace = traced(sample(events=events, output=output))
    assert (trace.first_input, trace.answer) == ("1+1?", answer)
    assert len(trace.generations) == len(events)  # what a solver wrote is no model call


def test_the_samples_own_input_is_the_question(traced: Traced) -> None:
    prompt = {"role": "user", "content": "Answer briefly: 1+1?"}
    events = [event("model", input=[prompt], output=answered("2"))]
    assert traced(sample(events=events)).first_input == "1+1?"
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    assert traced(sample(events=events, input=asked)).first_input == "2+2?"


def test_the_span_that_holds_all_others_has_question_and_answer(traced: Traced) -> None:
    inner = {**event("model", output=answered("draft")), "span_id": "s"}
    events = [event("span_begin", id="s", name="solvers"), inner]
    outer, _ = traced(sample(events=events, output=answered("2"))).spans
    assert (outer.name, outer.input, outer.output) == ("solvers", "1+1?", "2")


def test_a_sample_that_its_spans_tell_already_is_no_span(traced: Traced) -> None:
    question = {"role": "user", "content": "1+1?"}
    events = [event("model", input=[question], output=answered("2"))]
    assert len(traced(sample(events=events, output=answered("2"))).spans) == 1


@pytest.mark.parametrize(
    ("one", "span_type", "name", "error"),
    [
        (event("model", model="m", error="rate limit", output={}), "generation", "m", "rate limit"),
        (event("tool", function="add", error={"type": "timeout", "message": "slow"}),
         "tool", "add", "slow"),
        (event("error", error={"message": "boom"}), "event", "error", "boom"),
        (event("sample_limit", type="token", message="too many"), "event", "token limit", None),
        (event("info", data={"a": 1}), "event", "info", None),
        (event("subtask", name="plan", input={"q": 1}, result="x"), "span", "plan", None),
        (event("span_begin", id="s1", name="solver"), "span", "solver", None),
    ],
)  # fmt: skip
def test_events_become_spans(
    traced: Traced, one: dict[str, Any], span_type: str, name: str, error: str | None
) -> None:
    (span,) = traced(sample(events=[one], input="")).spans
    assert (span.span_type, span.name, span.error) == (span_type, name, error)


@pytest.mark.parametrize("kind", ["state", "store", "logger", "sandbox", "score", "new_one"])
def test_other_events_are_not_the_agents_steps(traced: Traced, kind: str) -> None:
    assert traced(sample(events=[event(kind)], messages=[], input="")).spans == []


def test_a_pending_event_is_left_out(traced: Traced) -> None:
    events = [event("model", output=answered("x"), pending=True)]
    assert traced(sample(events=events, input="")).spans == []


def test_what_scorers_do_is_left_out_in_spans_and_in_older_steps(traced: Traced) -> None:
    own = event("model", output=answered("mine"))
    graded = event("model", output=answered("GRADE: C"))
    for events in (
        [own, event("span_begin", id="s", type="scorers"),
         event("span_begin", id="t", parent_id="s", name="inner"), {**graded, "span_id": "t"}],
        [own, event("step", action="begin", type="scorer"), graded,
         event("step", action="end", type="scorer")],
    ):  # fmt: skip
        assert traced(sample(events=events)).last_output == "mine"


def test_events_inside_a_tool_hang_below_it(traced: Traced) -> None:
    events = [
        event("span_begin", id="ts", type="tool", name="ask"),
        event("tool", function="ask", arguments={}, result="x", span_id=None),
        {**event("model", output=answered("inner")), "span_id": "ts"},
        event("tool", function="old", uuid="old", events=[event("model", output=answered("sub"))]),
    ]
    trace = traced(sample(events=events))
    parents = {span.output: span.parent_id for span in trace.generations}
    assert parents == {"inner": "ts", "sub": "old"}
    assert [span.span_id for span in trace.tool_calls] == ["ts", "old"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("2", {"output": "2"}),
        (["2"], {"output": "2"}),
        (["2", "two"], {"output": ["2", "two"]}),
        ("", None),
        ([], None),
    ],
)
def test_the_target_is_what_is_expected(traced: Traced, target: Any, expected: Any) -> None:
    assert traced(sample(target=target)).metadata.get("expected") == expected


def test_an_old_transcript_is_read(traced: Traced) -> None:
    old = {
        "events": [event("model", output=answered("tc://long"), uuid="m")],
        "content": {"long": "The sum is 2."},
    }
    trace = traced(sample(transcript=old, score={"value": "C"}))
    assert trace.answer == "The sum is 2."
    assert trace.metadata["scores"] == {"score": {"value": "C"}}


@pytest.mark.parametrize(
    "usage",
    [
        {"model_usage": {HEADER["eval"]["model"]: {"input_tokens": 9, "output_tokens": 2}}},
        {"output": {"usage": {"input_tokens": 9, "output_tokens": 2}}},
    ],
)
def test_without_events_the_tokens_are_those_of_the_sample(traced: Traced, usage: Any) -> None:
    said = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
    trace = traced(sample(messages=said, **usage))
    assert (trace.answer, trace.input_tokens, trace.output_tokens) == ("2", 9, 2)
    assert trace.cost is not None


def test_nan_in_a_log_reads_as_unknown(tmp_path: Path, read: Read) -> None:
    text = json.dumps(log(sample(scores={"s": {"value": float("nan")}}, total_time=float("nan"))))
    assert "NaN" in text
    (tmp_path / "log.json").write_text(text)
    (trace,) = read(tmp_path / "log.json")
    assert (trace.metadata["scores"], trace.duration_ms) == ({"s": {"value": None}}, 0.0)


def test_a_broken_sample_of_a_json_log_is_skipped_alone(tmp_path: Path, read: Read) -> None:
    text = json.dumps(log(sample(id="a"), sample(id="b"), sample(id="c")), indent=1)
    (tmp_path / "log.json").write_text(text.replace('"b"', "b"))
    told: list[str] = []
    found = read(
        tmp_path / "log.json", skip_broken=True, on_broken=lambda error: told.append(str(error))
    )
    assert [trace.metadata["sample_id"] for trace in found] == ["a", "c"]
    assert told[0].startswith(f"{tmp_path / 'log.json'}:record 2: not valid JSON")


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_older_logs_are_not_zstd_and_running_ones_have_no_header(
    tmp_path: Path, read: Read, header: str, method: int
) -> None:
    members = {header: json.dumps(HEADER), "samples/1_epoch_1.json": json.dumps(sample())}
    path = zipped(tmp_path / "a.eval", {k: v.encode() for k, v in members.items()}, method)
    assert [trace.name for trace in read(path)] == ["sums/1"]


def test_a_broken_member_is_reported_by_its_name(tmp_path: Path, read: Read) -> None:
    members = {
        "header.json": json.dumps(HEADER).encode(),
        "samples/1_epoch_1.json": b"{",
        "samples/2_epoch_1.json": json.dumps(sample(id=2)).encode(),
        "samples/3_epoch_1.json": b"[]",
    }
    path = zipped(tmp_path / "a.eval", members)
    with pytest.raises(TraceError, match=r"a\.eval:samples/1_epoch_1\.json: not valid JSON"):
        read(path)
    told: list[str] = []
    found = read(path, skip_broken=True, on_broken=lambda error: told.append(str(error)))
    assert [trace.name for trace in found] == ["sums/2"]
    assert told[1] == f"{path}:samples/3_epoch_1.json: not a sample: it has no id"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[: len(data) // 2], "not a readable zip file"),
        (lambda data: b"PK\x03\x04" + b"x" * 200, "not a readable zip file"),
        (lambda data: data.replace(zstandard.FRAME_HEADER, b"\0\0\0\0"), "damaged"),
    ],
)
def test_a_damaged_log_is_reported(
    tmp_path: Path, fixtures: Path, read: Read, spoil: Callable[[bytes], bytes], message: str
) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(spoil((fixtures / "inspect_sums.eval").read_bytes()))
    with pytest.raises(TraceError, match=message):
        read(path)


def test_a_changed_byte_in_a_zstd_member_is_noticed(
    tmp_path: Path, fixtures: Path, read: Read
) -> None:
    data = bytearray((fixtures / "inspect_sums.eval").read_bytes())
    data[data.index(b"samples/one_epoch_1.json") + 1500] ^= 0xFF
    path = tmp_path / "a.eval"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"samples/one_epoch_1\.json: damaged"):
        read(path)


def test_another_zip_is_no_log(tmp_path: Path, read: Read) -> None:
    with pytest.raises(TraceError, match="a zip file, but not an Inspect log"):
        read(zipped(tmp_path / "a.zip", {"a.txt": b"hello"}))


def test_a_member_that_expands_beyond_memory_is_refused(
    tmp_path: Path, fixtures: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.traces.dialects.inspect_log.MAX_RECORD", 10)
    with pytest.raises(TraceError, match="is not read"):
        read("inspect_sums.eval")
