"""docs/cli.md is what the commands say of themselves today."""

from __future__ import annotations

from scripts.cli_reference import COMMANDS, PAGE, ROOT, page, said
from tests.cli.tally_process import Tally


def forked(*arguments: str) -> str:
    """The same as `said`, without a new interpreter for each of forty commands."""
    env = {"COLUMNS": "80", "TERM": "dumb"}
    return Tally(ROOT)(*arguments, "--help", env=env).stdout.strip()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(forked), "run `make docs`"


def test_every_command_is_on_the_page() -> None:
    listed = said().partition("Commands:")[2].split("\n")
    names = {line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "}
    assert names == {name.split()[0] for name in COMMANDS}
