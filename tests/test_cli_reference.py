"""docs/cli.md is what the commands say of themselves today."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from scripts.cli_reference import COMMANDS, PAGE, ROOT, page
from tests import hints
from tests.cli.tally_process import Tally

from tallymark.cli.main import COMMANDS as TOP


@cache
def forked(*arguments: str) -> str:
    """The same as `said`, without a new interpreter for each of forty commands."""
    env = {"COLUMNS": "80", "TERM": "dumb"}
    return Tally(ROOT)(*arguments, "--help", env=env).stdout.strip()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(forked), "run `make docs`"


def test_every_command_is_on_the_page() -> None:
    # `tally runs` alone lists them: it is a command and a group.
    assert {*find_commands(), "runs"} == set(COMMANDS)


def find_commands(*group: str) -> list[str]:
    """Every command in a group, however deep."""
    inner = list_commands(*group)
    if not inner:
        return [" ".join(group)]
    return [name for each in inner for name in find_commands(*group, each)]


def list_commands(*group: str) -> list[str]:
    """What a group of commands says it has; none for a command."""
    if not group:
        return list(TOP)
    listed = forked(*group).partition("Commands:")[2].split("\n")
    return [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]


SHORT_FLAGS = {
    "-c": "--config",
    "-d": "--decision",
    "-f": "--file",
    "-h": "--help",
    "-k": "-k",
    "-m": "--model",
    "-n": "--limit",
    "-o": "--output",
    "-q": "--quiet",
    "-r": "--report",
    "-s": "--scorer",
    "-v": "--verbose",
    "-y": "--yes",
}


def find_options(command: Any) -> Iterator[Any]:
    """The options of a command, or of all in a group."""
    for each in getattr(command, "commands", {}).values():
        yield from find_options(each)
    yield from (each for each in command.params if each.param_type_name == "option")


def test_a_short_flag_means_the_same_wherever_it_is() -> None:
    for option in find_options(hints.command_tree()):
        for short in (each for each in option.opts if not each.startswith("--")):
            assert SHORT_FLAGS[short] in option.opts


def test_a_flag_takes_a_value_everywhere_or_nowhere() -> None:
    """`--quiet` cannot be a switch of one command and a number of seconds in another."""
    kinds: dict[str, set[bool]] = {}
    for option in find_options(hints.command_tree()):
        for name in option.opts:
            kinds.setdefault(name, set()).add(bool(option.is_flag))
    assert [name for name, kind in kinds.items() if len(kind) > 1] == []


def test_what_many_commands_have_is_called_the_same() -> None:
    """`--limit` has its short form wherever it is."""
    named = {"--limit": "-n", "--quiet": "-q", "--model": "-m", "--report": "-r", "--output": "-o"}
    for option in find_options(hints.command_tree()):
        for long, short in named.items():
            assert (long in option.opts) == (short in option.opts), option.opts
