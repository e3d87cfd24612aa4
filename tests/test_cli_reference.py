"""docs/cli.md is what the commands say of themselves today."""

from __future__ import annotations

from functools import cache

from scripts.cli_reference import COMMANDS, PAGE, ROOT, page
from tests.cli.tally_process import Tally


@cache
def forked(*arguments: str) -> str:
    """The same as `said`, without a new interpreter for each of forty commands."""
    env = {"COLUMNS": "80", "TERM": "dumb"}
    return Tally(ROOT)(*arguments, "--help", env=env).stdout.strip()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(forked), "run `make docs`"


def test_every_command_is_on_the_page() -> None:
    assert set(find_commands()) == set(COMMANDS)


def find_commands(*group: str) -> list[str]:
    """Every command in a group, however deep."""
    inner = list_commands(*group)
    if not inner:
        return [" ".join(group)]
    return [name for each in inner for name in find_commands(*group, each)]


def list_commands(*group: str) -> list[str]:
    """What a group of commands says it has; none for a command."""
    listed = forked(*group).partition("Commands:")[2].split("\n")
    return [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]
