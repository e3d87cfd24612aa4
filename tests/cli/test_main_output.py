"""Output that nobody reads any more (`| head`) spoils nothing, and what is read fits its place."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.tally_process import TALLY, Tally

SUITE = """
metadata: {name: many, model: python/loud.py:agent}
evals:
"""


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    rows = "".join(f"  - {{prompt: 'q{n}', checks: [{{match: no}}]}}\n" for n in range(40))
    (tmp_path / "many.yaml").write_text(SUITE + rows)
    (tmp_path / "loud.py").write_text("def agent(prompt):\n    print('loud ' * 999)\n    return ''")
    return Tally(tmp_path)


def leave(tally: Tally, *arguments: str) -> tuple[int, str]:
    """The exit code of a command whose output is closed before it begins, and its errors."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [str(TALLY), *arguments],
        cwd=tally.folder,
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    return process.returncode, process.stderr.decode()


def test_a_run_whose_output_is_closed_is_whole_and_its_gates_count(tally: Tally) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [str(TALLY), "run", "many.yaml", "--fail-under", "50"]
    done = subprocess.run(command, cwd=tally.folder, stdout=write, stderr=write, check=False)
    os.close(write)
    assert done.returncode == 1
    (run,) = tally.json("runs")["runs"]
    # What an agent prints is lost with the rest, and does not fail it.
    assert (run["status"], run["failed"], run["errors"]) == ("completed", 40, 0)


@pytest.mark.parametrize("arguments", [("show", "latest", "--json"), ("--help",)])
def test_who_stops_reading_is_no_failure(tally: Tally, arguments: tuple[str, ...]) -> None:
    tally("run", "many.yaml")
    assert leave(tally, *arguments) == (0, "")


def test_a_mistake_is_still_one(tally: Tally) -> None:
    assert leave(tally, "show", "latest")[0] == 2


def test_a_terminal_that_is_closed_stops_no_run(tally: Tally) -> None:
    main, terminal = pty.openpty()
    (tally.folder / "slow.sh").write_text("#!/bin/sh\ncat >/dev/null\nsleep 0.1\necho yes\n")
    (tally.folder / "slow.sh").chmod(0o755)
    command = [str(TALLY), "run", "many.yaml", "-m", "cmd/./slow.sh"]
    with subprocess.Popen(
        command, cwd=tally.folder, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        os.read(main, 1)
        os.close(main)
        assert process.wait() == 0
    assert [each["status"] for each in tally.json("runs")["runs"]] == ["completed"]


@pytest.mark.parametrize("columns", [60, 100])
def test_a_summary_is_as_wide_as_the_terminal(tally: Tally, columns: int) -> None:
    tally("run", "many.yaml")
    main, terminal = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    done = subprocess.Popen(
        [str(TALLY), "show", "latest"],
        cwd=tally.folder,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        env=environment | {"NO_COLOR": "1", "TERM": "dumb"},
    )
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # the end of a terminal whose program is gone
        while more := os.read(main, 65_536):
            shown += more
    os.close(main)
    assert done.wait() == 0
    lines = shown.decode().replace("\r\n", "\n").split("\n")
    assert max(map(len, lines)) == columns


def test_what_changes_something_makes_no_database_to_look_for_it(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    for words in (
        "attempt void a1 --reason because",
        "agent name agent-a Agent",
        "admin agents give agent-a owner-b",
        "webhooks rotate w1",
        "webhooks replay w1 d1",
    ):
        done = tally(*words.split())
        assert (done.returncode, list(tmp_path.iterdir())) == (2, []), words
        assert done.stderr.startswith("tally: nothing is stored at .tally/tally.db yet"), words
