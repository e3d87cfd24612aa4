"""`tally docs`: what messages point to can be read wherever the package is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tallymark.cli.main import app
from tallymark.errors import InvalidInput

SOURCE = Path(__file__).parents[2] / "src" / "tallymark"


def call(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["docs", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_it_lists_every_page_with_its_title() -> None:
    lines = call().splitlines()
    assert lines[0].split() == ["Page", "About"]
    assert re.search(r"^formulas +\S", "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize("name", ["formulas", "formulas.md"])
def test_it_prints_a_page(name: str) -> None:
    assert call(name).startswith("# ")


def test_a_page_that_is_not_there_is_suggested() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'formulas'"):
        call("formulae")
    with pytest.raises(InvalidInput, match="`tally docs` lists them"):
        call("zzzzzz")


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
