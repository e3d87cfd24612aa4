"""`tally score`, as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TALLY = Path(sys.executable).parent / "tally"
TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
OWN = str(TRACES / "own.jsonl")
REFUNDED = "contains(values=['Refunded'])"

SUITE = """
from tallymark import Suite, Test, scorer

@scorer(blocking=False)
def polite(ctx):
    return 1.0 if "thanks" in ctx.output else 0.25

def agent(given):
    print("the agent prints")
    return given

def rude(given):
    return "no"

tests = [Test("one", "thanks"), Test("two", "thanks a lot")]
suite = Suite("desk", tests, scorers={"polite": polite})
"""


def tally(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> Any:
    done = subprocess.run(
        [TALLY, "score", *arguments], input=stdin, capture_output=True, check=False, cwd=cwd
    )
    text = (done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in text[1]
    return subprocess.CompletedProcess(arguments, done.returncode, *text)


@pytest.fixture
def suite(tmp_path: Path) -> str:
    path = tmp_path / "desk_eval.py"
    path.write_text(SUITE)
    return str(path)


# Stored traces


def test_a_summary_is_printed() -> None:
    done = tally(OWN, "--scorer", REFUNDED, "--scorer", "exact_match")
    assert done.returncode == 0
    assert done.stdout == (
        "2 traces, 1 passed (50 %)\n"
        "\n"
        "scorer        mean   95 % interval  scored  unscored\n"
        "contains     0.500  0.000 to 1.000       2         0\n"
        "exact_match  1.000               -       1         1\n"
        "\n"
        "unscored: exact_match needs expected.output, and none was given\n"
        "\n"
        "did not pass: 1\n"
        "  t-2 refund\n"
        "    contains 0.00 < 0.70: Empty output\n"
        "    exact_match needs expected.output, and none was given\n"
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    "name",
    [
        *("inspect_sums.eval", "inspect_sums.json", "otel_sdk.pb", "otel_sdk.otlp.jsonl"),
        *("pydantic_ai.pb", "pydantic_ai.otlp.jsonl", "trajectory.json", "promptfoo.json"),
    ],
)
def test_files_of_other_tools_are_scored_unchanged(name: str) -> None:
    done = tally(str(TRACES / name), "--scorer", "word_count", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["scorers"]["word_count"]["mean"] is not None


def test_json_is_one_document() -> None:
    done = tally(OWN, "-s", REFUNDED, "--formula", "success_pct + contains", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (document["traces"], document["passed"], document["broken"]) == (2, 1, 0)
    assert (document["formula"], document["score"]) == ("success_pct + contains", 50.5)


def test_a_formula_without_a_value_says_why() -> None:
    done = tally(OWN, "-s", REFUNDED, "--formula", "success_pct / total_cost")
    assert done.returncode == 0
    assert (
        "success_pct / total_cost is undefined\n"
        "  total_cost has no value; the cost is not known for 1 of 2\n"
    ) in done.stdout


def test_traces_come_from_stdin() -> None:
    done = tally("-", "-s", "word_count", "--json", stdin=Path(OWN).read_bytes())
    assert json.loads(done.stdout)["traces"] == 2


def test_several_files_are_one_run() -> None:
    done = tally(OWN, str(TRACES / "own_camel.jsonl"), "-s", "word_count", "--limit", "3", "--json")
    assert json.loads(done.stdout)["traces"] == 3


def test_every_result_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = tally(OWN, "-s", REFUNDED, "-o", str(out))
    assert done.returncode == 0
    with out.open(newline="") as file:
        assert [(r["trace_id"], r["contains"]) for r in csv.DictReader(file)] == [
            ("t-1", "1.0"),
            ("t-2", "0.0"),
        ]


def test_expectations_come_from_a_file(tmp_path: Path) -> None:
    lines = '{"trace_id": "t-2", "output": ""}\n\n{"trace_id": "t-9", "output": ""}'
    (tmp_path / "e.jsonl").write_text(lines)
    done = tally(OWN, "-s", "exact_match", "--expected", "e.jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["passed"] == 2
    assert done.stderr == "tally: e.jsonl: 1 of 2 lines match no trace\n"


@pytest.mark.parametrize(("threshold", "passed"), [("0", 2), ("0.04", 1), ("0.9", 0)])
def test_the_threshold_is_the_callers(threshold: str, passed: int) -> None:
    done = tally(OWN, "-s", "word_count", "--threshold", threshold, "--json")
    assert json.loads(done.stdout)["passed"] == passed


def test_a_scorer_in_a_file_may_be_slow(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import asyncio\n"
        "from tallymark import scorer\n"
        "@scorer\n"
        "async def slow(ctx):\n"
        "    print('a scorer prints')\n"
        "    await asyncio.sleep(0)\n"
        "    return 1.0\n"
        "@scorer\n"
        "async def hangs(ctx):\n"
        "    await asyncio.Event().wait()\n"
    )
    both = ("-s", "mine.py:slow", "-s", "mine.py:hangs", "--timeout", "0.1", "--json")
    done = tally(OWN, *both, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["scorers"]["slow"]["mean"] == 1.0
    assert document["scorers"]["hangs"]["first_error"] == "hangs did not finish in 0.1 s"
    assert "a scorer prints" in done.stderr


# Gates and exit codes


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--fail-under", "0.5"], 0, ""),
        (["--fail-under", "0.51"], 1, "tally: contains is 0.5; wanted is 0.51\n"),
        (["--fail-under", "50", "--formula", "success_pct"], 0, ""),
        (
            ["--fail-under", "51", "--formula", "success_pct"],
            1,
            "tally: success_pct is 50; wanted is 51\n",
        ),
        (
            ["--fail-under", "0", "--formula", "total_cost"],
            1,
            "tally: total_cost is undefined; wanted is 0\n",
        ),
    ],
)
def test_a_gate(arguments: list[str], code: int, said: str) -> None:
    done = tally(OWN, "-s", REFUNDED, *arguments)
    assert (done.returncode, done.stderr) == (code, said)


def test_a_scorer_that_scores_nothing_is_work_that_could_not_be_done() -> None:
    done = tally(OWN, "-s", "json_schema(schema={'type': 'object'})", "-s", "tool_selection")
    assert done.returncode == 3
    assert done.stderr.startswith("tally: tool_selection could not score anything: tool_selection")
    assert done.stdout.startswith("2 traces, 0 passed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([OWN], "name at least one scorer; as in: tally score traces.jsonl --scorer"),
        ([OWN, "-s", "contans"], "there is no scorer 'contans'; did you mean 'contains'?"),
        ([OWN, "-s", "latency"], "latency needs the options 'target', 'limit'"),
        ([OWN, "-s", "word_count", "-s", "word_count"], "more than one scorer is named"),
        (["nowhere.jsonl", "-s", "word_count"], "nowhere.jsonl: no such file or folder"),
        ([OWN, "-s", "word_count", "--format", "inspct"], "did you mean 'inspect'?"),
        ([OWN, "-s", "word_count", "--threshold", "7"], "threshold is 7.0; it must be"),
        ([OWN, "-s", "word_count", "--agent", "a:b"], "--agent is for suites in Python files"),
        ([OWN, "-s", "word_count", "-o", "out.txt"], "use a name that ends in .jsonl, .csv"),
        ([OWN, "x_eval.py", "-s", "word_count"], "give either traces or suites in Python files"),
        ([OWN, "-s", "word_count", "--expected", "no.jsonl"], "cannot read no.jsonl"),
        (["-", "-s", "word_count"], "there are no traces in -"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments: list[str], said: str) -> None:
    done = tally(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tally: ")
    assert said in done.stderr


def test_a_wrong_formula_is_shown_with_a_caret_before_anything_is_read() -> None:
    done = tally("nowhere.jsonl", "-s", "word_count", "--formula", "word_cont * 2")
    assert done.returncode == 2
    assert done.stderr == (
        "tally: column 1: unknown name 'word_cont'; did you mean 'word_count'?\n"
        "  word_cont * 2\n"
        "  ^^^^^^^^^\n"
    )


def test_a_broken_record_stops_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(Path(OWN).read_text() + "{broken\n")
    done = tally("t.jsonl", "-s", "word_count", "-o", "out.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "t.jsonl:3: not valid JSON" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_broken_records_are_skipped_when_asked(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{broken\n" * 7 + Path(OWN).read_text())
    done = tally("t.jsonl", "-s", "word_count", "--skip-broken", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert (json.loads(done.stdout)["traces"], json.loads(done.stdout)["broken"]) == (2, 7)
    assert done.stderr.count("tally: skipped t.jsonl:") == 5
    assert done.stderr.endswith("tally: skipped 2 more\n")


# Suites


def test_a_suite_in_a_file_is_run(suite: str) -> None:
    done = tally(suite, "--formula", "success_pct * polite")
    assert done.returncode == 0
    assert "desk: 2 of 2 passed, " in done.stdout
    assert done.stdout.endswith("\nsuccess_pct * polite = 100\n")


def test_failed_tests_fail_the_gate(suite: str) -> None:
    done = tally(suite, "--agent", f"{suite}:rude")
    assert done.returncode == 1
    assert "    polite 0.25 < 0.70\n" in done.stdout
    assert done.stderr == "tally: not every test of desk passed\n"


@pytest.mark.parametrize(("at_least", "code"), [("0.25", 0), ("0.26", 1)])
def test_fail_under_takes_the_place_of_failed_tests(suite: str, at_least: str, code: int) -> None:
    done = tally(suite, "--agent", f"{suite}:rude", "--fail-under", at_least)
    assert done.returncode == code


def test_a_suites_results_are_one_json_document_and_a_file(suite: str, tmp_path: Path) -> None:
    done = tally(suite, "--json", "--limit", "1", "-o", str(tmp_path / "out.jsonl"))
    document = json.loads(done.stdout)
    assert document["passed"] is True
    assert [result["name"] for result in document["suites"][0]["results"]] == ["one"]
    assert document["suites"][0]["score"] is None
    assert "the agent prints" in done.stderr
    (row,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (row["trace_id"], row["scores"]["polite"]["value"]) == ("desk/one#1", 1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scorer", "word_count"], "--scorer is for traces, not for suites"),
        (["--skip-broken"], "--skip-broken is for traces, not for suites"),
        (["--agent", "agent"], "'agent' does not name an agent"),
        (["--formula", "polit"], "unknown name 'polit'; did you mean 'polite'?"),
    ],
)
def test_what_does_not_fit_a_suite_is_refused(suite: str, arguments: list[str], said: str) -> None:
    done = tally(suite, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_file_that_is_not_there_is_refused() -> None:
    done = tally("no_eval.py")
    assert (done.returncode, done.stderr) == (2, "tally: there is no file no_eval.py\n")


def test_a_terminal_gets_progress_and_the_output_stays_clean(suite: str) -> None:
    code = (
        "import os, pty, subprocess, sys\n"
        "main, side = pty.openpty()\n"
        f"done = subprocess.run([{str(TALLY)!r}, 'score', {OWN!r}, '-s', 'word_count'],"
        " stdout=subprocess.PIPE, stderr=side)\n"
        "os.close(side)\n"
        "sys.stdout.write(done.stdout.decode())\n"
        "print('progress:', b'scoring' in os.read(main, 100000))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 traces, ")
    assert done.stdout.endswith("progress: True\n")


def test_ctrl_c_prints_the_results_so_far(tmp_path: Path) -> None:
    (tmp_path / "stop_eval.py").write_text(
        SUITE.replace(
            'print("the agent prints")',
            "import os, signal, time\n"
            "    if given != 'thanks':\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        time.sleep(60)",
        ).replace("scorers={", "parallelism=1, scorers={")
    )
    done = tally("stop_eval.py", cwd=tmp_path)
    assert done.returncode == 130
    assert "desk: 1 of 1 passed, " in done.stdout
    assert "stopped before 1 more" in done.stdout
