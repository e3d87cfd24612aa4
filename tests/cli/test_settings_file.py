"""`tally.toml`: what it sets, what wins over it, and what is refused in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

SUITE = "evals: [{prompt: Say hello., checks: [{match: '*hello*'}]}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "below").mkdir()
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "tally.toml").write_text(text, encoding="utf-8")


def test_options_and_paths_hold_in_every_folder_below(folder: Path) -> None:
    write(folder, 'db = "kept.db"\n[run]\nmodel = ["echo/a", "echo/b"]\nreport = "told.json"\n')
    below = Tally(folder / "below")
    assert below("run", "../suite.yaml").returncode == 0
    assert (folder / "told.json").exists()
    models = [run["model"] for run in below.json("runs")["runs"]]
    assert sorted(models) == ["echo/a", "echo/b"]
    assert (folder / "kept.db").exists()
    assert not (folder / "below" / ".tally").exists()


def test_what_is_typed_wins_over_the_variable_and_that_over_the_file(folder: Path) -> None:
    write(folder, 'db = "file.db"\n[run]\nmodel = "echo/file"\n')
    tally = Tally(folder)
    typed = ("run", "suite.yaml", "-m", "echo/typed", "--db", "typed.db")
    assert tally(*typed, env={"TALLY_DB": "set.db"}).returncode == 0
    assert tally("run", "suite.yaml", env={"TALLY_DB": "set.db"}).returncode == 0
    assert sorted(each.name for each in folder.glob("*.db")) == ["set.db", "typed.db"]
    [run] = Tally(folder).json("runs", "--db", "typed.db")["runs"]
    assert run["model"] == "echo/typed"


def test_the_nearest_file_counts(folder: Path) -> None:
    write(folder, "[runs]\nlimit = 0\n")
    write(folder / "below", "[runs]\nlimit = 3\n")
    assert "nothing is stored" in Tally(folder / "below")("runs").stderr
    assert "runs.limit: 0 is not in the range" in Tally(folder)("runs").stderr


@pytest.mark.parametrize(
    ("text", "typed", "told"),
    [
        ("[runs]\nlimti = 2", "runs", "[runs] has no option 'limti'; did you mean 'limit'?"),
        ("[runs.delete]\nyes = true", "runs delete x", "[runs.delete] has no option 'yes'"),
        ("[challenge]\nlimit = 2", "challenge list", "'challenge' has no command 'limit'"),
    ],
)
def test_a_command_with_commands_has_its_options_in_tables_of_their_own(
    folder: Path, text: str, typed: str, told: str
) -> None:
    write(folder, text)
    done = Tally(folder)(*typed.split())
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dbb = 'x'", "there is no command 'dbb'; did you mean 'db'?"),
        ("[run]\nthread = 2", "[run] has no option 'thread'; did you mean 'threads'?"),
        ("[run]\nthreads = 0", "run.threads: 0 is not in the range x>=1."),
        ("[run]\nepochs = [1, 2]", "run.epochs takes one value; leave out the list"),
        ("[run]\nstrict = 'yes'", "run.strict must be true or false, not 'yes'"),
        ("[run]\nthreads = true", "run.threads must be text or a number, not True"),
        ("run = 5", "run must be a table; write [run] above its options"),
        ("[run", "is not TOML: Expected ']' at the end of a table declaration"),
        ("[rescore]\ninsecure-local = true", None),
    ],
)
def test_a_mistake_is_named_with_its_place(folder: Path, text: str, told: str | None) -> None:
    write(folder, text)
    done = Tally(folder)("run", "suite.yaml", "-m", "echo/x")
    if told is None:  # another command's table is not looked into
        assert done.returncode == 0
    else:
        assert done.returncode == 2
        assert told in done.stderr
        assert "tally.toml" in done.stderr


@pytest.mark.parametrize(
    ("setting", "command"),
    [
        ("[run]\nmodel = ['echo/x', 'cmd/touch ran']", "run suite.yaml"),
        ("[run]\nmodel = 'PYTHON:code:function'", "run suite.yaml"),
        ("judge = 'cmd/touch ran'", "run suite.yaml -m echo/x"),
        ("judge = 'cmd/touch ran'", "attempt submit a1 answer.txt --agent bob"),
        ("[score]\nscorer = ['word_count', 'code.py:polite']", "score traces.jsonl"),
        ("[score]\nfunction = 'code:agent'", "score some_eval.py"),
    ],
)
def test_a_file_cannot_start_a_program(folder: Path, setting: str, command: str) -> None:
    write(folder, setting)
    (folder / "code.py").write_text("open('ran', 'w')\n", encoding="utf-8")
    done = Tally(folder)(*command.split())
    assert done.returncode == 2
    assert "runs code, and a settings file may not; type it if you trust it: --" in done.stderr
    assert not (folder / "ran").exists()


def test_what_is_typed_may_run_whatever_the_file_says(folder: Path) -> None:
    write(folder, "judge = 'cmd/touch ran'\n[run]\nmodel = 'cmd/false'\n")
    typed = ("-m", "cmd/echo hello", "--judge", "echo/x")
    assert Tally(folder)("run", "suite.yaml", *typed).returncode == 0
    assert not (folder / "ran").exists()


def test_a_file_cannot_take_the_walls_away(folder: Path) -> None:
    write(folder, "[attempt.submit]\ninsecure-local = true\n")
    done = Tally(folder)("attempt", "list", "sums")
    assert done.returncode == 2
    assert "[attempt.submit] has no option 'insecure-local'" in done.stderr
