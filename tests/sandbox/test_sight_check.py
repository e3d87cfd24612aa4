"""What untrusted code can open of the host, found by having it try."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.backends import SAFE

from tallymark.sandbox import Policy
from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.sandbox.sight_check import Sight, look_from_inside


@pytest.mark.parametrize("backend", SAFE)
def test_it_tells_what_can_be_opened_by_whom(backend: SafeBackend, tmp_path: Path) -> None:
    places = {
        "file": tmp_path / "file",
        "link": tmp_path / "link",
        "nothing": tmp_path / "nothing",
        "the top": Path("/"),
        "programs": Path("/usr/bin"),
    }
    places["file"].touch()
    places["link"].symlink_to(tmp_path)
    assert look_from_inside(Policy(backend), places) == [
        Sight("file", tmp_path / "file", ()),
        Sight("link", tmp_path, ()),
        Sight("the top", Path("/"), ()),
        Sight("programs", Path("/usr/bin"), ("programs",)),
    ]


def test_without_walls_everything_is_seen(tmp_path: Path) -> None:
    """The look must be able to find what it looks for."""
    (seen,) = look_from_inside(Policy("insecure-local"), {"folder": tmp_path})
    assert seen.seen_by == ("plugins", "programs")
