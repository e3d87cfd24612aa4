"""Results in files: every format has every result, and a failed run leaves nothing."""

from __future__ import annotations

import csv
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.runs.record import CaseResult
from tallymark.runs.result_files import open_result_file
from tallymark.scoring import EvalContext, Score, scorer
from tallymark.suites import ScoredTraces
from tallymark.traces import Span, Trace


@scorer(blocking=False)
def said(ctx: EvalContext) -> Score:
    return Score(float(ctx.output), f"It said {ctx.output}", {"n": 1})


@scorer(data_type="categorical", blocking=False)
def tone(ctx: EvalContext) -> str:
    return 'for"mal,'


def results(*outputs: str) -> list[CaseResult]:
    traces = [
        Trace(
            trace_id=f"t-{n}",
            name="näme",
            duration_ms=1.5,
            spans=[Span(span_type="generation", output=output, cost=0.5, input_tokens=3)],
        )
        for n, output in enumerate(outputs)
    ]
    return list(ScoredTraces(traces, [said, tone]))


def write(path: Path, found: list[CaseResult]) -> None:
    with open_result_file(path, ["said", "tone"]) as write_one:
        for result in found:
            write_one(result)


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)) if path.suffix == ".csv" else list(map(json.loads, file))


def test_json_lines_have_everything(tmp_path: Path) -> None:
    write(tmp_path / "out.jsonl", results("1", "rubbish"))
    first, second = read(tmp_path / "out.jsonl")
    assert first["scores"]["said"] == {
        "value": 1.0,
        "label": None,
        "reason": "It said 1",
        "error": None,
        "metadata": {"n": 1},
        "version": said.origin.version,
    }
    assert (first["trace_id"], first["status"], first["tokens"]) == ("t-0", "passed", 3)
    assert second["status"] == "error"
    assert second["scores"]["said"]["value"] is None


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "OUT.CSV"])
def test_tables_have_a_column_for_everything(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.lower()
    write(tmp_path / name, results("0.5", "rubbish"))
    (tmp_path / name).rename(path)
    first, second = read(path)
    assert list(first) == [
        *("case", "model", "prompt", "trace_id", "name", "epoch", "status"),
        *("duration_ms", "cost", "tokens", "error"),
        *("input", "output"),
        *("said", "said.label", "said.reason", "said.error"),
        *("tone", "tone.label", "tone.reason", "tone.error"),
    ]
    assert (first["name"], float(first["said"]), first["tone.label"]) == ("näme", 0.5, 'for"mal,')
    assert not second["said"]
    assert "could not convert" in second["said.error"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_all_rows_arrive_however_many(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.parquet_rows._ROWS", 7)
    write(tmp_path / name, results(*["1"] * 30))
    assert [row["trace_id"] for row in read(tmp_path / name)] == [f"t-{n}" for n in range(30)]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_a_run_that_fails_leaves_nothing_half_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("from before")

    def fail() -> None:
        with open_result_file(tmp_path / name, ["said", "tone"]) as write_one:
            write_one(results("1")[0])
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "from before"


def test_what_somebody_left_who_was_killed_is_removed_and_what_others_write_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "o[u]t.csv"
    left = tmp_path / ".o[u]t.csv.0123abcd.part"
    left.write_text("half")
    os.utime(left, (0, 0))
    with open_result_file(path, ["said", "tone"]) as write_one:
        (mine,) = tmp_path.iterdir()
        os.utime(mine, (0, 0))  # one that has had nothing to write for long
        write(path, results("1", "0"))
        assert set(tmp_path.iterdir()) == {mine, path}
        write_one(results("1")[0])
    assert list(tmp_path.iterdir()) == [path]
    assert len(read(path)) == 1  # whole, of the one that ended last


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_without_room_the_file_is_named_and_the_older_one_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("from before")
    found = results("1") * 200
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(WorkFailed, match=f"cannot write .*{name}: File too large; make room"):
            write(path, found)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert path.read_text() == "from before"


def test_a_folder_in_its_place_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(InvalidInput, match="it is a folder"):
        write(tmp_path / "out.csv", [])
    assert not any((tmp_path / "out.csv").iterdir())


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_metadata_and_texts_that_no_format_knows_are_written_somehow(
    tmp_path: Path, name: str
) -> None:
    @scorer(name="said", blocking=False)
    def odd(ctx: EvalContext) -> Score:
        circle: dict[Any, Any] = {"nan": float("nan"), (1, 2): {3}, "object": object()}
        circle["circle"] = circle
        return Score(1.0, "half \ud800", circle)

    found = list(ScoredTraces([Trace(spans=[])], [odd, tone]))
    write(tmp_path / name, found)
    (row,) = read(tmp_path / name)
    assert float(row["scores"]["said"]["value"] if name == "out.jsonl" else row["said"]) == 1.0


def test_a_name_that_says_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ends in \.jsonl, \.csv, \.parquet"):
        write(tmp_path / "out.xlsx", [])


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot write .*: No such file or directory"):
        write(tmp_path / "missing" / "out.csv", [])


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "tallymark.parquet_rows", raising=False)
    with pytest.raises(InvalidInput, match=r'need pyarrow; install it with: .*\[parquet\]"'):
        write(tmp_path / "out.parquet", [])
    assert not list(tmp_path.iterdir())
