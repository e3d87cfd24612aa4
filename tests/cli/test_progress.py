"""A bar for who waits: on a terminal, and only when something takes long."""

from __future__ import annotations

import io
import sys

import pytest

from tallymark.cli import progress


class Terminal(io.StringIO):
    """What is shown to somebody."""

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm-256color")
    return shown


def test_a_bar_says_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    bar = progress._LateBar("rescoring")
    bar._timer.join()
    bar.update(50, 100)
    bar.stop()
    assert "rescoring" in terminal.getvalue()
    assert "50%" in terminal.getvalue()


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE", 1000.0)
    with progress.show_progress("loading") as update:
        assert update is not None
        update(1, 2)
    assert not terminal.getvalue()


def test_nobody_who_reads_a_file_wants_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.show_progress("loading") as update:
        assert update is None
