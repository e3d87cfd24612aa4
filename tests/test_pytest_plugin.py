"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EVALS = """
from tallymark import Suite, Test, scorer

@scorer(blocking=False)
def polite(ctx):
    return {"value": 1.0 if "thanks" in ctx.output else 0.25, "reason": "Looked for thanks"}

def agent(given):
    if given == "boom":
        raise ValueError("no connection")
    return given

suite = Suite(
    "desk",
    [Test("says thanks", "thanks!"), Test("is rude", "no"), Test("breaks", "boom")],
    scorers={"polite": polite},
)

def test_an_ordinary_test():
    assert agent("x") == "x"
"""


def pytest_in(folder: Path, *arguments: str) -> list[str]:
    """The lines that pytest prints, with the plugin and without any other."""
    command = [sys.executable, "-m", "pytest", "-p", "tallymark.pytest_plugin"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-W", "error", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "100"},
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk_eval.py").write_text(EVALS)
    return tmp_path


@pytest.mark.parametrize("where", [".", "desk_eval.py"])
def test_each_test_is_an_item(folder: Path, where: str) -> None:
    lines = pytest_in(folder, "-v", "--no-header", where)
    assert [line.partition(" [")[0].strip() for line in lines if line.startswith("desk_eval")] == [
        "desk_eval.py::desk::says thanks PASSED",
        "desk_eval.py::desk::is rude FAILED",
        "desk_eval.py::desk::breaks ERROR",
        "desk_eval.py::test_an_ordinary_test PASSED",
    ]


def test_a_failure_shows_scorers_values_thresholds_and_reasons(folder: Path) -> None:
    lines = pytest_in(folder, ".")
    assert "polite: 0.25 (needs 0.7): Looked for thanks" in lines
    assert "the agent was asked 'no' and answered 'no'" in lines
    assert not any("Traceback" in line or "pytest_plugin.py" in line for line in lines)


def test_what_could_not_be_judged_is_an_error(folder: Path) -> None:
    lines = pytest_in(folder, ".")
    at = next(n for n, line in enumerate(lines) if "ERROR at setup of desk::breaks" in line)
    assert (
        lines[at + 1] == "the agent raised ValueError: no connection (at desk_eval.py:10 in agent)"
    )
    assert "1 failed, 2 passed, 1 error" in lines[-1]


def test_one_test_can_be_chosen(folder: Path) -> None:
    assert "1 passed" in pytest_in(folder, "desk_eval.py::desk::says thanks")[-1]
    assert "1 failed" in pytest_in(folder, "-k", "rude")[-1]


def test_every_epoch_must_pass_and_tells_its_number(tmp_path: Path) -> None:
    (tmp_path / "epochs_eval.py").write_text(
        "from tallymark import Suite, Test, scorer\n"
        "from tallymark.testing import FakeAgent\n"
        "yes = scorer(name='yes')(lambda ctx: 'yes' in ctx.output)\n"
        "agent = FakeAgent(['yes', 'no', 'yes'])\n"
        "suite = Suite('s', [Test('t', 'a', scorer=yes)], epochs=3, parallelism=1)\n"
    )
    lines = pytest_in(tmp_path)
    assert "epoch 2: yes: 0 (needs 0.7)" in lines
    assert not any(line.startswith("epoch 1") for line in lines)


def test_a_suite_without_an_agent_says_so(tmp_path: Path) -> None:
    code = EVALS.replace("def agent(given)", "def other(given)").partition("def test_")[0]
    (tmp_path / "desk_eval.py").write_text(code)
    lines = pytest_in(tmp_path)
    assert any(line.startswith("suite 'desk' has no agent to run") for line in lines)


@pytest.mark.parametrize(
    ("where", "suite"),
    [
        (".", "suite = Suite('borrowed', [Test('is rude', 'no')], scorers={'polite': polite})"),
        ("borrowed_eval.py", "suite = make('borrowed', [Test('is rude', 'no')])"),
    ],
)
def test_a_suite_that_names_us_nowhere_is_found_by_its_class_or_its_file(
    tmp_path: Path, where: str, suite: str
) -> None:
    mine = "\ndef make(name, tests):\n    return Suite(name, tests, scorers={'polite': polite})\n"
    (tmp_path / "desk.py").write_text(EVALS + mine)
    (tmp_path / "borrowed_eval.py").write_text(f"from desk import *\n{suite}\n")
    lines = pytest_in(tmp_path, "-v", "--no-header", where)
    assert any("borrowed_eval.py::borrowed::is rude FAILED" in line for line in lines), lines


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other_eval.py").write_text("raise SystemExit('imported')")
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass")
    assert "1 passed" in pytest_in(tmp_path)[-1]


def test_a_plain_run_loads_nothing_else_of_it() -> None:
    code = "import pytest, sys; had = set(sys.modules); import tallymark.pytest_plugin; "
    code += "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - had}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tallymark\n"


def test_plugins_of_the_plugin_document_can_be_tested(tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text(
        "from services.challenge_scorer_protocol import ScoringResult\n"
        "from services.scorers.weighted import WeightedScorer\n"
    )
    (tmp_path / "test_scorer.py").write_text(
        "import scorer\n"
        "def test_names():\n"
        "    assert scorer.ScoringResult.__module__ == 'tallymark.scoring.plugin_contract'\n"
        "    assert scorer.WeightedScorer.__module__ == 'tallymark.scoring.weighted_scorer'\n"
    )
    assert "1 passed" in pytest_in(tmp_path)[-1]


@pytest.mark.parametrize("regular", [True, False], ids=["regular", "namespace"])
def test_a_users_own_package_services_comes_first(tmp_path: Path, *, regular: bool) -> None:
    own = tmp_path / "services"
    own.mkdir()
    (own / "billing.py").write_text("mine = True")
    (own / "challenge_scorer_protocol.py").write_text("mine = True")
    if regular:
        (own / "__init__.py").touch()
    (tmp_path / "test_mine.py").write_text(
        "from services.billing import mine\n"
        "from services.challenge_scorer_protocol import mine as protocol\n"
        "from services.scorers.weighted import WeightedScorer\n"
        "def test_mine():\n    assert mine and protocol\n"
    )
    assert "1 passed" in pytest_in(tmp_path)[-1]
