"""Landlock, put up around a child of the test."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.forked_child import in_a_child

from tallymark.sandbox import landlock

needs_landlock = pytest.mark.skipif(landlock.abi() < 6, reason="no Landlock here")


def test_a_kernel_without_landlock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(RuntimeError, match="this kernel has no Landlock, or does not use it"):
        landlock.restrict(read=[], write=[])


@needs_landlock
@pytest.mark.parametrize(
    ("work", "refused"),
    [
        (lambda folder: (folder / "open/file").read_bytes(), 0),
        (lambda folder: (folder / "open/new").write_bytes(b"x"), errno.EACCES),
        (lambda folder: (folder / "mine/new").write_bytes(b"x"), 0),
        (lambda folder: (folder / "mine/new").read_bytes(), errno.ENOENT),
        (lambda folder: (folder / "mine/folder").mkdir(), 0),
        (lambda folder: (folder / "mine/link").symlink_to("/"), errno.EACCES),
        (lambda folder: os.mkfifo(folder / "mine/fifo"), errno.EACCES),
        (lambda folder: (folder / "shut/file").read_bytes(), errno.EACCES),
        (lambda folder: (folder / "shut/file").unlink(), errno.EACCES),
        (lambda folder: list((folder / "shut").iterdir()), errno.EACCES),
        (lambda folder: (folder / "shut/file").rename(folder / "mine/f"), errno.EACCES),
        (lambda _: os.kill(os.getppid(), 0), errno.EPERM),
        (lambda _: socket.create_connection(("127.0.0.1", 9), 1), errno.EACCES),
        (lambda _: os.execv("/bin/true", ["true"]), errno.EACCES),
    ],
    ids=[
        "read what is open",
        "write what is only open to read",
        "write its own",
        "read its own",
        "a folder of its own",
        "a symlink",
        "a pipe",
        "read what is shut",
        "remove what is shut",
        "list what is shut",
        "move it in",
        "signal the parent",
        "connect",
        "execute",
    ],
)
def test_landlock(tmp_path: Path, work: Callable[[Path], object], refused: int) -> None:
    for name in ("open", "mine", "shut"):
        (tmp_path / name).mkdir()
        if name != "mine":
            (tmp_path / name / "file").write_bytes(b"x")
    work_there = work

    def confined() -> None:
        read = [tmp_path / "open", tmp_path / "not there"]
        landlock.restrict(read=read, write=[tmp_path / "mine"])
        work_there(tmp_path)

    assert in_a_child(confined) == refused
