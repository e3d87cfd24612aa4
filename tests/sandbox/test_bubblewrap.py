"""The view of a process in bubblewrap."""

from __future__ import annotations

import errno
import subprocess

import pytest
from tests.sandbox.backends import SAFE

from tallymark.sandbox import bubblewrap, interpreter

needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in SAFE, reason="no bubblewrap here")


def seen_inside(source: str, *, scratch_mb: float | None = None) -> str:
    words = bubblewrap.command(
        binds=interpreter.files(),
        hidden=interpreter.hidden_folders(),
        scratch_mb=scratch_mb,
        environment=interpreter.variables(),
    )
    python = [str(interpreter.sandbox_path()), "-I", "-S", "-c", source]
    found = subprocess.run([*words, *python], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@needs_bubblewrap
@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import os; print(os.getpid(), os.getuid())", "1 65534"),
        (
            "import os; os.environ.pop('LD_LIBRARY_PATH', ''); print(dict(os.environ))",
            "{'PWD': '/tally-scratch'}",
        ),
        ("import os; print(os.path.exists('/proc'), os.path.exists('/sys'))", "False False"),
        ("import os; print(os.listdir('/dev'))", "['null']"),
        ("import os; print(os.getcwd(), os.listdir('.'))", "/tally-scratch []"),
        ("import os; print(os.uname().nodename)", "sandbox"),
        ("import ssl, sqlite3, zlib, ctypes, lzma, bz2, _decimal; print('all there')", "all there"),
    ],
    ids=["who", "environment", "no proc", "devices", "scratch", "name", "libraries"],
)
def test_the_view_of_bubblewrap(source: str, seen: str) -> None:
    assert seen_inside(source) == seen


@needs_bubblewrap
def test_the_scratch_of_bubblewrap_is_bounded() -> None:
    source = """
try:
    with open("big", "wb") as file:
        while True: file.write(b"x" * 2**16)
except OSError as error:
    import os
    print(error.errno, os.path.getsize("big") <= 2**20)
"""
    assert seen_inside(source, scratch_mb=1) == f"{errno.ENOSPC} True"
