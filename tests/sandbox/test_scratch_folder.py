"""A scratch folder that a hostile program has left: read with care, counted, removed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tallymark.sandbox.scratch_folder import (
    MOST_ENTRIES,
    collect_files,
    is_overfull,
    lay_file,
    remove_folder,
)


def test_what_is_laid_in_can_be_collected(tmp_path: Path) -> None:
    lay_file(tmp_path, "a/b/c.txt", b"content")
    assert collect_files(tmp_path, ["a/b/c.txt", "missing", "a/missing"], 100) == (
        {"a/b/c.txt": b"content"},
        {},
    )


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


TRAPS: dict[str, tuple[Callable[[Path], None], str]] = {
    "link to a file": (lambda path: path.symlink_to("/etc/passwd"), "without following links"),
    "link to itself": (lambda path: path.symlink_to(path), "without following links"),
    "pipe": (os.mkfifo, "not an ordinary file"),
    "socket": (_socket, "cannot be read"),
    "folder": (Path.mkdir, "not an ordinary file"),
    "huge file": (_sparse, "it has 1099511627776 bytes, 1000 were left"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_only_ordinary_files_of_fair_size_are_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, why = TRAPS[name]
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    make(Path("kept"))
    kept, refused = collect_files(tmp_path, ["kept"], 1000)
    assert kept == {}
    assert why in refused["kept"]


def test_no_link_on_the_way_is_followed(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    kept, refused = collect_files(tmp_path, ["out/passwd"], 10**6)
    assert kept == {}
    assert "without following links" in refused["out/passwd"]


def test_files_share_one_allowance(tmp_path: Path) -> None:
    lay_file(tmp_path, "a", b"x" * 60)
    lay_file(tmp_path, "b", b"x" * 60)
    kept, refused = collect_files(tmp_path, ["a", "b"], 100)
    assert list(kept) == ["a"]
    assert refused == {"b": "it has 60 bytes, 40 were left"}


def test_bytes_and_entries_make_it_overfull(tmp_path: Path) -> None:
    lay_file(tmp_path, "a/b", b"x" * 100_000)
    assert not is_overfull(tmp_path, 200_000)
    assert is_overfull(tmp_path, 50_000)
    for number in range(MOST_ENTRIES):
        os.mkdir(tmp_path / str(number))  # noqa: PTH102 (quick)
    assert is_overfull(tmp_path, 10**9)


def test_a_sparse_file_counts_what_it_holds(tmp_path: Path) -> None:
    _sparse(tmp_path / "sparse")
    assert not is_overfull(tmp_path, 10**6)


def test_a_folder_deeper_than_any_path_counts_as_overfull_and_goes_away(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=at)
        below = os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert is_overfull(top, 10**9)
    remove_folder(top)
    assert list(tmp_path.iterdir()) == []


def test_clearing_follows_no_links_and_opens_closed_folders(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    lay_file(tmp_path, "outside/precious", b"")
    top = tmp_path / "top"
    lay_file(top, "closed/inner/file", b"")
    (top / "link").symlink_to(outside)
    (top / "closed" / "link").symlink_to(outside)
    for folder in ("closed/inner", "closed"):
        (top / folder).chmod(0)
    remove_folder(top)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["outside", "precious"]
