"""How `tally run` and `tally score` end: what is shown, written and returned."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

from tallymark import text
from tallymark.cli.main import main

OWN = str(Path(__file__).parents[1] / "fixtures" / "traces" / "own.jsonl")
DOWN = """
from tallymark import Suite, Test, scorer

@scorer
def fine(ctx):
    return 1.0

def agent(given):
    raise ValueError("it is down")

suite = Suite("desk", [Test("one", "x")], scorers={"fine": fine})
"""
DOWN_YAML = """
metadata: {name: desk, model: cmd/false}
evals: [{name: one, prompt: x, checks: [match: x]}]
score: success_pct
"""


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    (tmp_path / "down_eval.py").write_text(DOWN)
    (tmp_path / "down.yaml").write_text(DOWN_YAML)
    return Tally(tmp_path)


@pytest.mark.parametrize("gate", [[], ["--fail-under", "0.5"]])
@pytest.mark.parametrize("typed", [["score", "down_eval.py"], ["run", "down.yaml"]])
def test_where_nothing_could_run_the_exit_code_is_3(
    tally: Tally, typed: list[str], gate: list[str]
) -> None:
    done = tally(*typed, *gate)
    why = done.stderr.splitlines()[-1]
    assert why.startswith("tally: no case could be run: ")
    assert tally(*typed, *gate, "-q").stderr.endswith(f"{why}\n")
    assert done.returncode == 3


def test_reports_are_written_where_a_scorer_scored_nothing(tally: Tally) -> None:
    scorers = ("-s", "word_count", "-s", "tool_selection")
    done = tally("score", OWN, *scorers, "--report", "x.xml", "--max-errors", "9")
    why = "tool_selection could not score anything: tool_selection needs expected.tool_calls"
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "wrote x.xml")
    assert f"\ntally: {why}" in done.stderr
    assert why in (tally.folder / "x.xml").read_text()  # a gate fails on it


@pytest.mark.parametrize("kept", [[], ["--no-keep"]])
def test_a_report_does_not_change_the_json_document(tally: Tally, kept: list[str]) -> None:
    lines = Path(OWN).read_text(encoding="utf-8").splitlines()
    (tally.folder / "t.jsonl").write_text("\n".join(lines * 30), encoding="utf-8")
    typed = ("score", "t.jsonl", "-s", "word_count", *kept)
    alone, beside = (
        tally.json(*typed),
        tally.json(*typed, "--report", "x.csv", "--report", "x.json"),
    )
    cases = [len(document["runs"][0]["results"]) for document in (alone, beside)]
    assert cases == [20, 20]
    with (tally.folder / "x.csv").open(encoding="utf-8") as file:
        assert sum(1 for _ in csv.DictReader(file)) == 60
    (whole,) = json.loads((tally.folder / "x.json").read_text(encoding="utf-8"))["runs"]
    assert len(whole["results"]) == 60


def test_each_runs_summary_tells_its_own_gate(tally: Tally) -> None:
    typed = ("run", "down.yaml", "-m", "echo/x", "-m", "cmd/echo no", "--report", "x.xml")
    done = tally(*typed, "--fail-under", "50")
    gates = [line[11:] for line in done.stdout.splitlines() if ": gate " in line]
    assert gates == [": gate passed", ": gate failed: cmd/echo no scored 0.00, under 50"]
    assert done.stderr.splitlines()[-1] == "tally: cmd/echo no scored 0.00, under 50"
    assert (tally.folder / "x.xml").read_text(encoding="utf-8").count('name="gate 1"') == 1
    assert done.returncode == 1


def test_what_cannot_be_gone_on_with_is_said_where_nothing_else_is_kept(tally: Tally) -> None:
    tally("score", OWN, "-s", "word_count")
    assert tally("run", "--resume", "latest").stderr == (
        "tally: there is no run to continue; "
        "only runs of YAML suites that started here can be continued, and none is stored\n"
    )


@pytest.mark.parametrize("engine", [[], ["--workers", "1", "--limit", "999"]])
def test_a_broken_record_says_how_to_go_on_without_it(tally: Tally, engine: list[str]) -> None:
    lines = Path(OWN).read_text(encoding="utf-8") * 300  # few are not worth workers
    (tally.folder / "t.jsonl").write_text(f"{lines}{{broken\n", encoding="utf-8")
    done = tally("score", "t.jsonl", "-s", "word_count", *engine)
    assert done.returncode == 2
    assert done.stderr.startswith("tally: t.jsonl:601: not valid JSON")
    assert done.stderr.endswith("; --skip-broken skips such records\n")
    assert done.stderr.count("--skip-broken") == 1


def test_a_command_that_is_proposed_asks_the_database_that_was_typed(tally: Tally) -> None:
    done = tally("run", "down.yaml", "-m", "echo/x", "--db", "an other.db")
    proposed = done.stdout.splitlines()[-1].partition("details: tally ")[2]
    assert proposed.endswith(" --db 'an other.db'")
    assert tally(*shlex.split(proposed)).returncode == 0
    again = tally("run", "down.yaml", "--db=an other.db", "-q").stdout
    assert again.endswith(" --db 'an other.db'\n")
    none = tally("runs", "--suite", "none", "--db", "an other.db")
    assert none.stdout == "no run matches; list all: tally runs --db 'an other.db'\n"
    here = tally("run", "down.yaml", "-m", "echo/x", "-q", env={"TALLY_DB": "an other.db"})
    assert "--db" not in here.stdout


def test_a_password_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.text.place", "")
    monkeypatch.setattr("sys.argv", ["tally", "docs", "--db", "postgresql://me:hidden@host/x"])
    with pytest.raises(SystemExit):
        main()
    assert text.complete_command("details: tally show x") == "details: tally show x"
