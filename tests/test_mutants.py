"""The list of mutants fits the code, and a trial of one says what happened; `make proof` does all.

When code of `find` has changed: make the same mistake in the new code, or take it out if nobody can
make it any more.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from scripts import mutants
from scripts.mutants import Mutant, load_mutants, try_mutants

ROOT = Path(__file__).parents[1]
LISTED = load_mutants()
ROOMS = (
    "runs/",
    "ratings/",
    "formula/",
    "dimensions/",
    "scoring/",
    "challenges/strategies.py",
    "store/contests/boards.py",
    "store/contests/board_rows.py",
)


def names(listed: list[Mutant]) -> list[str]:
    return [mutant.name for mutant in listed]


@cache
def list_tests(path: Path) -> set[str]:
    """As pytest names them: `test_x`, `TestY::test_z`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inside = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}::{each.name}" for each in inside}
    return found


def test_there_are_many_each_with_a_name_of_its_own() -> None:
    assert len(LISTED) >= 40
    assert len(set(names(LISTED))) == len(LISTED)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_where_numbers_are_made_is_left_out(room: str) -> None:
    assert sum(mutant.file.startswith(room) for mutant in LISTED) >= 2


@pytest.mark.parametrize("mutant", LISTED, ids=names(LISTED))
def test_a_mutant_fits_the_code_and_names_tests_that_exist(mutant: Mutant) -> None:
    ast.parse(mutant.mutate())
    assert mutant.find != mutant.replace
    assert mutant.why.endswith(".")
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert name.partition("[")[0] in list_tests(ROOT / path)


SAMPLE = Mutant("sample", "sums.py", "a + b", "a - b", "Sums would be wrong.", ("test_sums.py",))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one file."""
    (tmp_path / "tallymark").mkdir()
    (tmp_path / "tallymark" / SAMPLE.file).write_text("def add(a, b):\n    return a + b\n")
    monkeypatch.setattr(mutants, "SOURCE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("sound", "changed", "verdict", "said"),
    [
        (0, 1, "killed", "changed"),
        (0, 0, "survived", "changed"),
        (0, 2, "no proof", "changed"),  # such as: it cannot be imported
        (0, -1, "no proof", "changed"),  # it hangs
        (1, 1, "no proof", "its tests fail without it: sound"),
        (5, 1, "no proof", "its tests fail without it: sound"),  # there are none
    ],
)
def test_only_a_test_that_fails_by_the_change_kills(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    sound: int,
    changed: int,
    verdict: str,
    said: str,
) -> None:
    def run(copy: Path, tests: tuple[str, ...]) -> tuple[int, str]:
        assert copy != source
        text = (copy / "tallymark" / SAMPLE.file).read_text(encoding="utf-8")
        return (changed, "changed") if SAMPLE.replace in text else (sound, "sound")

    monkeypatch.setattr(mutants, "_run_tests", run)
    (trial,) = try_mutants([SAMPLE], lambda _: None)
    assert (trial.verdict, trial.said) == (verdict, said)
    assert "a + b" in (source / "tallymark" / SAMPLE.file).read_text(encoding="utf-8")


@pytest.mark.parametrize(("find", "times"), [("a * b", 0), ("a", 3)])
def test_what_does_not_fit_exactly_once_is_refused(source: Path, find: str, times: int) -> None:
    mutant = replace(SAMPLE, find=find)
    with pytest.raises(ValueError, match=rf"the text to find is {times} times in sums\.py"):
        mutant.mutate(source)
