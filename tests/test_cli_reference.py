"""docs/cli.md is what the commands say of themselves today."""

from __future__ import annotations

from scripts.cli_reference import COMMANDS, PAGE, page, said


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_command_is_on_the_page() -> None:
    listed = said().partition("Commands:")[2].split("\n")
    names = {line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "}
    assert names == {name.split()[0] for name in COMMANDS}
