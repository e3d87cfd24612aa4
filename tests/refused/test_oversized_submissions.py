"""More than may be sent: seen while reading, refused in one sentence, and never stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges import submitted_files, trajectory
from tallymark.challenges.challenge import Submission
from tallymark.challenges.submitted_files import read_answer, read_metadata, read_trajectory_text
from tallymark.errors import InvalidInput
from tallymark.service.competition import Competition
from tallymark.store import Store, open_store

SUMS = """
    name: sums
    goal: Add up.
    attempts: 1
    submission: {max_bytes: 1000}
    evaluator: {type: deterministic, truth: truth.json, fields: {sum: exact_match}}
    scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
"""
RIGHT = {"sum": 42}


def make_deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with open_store(empty_url) as opened:
        yield opened


@pytest.fixture
def games(store: Store, tmp_path: Path) -> Iterator[Competition]:
    competition = Competition(store)
    folder = folder_with(tmp_path / "sums", SUMS, {"truth.json": '{"sum": 42}'})
    competition.publish(folder)
    yield competition
    competition.close()


TOO_LARGE: dict[str, dict[str, Any]] = {
    "a long text": {"answer": {"sum": "4" * 1000}},
    "many values": {"answer": [0] * 1001},
    "long numbers": {"answer": [10**2000] * 3},
    "a deep answer": {"answer": make_deep(100)},
    "long metadata": {"answer": RIGHT, "metadata": {"x": "x" * 100_000}},
    "deep metadata": {"answer": RIGHT, "metadata": {"x": make_deep(100)}},
    "a long trajectory": {"answer": RIGHT, "trajectory": " " * (trajectory.MAX_BYTES + 1)},
    "objects by the million": {"answer": RIGHT, "trajectory": "{" * 1_000_001},
}


def test_what_is_too_large_is_not_stored_and_can_be_sent_again(games: Competition) -> None:
    attempt = games.enter("sums", "alice").attempt
    for what, sent in TOO_LARGE.items():
        with pytest.raises(InvalidInput):
            games.submit(attempt.id, "alice", **sent)
        assert games.store.attempts.get(attempt.id).state == "entered", what
        with pytest.raises(InvalidInput, match="nothing was submitted"):
            games.store.attempts.payload(attempt.id)
    assert games.submit(attempt.id, "alice", RIGHT).state == "scored"


def test_a_hundred_megabytes_leave_the_database_as_it_was(tmp_path: Path) -> None:
    folder_with(tmp_path / "sums", SUMS, {"truth.json": '{"sum": 42}'})
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(100_000_000)
    (tmp_path / "zeros.json").symlink_to("/dev/zero")
    tally = Tally(tmp_path)
    tally("challenge", "publish", "sums")
    tally("attempt", "enter", "sums", "--agent", "alice")
    kept = tmp_path / ".tally" / "tally.db"
    before = kept.stat().st_size
    submit = ("attempt", "submit", "a000000000001")
    for sent in (("huge.json",), ("zeros.json",), ("/dev/zero",)):
        done = tally(*submit, *sent, "--agent", "alice")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    done = tally(*submit, "-", "--agent", "alice", stdin=" " * 2000)
    assert "standard input is larger than 1,000 bytes" in done.stderr
    assert kept.stat().st_size == before
    (tmp_path / "right.json").write_text('{"sum": 42}', encoding="utf-8")
    assert tally(*submit, "right.json", "--agent", "alice").returncode == 0


FILES = Submission(format="files", max_bytes=1000)


def write_sparse(folder: Path) -> Path:
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**40)
    return folder / "sparse"


def make_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


@pytest.mark.parametrize(
    "make", [write_sparse, make_pipe, lambda _: Path("/dev/zero"), lambda _: Path("/dev/full")]
)
@pytest.mark.parametrize(
    "read", [lambda path: read_answer(path, Submission()), read_metadata, read_trajectory_text]
)
def test_what_has_no_end_is_not_read(
    tmp_path: Path, make: Callable[[Path], Path], read: Callable[[Path], Any]
) -> None:
    with pytest.raises(InvalidInput, match=r"larger than|no ordinary file"):
        read(make(tmp_path))


def test_a_deep_file_is_told_apart_from_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    for read in (lambda path: read_answer(path, Submission()), read_metadata):
        with pytest.raises(InvalidInput, match="nested too deeply"):
            read(tmp_path / "deep.json")


def test_the_files_of_a_folder_are_counted_together(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("x" * 501, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"larger than 1,000 bytes"):
        read_answer(tmp_path, FILES)


def test_a_folder_of_many_files_is_left_at_the_first_too_many(tmp_path: Path) -> None:
    for number in range(201):
        (tmp_path / f"{number:03}.txt").touch()
    with pytest.raises(InvalidInput, match="more than 200 files"):
        read_answer(tmp_path, FILES)


def test_hidden_files_are_not_read_and_still_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitted_files, "MAX_ENTRIES", 10)
    for number in range(10):
        (tmp_path / f".{number}").write_text("x" * 999, encoding="utf-8")
    assert read_answer(tmp_path, FILES) == {}
    (tmp_path / ".one-more").touch()
    with pytest.raises(InvalidInput, match="holds more than 10 files and folders"):
        read_answer(tmp_path, FILES)


def test_a_deep_folder_is_not_climbed_down(tmp_path: Path) -> None:
    (tmp_path / "/".join("x" * 30)).mkdir(parents=True)
    with pytest.raises(InvalidInput, match="deeper than 16 levels"):
        read_answer(tmp_path, FILES)
