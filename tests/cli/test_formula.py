"""`tally formula`, as a user runs it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import TALLY, Tally


def tally(*arguments: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
    text = stdin if isinstance(stdin, str) else stdin.decode("utf-8", "surrogateescape")
    return Tally(Path.cwd())(*arguments, stdin=text)


def test_check_says_what_a_formula_can_give() -> None:
    done = tally("formula", "check", "success_pct / total_cost")
    assert done.returncode == 0
    assert done.stdout == (
        "valid    success_pct / total_cost\n"
        "uses     success_pct, total_cost\n"
        "warning  column 15: can divide by zero: when total_cost is 0; guard it with\n"
        "         max(total_cost, 0.0001)\n"
        "           success_pct / total_cost\n"
        "                         ^^^^^^^^^^\n"
        "note     the score is at least 0, with no known upper bound\n"
    )


def test_check_knows_the_evals_it_is_told() -> None:
    done = tally("formula", "check", "-a-b + a_cost", "--name", "a-b", "--name", "a", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["names"] == ["a-b", "a_cost"]


def test_check_refuses_with_a_caret_on_stderr() -> None:
    done = tally("formula", "check", "success_pct / total_cst")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tally: column 15: unknown name 'total_cst'; did you mean 'total_cost'?\n"
        "  success_pct / total_cst\n"
        "                ^^^^^^^^^\n"
    )


def test_check_refuses_in_json_too() -> None:
    done = tally("formula", "check", "1 +", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 2
    assert report["valid"] is False
    assert report["problems"][0]["place"]["column"] == 4


def test_a_formula_comes_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    (tmp_path / "score.txt").write_text("success_pct *\n 2\n")
    for done in (
        tally("formula", "check", "--file", str(tmp_path / "score.txt")),
        tally("formula", "check", "-", stdin="success_pct * 2"),
    ):
        assert done.stdout.startswith("valid    success_pct * 2\n")


def test_explain_puts_values_in() -> None:
    arguments = ["--set", "a=1", "--set", "b=0", "--set", "total_cost=0.5"]
    done = tally("formula", "explain", "(a * 3 + b * 2) / total_cost", *arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("(a * 3 + b * 2) / total_cost = 6.00\n")
    assert "a * 3  6.00  100.0%" in done.stdout


def test_explain_says_why_there_is_no_score() -> None:
    arguments = ["formula", "explain", "success_pct / total_cost", "--set", "success_pct=80"]
    done = tally(*arguments, "--set", "total_cost=null", "--json")
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["score"] is None
    assert report["score_error"] == "total_cost has no value"


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["check"], "", "give one formula; as in: tally formula check"),
        (["check", "1", "--file", "x"], "", "give one formula"),
        (["check", "--file", "/nowhere/x"], "", "cannot read /nowhere/x: No such file"),
        (["check", "--file", "/"], "", "cannot read /: Is a directory"),
        (["check", "-"], "", "the formula is empty"),
        (["check", "-"], b"\xff\xfe", "standard input is not UTF-8 text"),
        (["check", "max", "--name", "max"], "", "eval name 'max' is reserved"),
        (["explain", "a", "--set", "a"], "", "--set 'a' does not give a name a number"),
        (["explain", "a", "--set", "a=x"], "", "--set 'a=x' does not give a name a number"),
        (["explain", "a", "--set", "a b=1"], "", "name 'a b' has a character"),
        (["check", "1", "--nonsense"], "", ""),
        (["chek", "1"], "", "no such command 'chek'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], stdin: str | bytes, message: str
) -> None:
    done = tally("formula", *arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{TALLY} formula check 'success_pct / total_cost' | true"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    assert done.stderr == b""


@pytest.mark.proof
@pytest.mark.parametrize("arguments", [["--help"], ["formula", "check", "success_pct"]])
def test_it_starts_quickly(arguments: list[str]) -> None:
    """Under 0.3 s of CPU where starting Python alone takes 0.015 s; measured as that ratio."""

    def cpu(*command: str | Path) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    python = min(cpu(sys.executable, "-c", "") for _ in range(5))
    assert min(cpu(TALLY, *arguments) for _ in range(5)) < 20 * python


def test_numpy_is_not_loaded_for_a_check() -> None:
    code = (
        "import sys, tallymark.cli.main, tallymark.formula as f;"
        "f.Formula.parse('success_pct').lint(); f.Formula.parse('1').evaluate({});"
        "sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("formula", ["-success_pct", "-name * 2", "-foo - 1", "--total_cost"])
def test_a_formula_may_start_with_a_minus(formula: str) -> None:
    done = tally("formula", "check", formula, "--name", "name", "--name", "foo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"valid    {formula}\n")


def test_one_that_starts_with_a_minus_is_explained_with_values() -> None:
    for words in (
        ("-success_pct", "--set", "success_pct=5"),
        ("--set", "success_pct=5", "-success_pct"),
    ):
        assert tally("formula", "explain", *words).stdout.startswith("-success_pct = -5.00\n")


def test_an_option_that_does_not_exist_is_no_formula() -> None:
    done = tally("formula", "check", "--jsn", "success_pct")
    assert done.returncode == 2
    assert "no such option" in done.stderr


def test_explain_refuses_in_json_too() -> None:
    done = tally("formula", "explain", "foo", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["problems"][0]["message"] == "unknown name 'foo'"


@pytest.mark.parametrize("formula", ["success_pct", "-success_pct"])
@pytest.mark.parametrize("command", [["check"], ["explain", "--set", "success_pct=2"]])
def test_two_hyphens_end_the_options(command: list[str], formula: str) -> None:
    done = tally("formula", *command, "--", formula)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == tally("formula", *command, formula).stdout
