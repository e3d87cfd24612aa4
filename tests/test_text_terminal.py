"""What people are shown: whole and plain in a pipe, coloured and within the width on a terminal."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from tallymark.text import Table

CODE = """
from tallymark.text import StyledLine, Table, say
rows = [("a[red]b[/red]", "1", "win"), ("long " * 30 + "\\x1b[31m\\nend", "22", "loss")]
say("title", StyledLine("bad \\x1b[2J news", "red"))
say(Table(("NAME", "N", "RESULT"), rows, right=("N",), wrap=("NAME",)))
"""
LONG = " ".join(["long"] * 30)


def run_in_pipe(**environment: str) -> str:
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, check=True, env=plain | environment
    )
    return done.stdout.decode()


def run_on_terminal(columns: int, **environment: str) -> str:
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(columns), **environment})
        os.execv(sys.executable, [sys.executable, "-c", CODE])
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    written = b""
    with suppress(OSError):  # the end of a terminal whose program is gone
        while more := os.read(terminal, 65_536):
            written += more
    os.waitpid(child, 0)
    os.close(terminal)
    return written.decode().replace("\r\n", "\n")


def test_in_a_pipe_a_row_is_a_line_and_every_value_is_whole() -> None:
    assert run_in_pipe().split("\n") == [
        "title",
        "bad [2J news",
        f"{'NAME':<158}   N  RESULT",
        f"{'a[red]b[/red]':<158}   1  win",
        f"{LONG} [31m end  22  loss",
        "",
    ]


def test_a_terminal_has_colours_and_no_line_is_wider_than_it_is() -> None:
    shown = run_on_terminal(60)
    assert "\x1b[31mbad [2J news\x1b[0m" in shown
    assert "\x1b[32mwin" in shown
    assert "a[red]b[/red]" in shown
    bare = run_on_terminal(60, TERM="dumb")
    assert "\x1b" not in bare
    assert max(map(len, bare.split("\n"))) <= 60
    assert "".join(bare.split()).count("long") == 30


def test_no_color_takes_colours_away() -> None:
    assert "\x1b[3" not in run_on_terminal(60, NO_COLOR="1")


def test_force_color_colours_a_pipe_and_cuts_nothing() -> None:
    shown = run_in_pipe(FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[32mwin" in shown
    assert LONG in shown


@pytest.mark.parametrize("name", ["一二三", "abcdef"])
def test_wide_characters_take_two_places(name: str) -> None:
    lines = str(Table(("NAME", "N"), [(name, "1")], right=("N",))).split("\n")
    assert lines == ["NAME    N", f"{name}  1"]
