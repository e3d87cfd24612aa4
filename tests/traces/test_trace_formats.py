"""The one door: detection, folders, streams, compression, progress, broken records."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tallymark.errors import CutShort, TraceError
from tallymark.traces import FORMATS, Trace, read_traces
from tallymark.traces import trace_formats as reading_module
from tallymark.traces.trace_source import Progress, open_source

Read = Callable[..., list[Trace]]
LINE = b'{"trace_id":"t","spans":[]}\n'
FILES = {
    "own.jsonl": "jsonl",
    "own_camel.jsonl": "jsonl",
    "otel_sdk.otlp.jsonl": "otlp",
    "otel_sdk.pb": "otlp",
    "collector.pb": "otlp",
    "pydantic_ai.pb": "otlp",
    "inspect_sums.eval": "inspect",
    "inspect_chunked.eval": "inspect",
    "inspect_sums.json": "inspect",
    "promptfoo.json": "promptfoo",
    "promptfoo.jsonl": "promptfoo",
    "promptfoo_v2.json": "promptfoo",
    "trajectory.json": "atif",
    "trajectory_subagent.json": "atif",
}


def detected(path: Path) -> str | None:
    with open_source(path, Progress(None, None)) as source:
        kind = reading_module.detect_format(source)
    return kind.name if kind else None


@pytest.mark.parametrize(("name", "format_name"), FILES.items())
def test_a_file_is_known_by_its_content_not_its_name(
    tmp_path: Path, fixtures: Path, name: str, format_name: str
) -> None:
    shutil.copy(fixtures / name, tmp_path / "unnamed")
    assert detected(tmp_path / "unnamed") == format_name


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".eval")])
def test_the_beginning_of_a_large_file_is_enough(
    tmp_path: Path, fixtures: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.traces.trace_source._BUFFER", 400)
    assert detected(fixtures / name) == FILES[name]


@pytest.mark.parametrize(
    ("name", "content", "format_name"),
    [
        ("a.jsonl", b"broken", "jsonl"),
        ("a.jsonl.gz", gzip.compress(b"broken", mtime=0), "jsonl"),
        ("a.ndjson", b'{"other": 1}\n', "jsonl"),
        ("a.eval", b"broken", "inspect"),
        ("a.pb", b"broken", "otlp"),
        ("a.json", b'{"other": 1}', None),
        ("a.json", b"[]", None),
        ("a.json", b"", None),
        ("a.txt", b"Dear reader,\n{}", None),
        ("a.json", b"\n{" + b'"trace_id": "t"}', "jsonl"),
        (
            "a",
            b'{"agent": 1, "steps": 2, "version": 3, "eval": 4, "status": "ok", "spans": []}',
            "jsonl",
        ),
        ("a", b"\x0a\x05hello", None),
        ("a", b"\x00\x00\x00\x05hello", None),
    ],
)
def test_the_name_decides_only_when_the_content_does_not(
    tmp_path: Path, name: str, content: bytes, format_name: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    assert detected(tmp_path / name) == format_name


def test_the_format_can_be_named(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").write_text('{"results": [{"success": true}]}')
    assert len(read(tmp_path / "a.json", format="promptfoo")) == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [("oltp", "unknown trace format 'oltp', did you mean 'otlp'?"), ("xyz", "format 'xyz'; the")],
)
def test_an_unknown_format_is_refused_at_once(fixtures: Path, name: str, hint: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_traces(fixtures / "own.jsonl", format=name)
    assert hint in str(refused.value)
    assert ", ".join(FORMATS) in str(refused.value)


@pytest.mark.parametrize("content", [b'{"other": 1}', b"hello", b"\xff\xfe\x00", b"[1, 2]"])
def test_an_unknown_file_is_refused(tmp_path: Path, read: Read, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(
        TraceError, match=r"a\.json: not a trace file that I know.* name the format"
    ):
        read(tmp_path / "a.json")


def test_an_empty_file_holds_no_traces(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").touch()
    assert read(tmp_path / "a.json") == []


def test_a_missing_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.jsonl: no such file or folder"):
        read_traces(tmp_path / "nowhere.jsonl")


def test_a_file_that_is_gone_when_its_turn_comes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE)
    found = read_traces(path)
    path.unlink()
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        next(found)


@pytest.mark.parametrize(
    "compressed",
    [
        gzip.compress(LINE * 3),
        gzip.compress(LINE) + gzip.compress(LINE * 2),
        zstandard.compress(LINE * 3),
        zstandard.compress(LINE) + zstandard.compress(LINE * 2),
    ],
    ids=["gzip", "gzip members", "zstd", "zstd frames"],
)
def test_compressed_files_are_read_as_they_are(
    tmp_path: Path, read: Read, compressed: bytes
) -> None:
    (tmp_path / "a").write_bytes(compressed)
    assert len(read(tmp_path / "a")) == 3


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_compressed_data_that_is_cut_short_gives_what_is_whole(
    tmp_path: Path, read: Read, compress: Callable[[bytes], bytes], cut: float
) -> None:
    data = compress(b"".join(b'{"trace_id":"%d","spans":[]}\n' % i for i in range(60_000)))
    (tmp_path / "a.jsonl").write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(CutShort, match="cut short, and all that is whole"):
        read(tmp_path / "a.jsonl")
    told: list[TraceError] = []
    found = read(tmp_path / "a.jsonl", on_broken=told.append)
    assert [trace.trace_id for trace in found] == [str(number) for number in range(len(found))]
    assert len(found) > 60_000 * cut * 0.4
    assert [type(each) for each in told] == [CutShort]


@pytest.mark.parametrize("name", ["own.jsonl", "pydantic_ai.otlp.jsonl", "inspect_sums.json"])
def test_what_is_cut_short_is_told_once_whatever_the_format(
    fixtures: Path, tmp_path: Path, read: Read, name: str
) -> None:
    data = gzip.compress((fixtures / name).read_bytes())
    (tmp_path / f"{name}.gz").write_bytes(data[:-9])  # the checksum, and a byte of the data
    told: list[TraceError] = []
    whole, cut = read(name), read(tmp_path / f"{name}.gz", on_broken=told.append)
    assert len(whole) - 1 <= len(cut)
    assert [type(each) for each in told] == [CutShort]


def test_a_line_too_long_for_memory_is_refused(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.traces.json_records.MAX_RECORD", 100)
    (tmp_path / "a.jsonl").write_bytes(LINE + b'{"trace_id": "' + b"x" * 200 + b'"}\n')
    with pytest.raises(TraceError, match=r"a\.jsonl:2: a record of more than"):
        read(tmp_path / "a.jsonl")


def test_a_frame_that_expands_beyond_memory_is_refused(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.traces.otlp_frames.MAX_RECORD", 1 << 20)
    bomb = zstandard.compress(b"\0" * 5_000_000)
    (tmp_path / "a.pb").write_bytes(len(bomb).to_bytes(4, "big") + bomb)
    with pytest.raises(TraceError, match="damaged: it expands to more than 1 MB"):
        read(tmp_path / "a.pb")


def test_a_stream_is_read_and_left_open(fixtures: Path) -> None:
    stream = io.BytesIO((fixtures / "own.jsonl").read_bytes())
    assert len(list(read_traces(stream))) == 2
    assert not stream.closed


def test_a_pipe_that_gives_a_few_bytes_at_a_time_is_read() -> None:
    reading_end, writing_end = os.pipe()

    def write() -> None:
        with os.fdopen(writing_end, "wb", buffering=0) as pipe:
            for i in range(0, len(LINE * 50), 7):
                pipe.write((LINE * 50)[i : i + 7])

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(reading_end, "rb") as pipe:
        assert len(list(read_traces(pipe))) == 50
    writer.join()


def test_a_named_pipe_is_read_once_and_has_no_total(tmp_path: Path, fixtures: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = (fixtures / "inspect_sums.eval").read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    totals: set[int | None] = set()
    assert len(list(read_traces(pipe, on_progress=lambda _, total: totals.add(total)))) == 2
    assert totals == {None}
    writer.join()


def test_standard_input_is_named_in_messages() -> None:
    code = (
        "import sys; from tallymark.traces import read_traces;"
        "list(read_traces(sys.stdin.buffer, format='jsonl'))"
    )
    lines = b'{"trace_id":"t"}\nbroken\n'
    done = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, check=False
    )
    assert b"<stdin>:2: not valid JSON" in done.stderr


def test_a_folder_is_read_in_order_and_other_files_passed_over(tmp_path: Path, read: Read) -> None:
    for name, content in {
        "b/z.jsonl": b'{"trace_id":"3","spans":[]}',
        "b/a.json": b'{"trace_id":"2","spans":[]}',
        "a.jsonl": b'{"trace_id":"1","spans":[]}',
        "README.md": b"# Traces",
        "b/config.json": b'{"retries": 3}',
        ".hidden.jsonl": b'{"trace_id":"9","spans":[]}',
        ".cache/x.jsonl": b'{"trace_id":"9","spans":[]}',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    assert [trace.trace_id for trace in read(tmp_path)] == ["1", "2", "3"]


@pytest.mark.parametrize("names", [[], ["README.md"]])
def test_a_folder_without_traces_is_refused(tmp_path: Path, read: Read, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("hello")
    with pytest.raises(TraceError, match=r"the folder is empty|no file in it is a trace file"):
        read(tmp_path)


def test_several_files_are_read_in_the_order_given(fixtures: Path) -> None:
    found = list(read_traces([str(fixtures / "trajectory.json"), fixtures / "own.jsonl"]))
    assert [trace.trace_id for trace in found] == ["session-42", "t-1", "t-2"]


def test_a_broken_file_among_several_is_skipped_as_a_whole(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"trace_id":"1","spans":[]}, {"trace_id"')
    (tmp_path / "b.jsonl").write_bytes(LINE)
    told: list[str] = []
    found = read(tmp_path, skip_broken=True, on_broken=lambda error: told.append(str(error)))
    assert [trace.trace_id for trace in found] == ["1", "t"]
    assert told == [f"{tmp_path / 'a.json'}:byte 31: not valid JSON: it ends too early"]


def test_broken_records_may_be_skipped_without_a_word(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE + b"x\n" + LINE)
    assert len(read(tmp_path / "a.jsonl", skip_broken=True)) == 2


@pytest.mark.parametrize("name", [*FILES, "all"])
def test_progress_goes_up_to_the_size_of_all_files(fixtures: Path, name: str) -> None:
    paths = [fixtures / each for each in (FILES if name == "all" else [name])]
    size = sum(path.stat().st_size for path in paths)
    seen: list[tuple[int, int | None]] = []
    list(read_traces(paths, on_progress=lambda done, total: seen.append((done, total))))
    done = [each for each, _ in seen]
    assert done == sorted(done)
    assert (done[-1], {total for _, total in seen}) == (size, {size})


def test_progress_of_a_stream_has_no_total() -> None:
    seen: list[tuple[int, int | None]] = []
    list(read_traces(io.BytesIO(LINE), on_progress=lambda done, total: seen.append((done, total))))
    assert seen == [(len(LINE), None)]


def test_progress_of_a_compressed_file_is_in_its_own_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINE * 1000))
    seen: list[tuple[int, int | None]] = []
    list(read_traces(path, on_progress=lambda done, total: seen.append((done, total))))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_importing_traces_loads_no_reader() -> None:
    code = (
        "import sys, tallymark.traces as t; before = set(sys.modules); t.read_traces;"
        "heavy = {'zipfile', 'zstandard', 'genai_prices', 'google'};"
        "heavy.add('tallymark.traces.dialects.otlp');"
        "print(sorted(heavy & before), sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['tallymark.traces.dialects.otlp']"


def test_what_is_not_exported_is_not_there() -> None:
    import tallymark.traces

    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        tallymark.traces.nothing  # noqa: B018
    assert {name for name in tallymark.traces.__all__ if hasattr(tallymark.traces, name)} == set(
        tallymark.traces.__all__
    )
