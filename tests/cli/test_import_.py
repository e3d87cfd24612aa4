"""`tally import`: what is written runs, and what was left out is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

CONFIG = """
prompts: ["Say {{word}}"]
providers: [echo]
tests:
  - description: says it
    vars: {word: hello}
    assert: [{type: contains, value: hello}, {type: javascript, value: "true"}]
  - vars: {word: bye}
    assert: [{type: contains, value: Bye}]
"""
LEFT_OUT = "promptfooconfig.yaml:7: the assertion javascript: there is no check like it"


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    (tmp_path / "promptfooconfig.yaml").write_text(CONFIG)
    return Tally(tmp_path)


def test_what_is_written_runs(tally: Tally) -> None:
    done = tally("import", "promptfooconfig.yaml")
    assert done.returncode == 0
    assert done.stderr == (
        f"not converted: {LEFT_OUT}\n"
        "1 of 2 evals has assertions that were not converted; "
        "such an eval cannot pass until you replace its `todo` with a check\n"
    )
    name = "promptfooconfig.suite.yaml"
    assert done.stdout == f"wrote {name}: 2 evals; run it with: tally run {name}\n"
    assert tally("validate", name).returncode == 0
    (run,) = tally.json("run", name)["runs"]
    assert (run["passed"], run["failed"], run["errors"]) == (0, 1, 1)
    assert run["model"] == "echo/prompt"


def test_a_gate_does_not_pass_on_what_was_not_carried_over(tally: Tally) -> None:
    config = CONFIG.replace("value: Bye", "value: bye")
    (tally.folder / "promptfooconfig.yaml").write_text(config)
    tally("import", "promptfooconfig.yaml", "-o", "suite.yaml")
    done = tally("run", "suite.yaml", "--fail-under", "80")
    assert done.returncode == 1
    assert "Gate: failed: 1 of 2 results of echo/prompt could not run" in done.stdout
    assert "cases that cannot pass until a check is written" in done.stderr
    again = tally("rescore", "latest", "--suite", "suite.yaml")
    assert "(1 passed, 0 failed, 1 error)" in again.stdout
    assert "todo: could not be done: a check is still to be written" in again.stdout


def test_it_answers_json(tally: Tally) -> None:
    told = tally.json("import", "promptfooconfig.yaml", "-o", "new/suite.yaml")
    (left_out,) = told.pop("left_out")
    assert told == {"suite": "new/suite.yaml", "evals": 2, "cannot_pass": 1}
    assert (left_out["place"]["line"], left_out["message"]) == (7, LEFT_OUT.partition(": ")[2])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.yaml"], "there is no file gone.yaml"),
        (["config.js"], "config.js is a program, which is not run"),
        (["promptfooconfig.yaml", "-o", "promptfooconfig.yaml"], "exists already"),
        (["other.yaml"], "other.yaml is neither of promptfoo nor of Inspect"),
    ],
)
def test_what_is_refused(tally: Tally, arguments: list[str], said: str) -> None:
    (tally.folder / "config.js").write_text("module.exports = {}")
    (tally.folder / "other.yaml").write_text("evals: []")
    done = tally("import", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
