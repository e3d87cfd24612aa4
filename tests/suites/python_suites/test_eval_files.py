"""Suites and agents in Python files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.errors import InvalidInput
from tallymark.suites import run
from tallymark.suites.python_suites.eval_files import load_agent, load_suites

SUITES = """
from tallymark import Suite, Test, scorer

@scorer(blocking=False)
def yes(ctx):
    return "yes" in ctx.output

def agent(given):
    return "yes"

def other(given):
    return "no"

first = Suite("first", [Test("t", scorer=yes)])
second = Suite("second", [Test("t", scorer=yes)], agent=other)
again = first
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_eval.py"
    path.write_text(SUITES)
    return path


def test_a_files_suites_come_once_each_with_an_agent(file: Path) -> None:
    suites = load_suites(file)
    assert [suite.name for suite in suites] == ["first", "second"]
    assert [run(suite).passed for suite in suites] == [True, False]


def test_a_file_without_suites_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty_eval.py").write_text("x = 1")
    with pytest.raises(InvalidInput, match=r"empty_eval\.py has no suite; put a Suite at the top"):
        load_suites(tmp_path / "empty_eval.py")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero (at bad_eval.py:1)"),
        (
            "from tallymark import *\nSuite('s', [Test('t', scorers=['contans'])])",
            "there is no scorer 'contans'; did you mean 'contains'? (at bad_eval.py:2)",
        ),
        ("import json\njson.loads('{')", "(char 1) (at bad_eval.py:2)"),
    ],
)
def test_a_file_that_cannot_be_imported_says_why(tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "bad_eval.py").write_text(code)
    with pytest.raises(InvalidInput) as error:
        load_suites(tmp_path / "bad_eval.py")
    assert said in str(error.value)


def test_an_agent_is_found_by_its_reference(file: Path) -> None:
    assert load_agent(f"{file}:other")("x") == "no"
    assert load_agent("json:dumps")({}) == "{}"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("agent", "'agent' does not name an agent; write file.py:function or module:function"),
        ("{file}:agnt", "has no function 'agnt'; did you mean 'agent'?"),
        ("{file}:first", "has no function 'first'"),
        ("no_such_module:agent", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("no_such.py:agent", "there is no file no_such.py"),
    ],
)
def test_an_agent_that_is_not_there_is_refused(file: Path, reference: str, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load_agent(reference.format(file=file))
    assert said in str(error.value)
