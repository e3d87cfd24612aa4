"""A challenge's folder: its version, and packing it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges import challenge_folder as folders
from tallymark.challenges.challenge_folder import (
    find_name_problem,
    hash_files,
    hash_folder,
    pack,
    read_files,
    unpack,
)
from tallymark.errors import InvalidInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "challenge"
    (place / "data").mkdir(parents=True)
    (place / "challenge.yaml").write_text("name: x")
    (place / "data" / "log.txt").write_bytes(b"\x00\xff")
    return place


def test_what_is_packed_comes_out_again(folder: Path, tmp_path: Path) -> None:
    unpack(pack(folder), tmp_path / "copy")
    assert read_files(tmp_path / "copy") == read_files(folder)
    assert hash_folder(tmp_path / "copy") == hash_folder(folder)


def test_packing_again_gives_the_same_bytes(folder: Path) -> None:
    first = pack(folder)
    os.utime(folder / "challenge.yaml", (1, 1))
    assert pack(folder) == first


def ignored(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / ".hidden").write_text("x")


def test_hidden_files_and_caches_are_no_part_of_it(folder: Path) -> None:
    before = hash_folder(folder)
    ignored(folder)
    assert hash_folder(folder) == before
    assert list(read_files(folder)) == ["challenge.yaml", "data/log.txt"]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "challenge.yaml").write_text("name: y"),
        lambda folder: (folder / "new").write_text(""),
        lambda folder: (folder / "data" / "log.txt").rename(folder / "log.txt"),
    ],
    ids=["content", "new-file", "name"],
)
def test_any_change_is_a_new_version(folder: Path, change: Callable[[Path], object]) -> None:
    before = hash_folder(folder)
    change(folder)
    assert hash_folder(folder) != before


@given(st.dictionaries(st.text("ab/", min_size=1), st.binary(max_size=4), max_size=3))
def test_the_version_tells_names_from_contents(files: dict[str, bytes]) -> None:
    """Moving bytes between names and contents never gives the same hash."""
    moved = {name + "a": content for name, content in files.items()}
    assert (hash_files(moved) == hash_files(files)) == (moved == files)


def test_links_are_refused(folder: Path) -> None:
    (folder / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(InvalidInput, match="passwd is a link"):
        pack(folder)


def test_a_pipe_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidInput, match="pipe is neither a file nor a folder"):
        hash_folder(folder)


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_FILES"])
def test_what_is_too_large_is_refused(
    folder: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, limit, 1)
    with pytest.raises(InvalidInput, match="is larger than"):
        pack(folder)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "a/../b",
        "a//b",
        "../a",
        ".b",
        "a/.b",
        "a\\b",
        "C:b",
        "\n",
        "x" * 241,
        "é" * 121,
        "a/" * 16 + "b",
    ],
)
def test_names_that_lead_elsewhere_are_wrong(name: str, tmp_path: Path) -> None:
    assert find_name_problem(name) is not None
    packed = zstandard.compress(msgspec.msgpack.encode({name: b"x"}))
    with pytest.raises(InvalidInput, match="the packed challenge has a file"):
        unpack(packed, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["a", "a.txt", "data/log 1.txt", "é/ü.json", "a/b/c"])
def test_ordinary_names_are_right(name: str) -> None:
    assert find_name_problem(name) is None


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"junk",
        zstandard.compress(b"junk"),
        zstandard.compress(msgspec.msgpack.encode({"a": 1})),
        zstandard.compress(msgspec.msgpack.encode(["a"])),
    ],
    ids=["empty", "junk", "no-msgpack", "no-bytes", "no-mapping"],
)
def test_other_bytes_are_refused(packed: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no packed challenge"):
        unpack(packed, tmp_path / "copy")


def test_a_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_BYTES", 1000)
    monkeypatch.setattr(folders, "MAX_FILES", 1)
    packed = zstandard.compress(msgspec.msgpack.encode({"a": bytes(10_000_000)}))
    with pytest.raises(InvalidInput, match="too large"):
        unpack(packed, tmp_path / "copy")


def test_a_full_folder_is_not_unpacked_into(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="is not empty"):
        unpack(pack(folder), folder)


def test_a_file_cannot_also_be_a_folder(tmp_path: Path) -> None:
    packed = zstandard.compress(msgspec.msgpack.encode({"a": b"", "a/b": b""}))
    with pytest.raises(InvalidInput, match="cannot be written"):
        unpack(packed, tmp_path / "copy")
