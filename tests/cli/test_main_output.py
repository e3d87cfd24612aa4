"""Output that nobody reads any more (`| head`) spoils nothing, and what is read fits its place."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.tally_process import TALLY, Tally

from tallymark.cli.main import main

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
    end, terminal = pty.openpty()
    (tally.folder / "slow.sh").write_text("#!/bin/sh\ncat >/dev/null\nsleep 0.1\necho yes\n")
    (tally.folder / "slow.sh").chmod(0o755)
    command = [str(TALLY), "run", "many.yaml", "-m", "cmd/./slow.sh"]
    with subprocess.Popen(
        command, cwd=tally.folder, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        os.read(end, 1)
        os.close(end)
        assert process.wait() == 0
    assert [each["status"] for each in tally.json("runs")["runs"]] == ["completed"]


@pytest.mark.parametrize("columns", [60, 100])
def test_a_summary_is_as_wide_as_the_terminal(tally: Tally, columns: int) -> None:
    tally("run", "many.yaml")
    end, terminal = pty.openpty()
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
        while more := os.read(end, 65_536):
            shown += more
    os.close(end)
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


class Terminal(StringIO):
    """Takes what a command writes, as a terminal would."""

    def isatty(self) -> bool:
        return True


MODELS = [f"replay/{'answers-of-a-model-with-a-long-name' * 2}-{end}.jsonl" for end in ("a", "b")]
CHALLENGE = "speed-with-a-rather-long-name"
AGENT = "an-agent-with-a-long-name"
GUARD = Path(__file__).parents[2] / "examples" / "challenges" / "red-blue-guard"
RED = "red-blue-guard/samples/red-plain.txt"
BLUE = "red-blue-guard/samples/blue-words.txt"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """Runs, a challenge with an attempt, a trace and a rule, all with long names."""
    tally = Tally(tmp_path_factory.mktemp("narrow"))
    evals = [{"name": "a", "prompt": "q", "checks": [{"match": "*yes*"}]}]
    suite = {"metadata": {"name": "a-suite-that-has-a-rather-long-name"}, "evals": evals}
    (tally.folder / "suite.yaml").write_text(json.dumps(suite))
    for model in MODELS:
        answers = tally.folder / model.removeprefix("replay/")
        answers.write_text(json.dumps({"prompt": "q", "output": "yes", "cost": 0.01}))
    (tally.folder / CHALLENGE).mkdir()
    (tally.folder / CHALLENGE / "challenge.yaml").write_text(
        f"name: {CHALLENGE}\ntitle: {'Be quick and ' * 6}right\ngoal: Be quick.\n"
        "evaluator: {type: reported, metrics: [steps]}\n"
        "scoring: {strategy: custom, formula: rating * 10 - steps}\n"
    )
    trace = {"trace_id": TRACE, "name": "refund " * 6, "input": "Refund 17. " * 9, "output": "ok"}
    (tally.folder / "traces.jsonl").write_text(json.dumps(trace))
    shutil.copytree(GUARD, tally.folder / "red-blue-guard")
    metrics = ("--metric", "succeeded=true", "--metric", "rating=1", "--metric", "steps=2")
    for words in (
        ("run", "suite.yaml", "-m", MODELS[0], "-m", MODELS[1]),
        ("challenge", "publish", CHALLENGE),
        ("attempt", "report", CHALLENGE, "--agent", AGENT, *metrics),
        ("load", "traces", "traces.jsonl"),
        ("rules", "add", "a-rule-with-a-rather-long-name", "-s", "contains(values=['please'])"),
        ("challenge", "publish", "red-blue-guard"),
        ("versus", "submit", "red-blue-guard", RED, "--agent", AGENT, "--side", "red"),
        ("versus", "submit", "red-blue-guard", BLUE, "--agent", "another-agent", "--side", "blue"),
    ):
        done = tally(*words)
        assert done.returncode == 0, done.stderr
    return tally


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (("runs",), ["{run}"]),
        (("compare", "latest", "latest~1"), ["{run}"]),
        (("run", "suite.yaml", "-m", MODELS[0], "-m", MODELS[1]), []),
        (("challenge", "list"), [CHALLENGE]),
        (("leaderboard", CHALLENGE), [AGENT, "a000000000001"]),
        (("ratings",), [AGENT]),
        (("attempt", "list", CHALLENGE), [AGENT, "a000000000001"]),
        (("traces", "list"), [TRACE]),
        (("rules", "list"), ["a-rule-with-a-rather-long-name"]),
    ],
)
def test_in_a_narrow_terminal_no_id_name_or_date_is_broken(
    filled: Tally,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    whole: list[str],
    columns: int,
) -> None:
    run = filled.json("runs")["runs"][0]["id"]
    screen = Terminal()
    monkeypatch.chdir(filled.folder)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "argv", ["tally", *words])
    for name, value in {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "TALLY_DB"):
        monkeypatch.delenv(name, raising=False)
    with suppress(SystemExit):
        main()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    for each in whole:
        assert each.format(run=run) in shown
    # A date stands with its time on one line, and at 80 columns it is there.
    dates = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", shown)
    assert len(dates) == len(re.findall(r"\d{4}-\d\d", shown))
    if words[0] in {"runs", "attempt"}:
        assert dates or columns < 80
    table = [line.rstrip() for line in shown.split("\n") if re.match(r"RUN |r[0-9a-z]{10} ", line)]
    assert all(len(line) <= columns for line in table)
    if words[0] == "runs":
        assert "…" in shown
        assert all(f"-{end}.jsonl" in shown for end in "ab")  # models stay different


HEADS = re.compile(r"(?:[A-Z0-9 %()/.-]|pass[@^]\d)+")


@pytest.mark.parametrize(
    "words",
    [
        "runs",
        "show latest",
        "score traces.jsonl -s no_errors --no-keep",
        "validate suite.yaml",
        "formula check '100 - success_pct / total_cost'",
        "scorers llm_judge",
        "ratings",
        "challenge show red-blue-guard",
        "challenge check red-blue-guard",
        f"attempt enter {CHALLENGE} --agent {AGENT}",
        "leaderboard red-blue-guard",
        "rules list",
        "rules preview a-rule-with-a-rather-long-name",
        "traces worst no_errors",
        "log",
        "doctor",
    ],
)
def test_in_a_pipe_no_line_but_of_tables_and_commands_is_wider_than_80(
    filled: Tally, words: str
) -> None:
    table, wide = False, []
    for line in filled(*shlex.split(words)).stdout.splitlines():
        table = bool(line) and (table or ("  " in line and HEADS.fullmatch(line) is not None))
        if not table and len(line) > 80 and not line.strip().startswith("tally "):
            wide.append(line)
    assert wide == []


@pytest.mark.parametrize(
    "words",
    [
        f"run suite.yaml -m {MODELS[0]} -m {MODELS[1]}",
        "score traces.jsonl -s no_errors --no-keep",
        "show latest",
        "compare latest latest~1",
        "rescore latest --formula success_pct",
        f"rescore {CHALLENGE} --formula 'rating - steps'",
        f"rescore {CHALLENGE} --formula 'rating - steps' --apply --reason better",
    ],
)
def test_quiet_is_one_line_that_says_what_came_of_it(filled: Tally, words: str) -> None:
    done = filled(*shlex.split(words), "-q")
    (line,) = done.stdout.splitlines()
    assert re.match(r"2 runs|[a-z-]+(\.jsonl)?: .*\d|Inconclusive: ", line), line
