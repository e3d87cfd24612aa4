"""Env files, as shells and containers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.errors import InvalidInput
from tallymark.suites.env_file import read_env_file, set_environment


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A=b", "b"),
        (" A = b ", "b"),
        ("A=", ""),
        ("A=b=c", "b=c"),
        ("A=b # comment", "b"),
        ("A=b#c", "b#c"),
        ('A="b # c" # d', "b # c"),
        (r'A="b\n\"c\""', 'b\n"c"'),
        (r"A='b\n'", r"b\n"),
        ("A=é", "é"),
    ],
)
def test_values(tmp_path: Path, line: str, value: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"# comment\n\n{line}\n", encoding="utf-8")
    assert read_env_file(path) == {"A": value}


def test_the_last_of_two_values_counts(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nA=2\n")
    assert read_env_file(tmp_path / ".env") == {"A": "2"}


def test_every_broken_line_is_named_and_none_is_shown(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text('sekret one\nB="sekret\nC=fine\n2D=sekret\n')
    with pytest.raises(InvalidInput) as caught:
        read_env_file(path)
    assert [str(problem) for problem in caught.value.problems] == [
        f"{path}:1: expected NAME=value",
        f"{path}:2: the quote is never closed",
        f"{path}:4: expected NAME=value",
    ]
    assert "sekret" not in caught.value.render()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        read_env_file(tmp_path / "none")


FILE = {
    "OPENAI_API_KEY": "from-the-file",
    "ANTHROPIC_API_KEY": "from-the-file",
    "GROQ_API_KEY": "",
    "OPENAI_BASE_URL": "https://elsewhere.test",
    "HTTPS_PROXY": "https://elsewhere.test",
    "TALLY_KEY": "tly_x",
    "TALLY_SERVER": "https://elsewhere.test",
    "city": "Paris",
}


def test_a_file_that_nobody_named_gives_keys_and_no_addresses() -> None:
    environment = {"ANTHROPIC_API_KEY": "mine"}
    keys = set_environment(FILE, environment, keys_only=True)
    assert keys == {"OPENAI_API_KEY": "from-the-file"}
    assert environment == {"ANTHROPIC_API_KEY": "mine", "OPENAI_API_KEY": "from-the-file"}


def test_a_file_that_was_named_gives_all_that_the_environment_lacks() -> None:
    environment = {"ANTHROPIC_API_KEY": "mine"}
    keys = set_environment(FILE, environment, keys_only=False)
    assert list(keys) == ["OPENAI_API_KEY"]
    assert environment["OPENAI_BASE_URL"] == "https://elsewhere.test"
    assert (environment["ANTHROPIC_API_KEY"], environment["city"]) == ("mine", "Paris")
