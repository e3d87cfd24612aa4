"""What untrusted code can open of the host, found by having it try."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.backends import SAFE

from tallymark.sandbox import Policy
from tallymark.sandbox.leak_check import CheckedPath, check_leaks
from tallymark.sandbox.machine_probe import SafeBackend


@pytest.mark.parametrize("backend", SAFE)
def test_it_lists_paths_that_plugins_or_programs_can_open(
    backend: SafeBackend, tmp_path: Path
) -> None:
    places = {
        "file": tmp_path / "file",
        "link": tmp_path / "link",
        "nothing": tmp_path / "nothing",
        "the top": Path("/"),
        "programs": Path("/usr/bin"),
    }
    places["file"].touch()
    places["link"].symlink_to(tmp_path)
    assert check_leaks(Policy(backend), places) == [
        CheckedPath("file", tmp_path / "file", ()),
        CheckedPath("link", tmp_path, ()),
        CheckedPath("the top", Path("/"), ()),
        CheckedPath("programs", Path("/usr/bin"), ("programs",)),
    ]


def test_without_walls_everything_is_seen(tmp_path: Path) -> None:
    """The look must be able to find what it looks for."""
    (seen,) = check_leaks(Policy("insecure-local"), {"folder": tmp_path})
    assert seen.seen_by == ("plugins", "programs")
