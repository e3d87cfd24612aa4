"""Links and devices in a submitted folder: they could be any file of this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges.challenge import Submission
from tallymark.challenges.submitted_files import read_answer
from tallymark.errors import InvalidInput

FILES = Submission(format="files")


def link_file(inside: Path, secret: Path) -> None:
    (inside / "notes.txt").symlink_to(secret)


def link_folder(inside: Path, secret: Path) -> None:
    (inside / "notes").symlink_to(secret.parent)


def link_hard(inside: Path, secret: Path) -> None:
    (inside / "notes.txt").hardlink_to(secret)


def link_to_nothing(inside: Path, secret: Path) -> None:
    (inside / "notes.txt").symlink_to(secret / "nowhere")


def make_pipe(inside: Path, _: Path) -> None:
    os.mkfifo(inside / "notes.txt")


def make_socket(inside: Path, _: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inside)  # a socket's whole path must be short
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("notes.txt")


Trick = Callable[[Path, Path], None]
LINKS = [link_file, link_folder, link_hard, link_to_nothing, make_pipe]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "truth.json"
    path.parent.mkdir()
    path.write_text("the truth", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "answer" / "deep"
    inside.mkdir(parents=True)
    (tmp_path / "answer" / "solution.py").write_text("x = 1", encoding="utf-8")
    return tmp_path / "answer"


@pytest.mark.parametrize("trick", LINKS)
def test_only_files_of_the_folder_itself_are_read(folder: Path, secret: Path, trick: Trick) -> None:
    trick(folder / "deep", secret)
    with pytest.raises(InvalidInput, match="a submission holds its own files"):
        read_answer(folder, FILES)


def test_a_socket_is_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_socket(folder / "deep", folder, monkeypatch)
    with pytest.raises(InvalidInput, match="a submission holds its own files"):
        read_answer(folder, FILES)


def test_a_file_that_becomes_a_link_while_it_is_read_is_not_followed(
    folder: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = os.stat

    def swap(name: str, **how: object) -> os.stat_result:
        """What was seen of the file is true no more when it is opened."""
        found = looked_at(name, **how)  # type: ignore[arg-type]
        if name == "solution.py":
            (folder / "solution.py").unlink()
            (folder / "solution.py").symlink_to(secret)
        return found

    monkeypatch.setattr(os, "stat", swap)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_answer(folder, FILES)


def test_hidden_links_are_left_out_with_all_that_is_hidden(folder: Path, secret: Path) -> None:
    (folder / ".git").symlink_to(secret.parent)
    assert read_answer(folder, FILES) == {"solution.py": "x = 1"}


def test_the_attempt_is_open_after_a_link_was_refused(
    tmp_path: Path, folder: Path, secret: Path
) -> None:
    text = """
        name: code
        goal: Write it.
        attempts: 1
        submission: {format: files}
        evaluator: {type: tests, cases: cases.yaml}
        scoring: {strategy: first}
    """
    cases = "[{name: one, call: one, value: 1}]"
    folder_with(tmp_path / "code", text, {"cases.yaml": cases})
    (folder / "solution.py").write_text("def one():\n    return 1\n", encoding="utf-8")
    link_file(folder, secret)
    tally = Tally(tmp_path)
    tally("challenge", "publish", "code")
    tally("attempt", "enter", "code", "--agent", "alice")
    submit = ("attempt", "submit", "a000000000001", "answer", "--agent", "alice")
    done = tally(*submit)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    (folder / "notes.txt").unlink()
    assert tally.json(*submit)["result"] == "win"
