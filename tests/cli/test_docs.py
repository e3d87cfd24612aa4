"""`tally docs`: what messages point to can be read wherever the package is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

SOURCE = Path(__file__).parents[2] / "src" / "tallymark"


def call(*arguments: str) -> str:
    done = Tally(Path())("docs", *arguments)
    assert done.returncode == 0
    return done.stdout


def test_it_lists_every_page_with_its_title() -> None:
    lines = call().splitlines()
    assert lines[0].split() == ["PAGE", "ABOUT"]
    assert re.search(r"^formulas +\S", "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize("name", ["formulas", "formulas.md"])
def test_it_prints_a_page(name: str) -> None:
    assert call(name).startswith("# ")


def test_a_page_that_is_not_there_is_suggested() -> None:
    for page, hint in (("formulae", "did you mean 'formulas'"), ("zzzz", "`tally docs` lists")):
        done = Tally(Path())("docs", page)
        assert done.returncode == 2
        assert hint in done.stderr


def test_every_page_that_a_message_names_is_there() -> None:
    named = {
        page
        for path in SOURCE.rglob("*")
        if path.suffix in {".py", ".yaml", ".jinja"}
        for page in re.findall(r"`tally docs ([a-z-]+)`", path.read_text(encoding="utf-8"))
    }
    assert named >= {"formulas"}
    for page in named:
        call(page)
