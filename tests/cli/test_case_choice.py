"""`--only`, `--tag`, `--failed-of` and `--prompt`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import Tally

SUITE = """
metadata: {name: words, model: echo/x}
evals:
  - name: good
    prompt: good
    tags: [first]
    checks: [{match: good}]
  - name: bad
    prompt: bad
    checks: [{match: good}]
  - prompt: Also bad, and unnamed
    checks: [{match: good}]
"""
PYTHON = """
from tallymark import Suite, Test, scorer

@scorer
def good(ctx):
    return float(ctx.output == "good")

def agent(given):
    return given

one = Suite("one", [Test("a", "good", tags=["first"]), Test("b", "bad")],
            scorers={"good": good}, formula="a + b")
two = Suite("two", [Test("c", "good")], scorers={"good": good})
"""
TRACES: list[dict[str, Any]] = [
    {"trace_id": "t-1", "name": "refund", "metadata": {"tags": ["first"]}, "spans": ["good"]},
    {"trace_id": "t-2", "name": "refund", "spans": ["bad"]},
    {"name": "other", "spans": ["bad"]},
]
"""Each span stands for a generation with this output."""


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    (tmp_path / "words.yaml").write_text(SUITE)
    (tmp_path / "my_eval.py").write_text(PYTHON)
    lines = []
    for trace in TRACES:
        span = {"span_id": "1", "span_type": "generation", "output": trace["spans"][0]}
        lines.append(json.dumps({**trace, "spans": [span]}))
    (tmp_path / "traces.jsonl").write_text("\n".join(lines))
    return Tally(tmp_path)


def test_the_failed_cases_of_a_run(tally: Tally) -> None:
    tally("run", "words.yaml")
    again = tally("run", "words.yaml", "--failed-of", "latest", "--json")
    (run,) = json.loads(again.stdout)["runs"]
    assert [each["case"] for each in run["results"]] == ["bad", "#3"]
    before = run["tags"]["chosen"]["failed_of"]
    text = (tally.folder / "words.yaml").read_text()
    (tally.folder / "words.yaml").write_text(text.replace("name: bad", "name: other"))
    less = tally("run", "words.yaml", "--failed-of", before[:-1])
    gone = f"tally: 1 of the 2 cases that failed in {before} are not in the suite now: bad\n"
    assert less.stderr.startswith(gone)
    assert f"Cases: 1 of 3, chosen by --failed-of {before}" in less.stdout


def test_where_nothing_failed_there_is_nothing_to_run(tally: Tally) -> None:
    """That is what everybody hopes for, so it is no failure."""
    tally("run", "words.yaml", "--only", "good")
    none = tally("run", "words.yaml", "--failed-of", "latest", "--fail-under", "90", "--json")
    assert none.returncode == 0
    assert json.loads(none.stdout) == {"runs": []}
    assert "tally: nothing failed in the run" in none.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "god"), "tally: --only god: no case has this name; did you mean 'good'?\n"),
        (("--tag", "frist"), "tally: --tag frist: no eval has this tag; did you mean 'first'?\n"),
        (("--prompt", "x"), "tally: --prompt x: the suite has no prompts to choose from\n"),
        (("--failed-of", "nope"), "tally: nothing is stored at"),
    ],
)
def test_what_chooses_nothing_is_one_sentence(
    tally: Tally, arguments: tuple[str, ...], said: str
) -> None:
    done = tally("run", "words.yaml", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert not list(tally.folder.glob(".tally/*"))


def test_a_run_that_goes_on_is_not_chosen_from(tally: Tally) -> None:
    done = tally("run", "--resume", "latest", "--only", "good")
    assert done.returncode == 2
    assert done.stderr.startswith("tally: --only is for new runs: a resumed run keeps the cases")


def test_a_gate_does_not_pass_on_a_score_that_a_part_cannot_have(tally: Tally) -> None:
    with (tally.folder / "words.yaml").open("a") as file:
        file.write("score: 100 * good + bad\n")
    done = tally("run", "words.yaml", "--only", "good", "--fail-under", "1")
    assert done.returncode == 1
    assert "echo/x has no score, which counts as under 1: bad has no value" in done.stderr
    assert "the eval 'bad' was not chosen" in done.stderr


def test_suites_in_python(tally: Tally) -> None:
    (run,) = json.loads(tally("score", "my_eval.py", "--tag", "first", "--json").stdout)["runs"]
    assert [each["case"] for each in run["results"]] == ["a"]
    assert (run["score"], run["tags"]["chosen"]["of"]) == (None, 2)
    assert run["score_error"] == "b has no value; the eval 'b' was not chosen"
    # Of several suites, those that have such a test.
    both = json.loads(tally("score", "my_eval.py", "--only", "?", "--json").stdout)
    assert [len(each["results"]) for each in both["runs"]] == [2, 1]
    first = both["runs"][0]["id"]
    (failed,) = json.loads(tally("score", "my_eval.py", "--failed-of", first, "--json").stdout)[
        "runs"
    ]
    assert [each["case"] for each in failed["results"]] == ["b"]
    assert failed["definition_hash"] == both["runs"][0]["definition_hash"]
    wrong = tally("score", "my_eval.py", "--only", "zebra")
    assert wrong.stderr == "tally: --only zebra: no case has this name; there are a, b, c\n"


def test_traces(tally: Tally) -> None:
    command = ("score", "traces.jsonl", "-s", "contains(values=['good'])")

    def cases(*arguments: str) -> list[str]:
        (run,) = json.loads(tally(*command, *arguments, "--json").stdout)["runs"]
        return [each["case"] for each in run["results"]]

    assert cases() == ["refund[t-2]", "other[3]", "refund[t-1]"]
    assert cases("--failed-of", "latest") == ["refund[t-2]", "other[3]"]
    assert cases("--only", "refund") == ["refund[t-2]", "refund[t-1]"]
    assert cases("--only", "other[3]") == ["other[3]"]  # its number among all
    assert cases("--tag", "first") == ["refund[t-1]"]
    wrong = tally(*command, "--only", "refnd")
    assert wrong.returncode == 2
    assert wrong.stderr == "tally: no trace is chosen by --only refnd; did you mean 'refund'?\n"
