"""Profiles: private, written atomically, each for one server."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tallymark.client.profiles import (
    Profile,
    find_profile_file,
    forget_profile,
    keep_profile,
    name_profile,
    read_profiles,
)
from tallymark.errors import InvalidInput, NotFound

HERE = Profile(url="https://tally.example", key="tly_here")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "tallymark"


def test_a_key_is_readable_by_its_owner_alone(folder: Path) -> None:
    old = os.umask(0)  # who lets everybody read everything
    try:
        keep_profile("team", HERE)
        keep_profile("team", HERE)
    finally:
        os.umask(old)
    assert stat.S_IMODE(find_profile_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(each.name for each in folder.iterdir()) == ["servers.json", "servers.json.lock"]


def test_a_file_that_others_can_read_is_refused() -> None:
    keep_profile("team", HERE)
    find_profile_file().chmod(0o640)
    with pytest.raises(InvalidInput, match="can be read by others; run: chmod 600"):
        read_profiles()


@pytest.mark.parametrize("text", ["", "{", '{"profiles": 1}', '{"profiles": {"a": {}}}', "\udcff"])
def test_a_file_that_is_not_ours_is_said(text: str, folder: Path) -> None:
    folder.mkdir()
    path = find_profile_file()
    path.write_bytes(text.encode(errors="surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="is not what `tally login` writes"):
        read_profiles()


def test_profiles_come_and_go() -> None:
    keep_profile("one", HERE)
    keep_profile("two", Profile(url="http://localhost:1", key="tly_two"))
    assert (list(read_profiles().profiles), read_profiles().current) == (["one", "two"], "two")
    assert forget_profile("two").key == "tly_two"
    assert read_profiles().current == "one"
    with pytest.raises(NotFound, match="did you mean 'one'"):
        forget_profile("onee")


def test_two_who_log_in_at_once_are_both_kept() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: keep_profile(f"p{number}", HERE), range(16)))
    assert len(read_profiles().profiles) == 16


def test_a_server_keeps_the_name_that_it_had() -> None:
    assert name_profile("https://tally.example", {}) == "tally.example"
    assert name_profile("https://tally.example", {"team": HERE}) == "team"
