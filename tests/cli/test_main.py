"""What a command loads: no more than it needs, since loading is most of a short command's time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.contest_samples import a_challenge, an_outcome, play
from tests.store.run_samples import a_result, a_run

from tallymark.cli.main import COMMANDS, GROUPS, SYNONYMS, main
from tallymark.store import open_store

HEAVY = {
    *("alembic", "cryptography", "numpy", "pydantic", "jsonschema", "aiohttp", "jinja2"),
    *("sqlalchemy.orm", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.mysql"),
    *("tallymark.models", "tallymark.suites", "tallymark.cli.run"),
    *("tallymark.sandbox.plugin_sandbox", "rich.console"),
}
FORMULAS = {"tallymark.formula", "tallymark.challenges.evaluators", "tallymark.ratings"}
CODE = """
import sys
from tallymark.cli.main import main
sys.argv = ["tally", *{arguments!r}]
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "tally.db"
    with open_store(str(path)) as store:
        store.create_run(a_run())
        store.add_results("run", [a_result()])
        store.challenges.publish(a_challenge(), b"", at=1.0)
        play(store, "alice", an_outcome())
    return path


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("runs", FORMULAS),
        ("show latest", {"tallymark.scoring", "tallymark.formula.lint"}),
        ("leaderboard sums", {"tallymark.formula", "tallymark.challenges.evaluators"}),
        ("attempt list sums", {"tallymark.formula", "tallymark.challenges.evaluators"}),
        ("challenge list", FORMULAS),
        ("vars list", FORMULAS),
    ],
)
def test_a_command_loads_little(db: Path, command: str, unwanted: set[str]) -> None:
    arguments = [*command.split(), "--db", str(db)]
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments=arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert set(done.stderr.split()) & (HEAVY | unwanted) == set()


@pytest.mark.parametrize(("command", "code"), [("runs", 2), ("--help", 0)])
def test_a_folder_that_was_deleted_is_told_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    code: int,
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr("tallymark.text.program", "tally")
    monkeypatch.setattr("sys.argv", ["/elsewhere/tally", command])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (code, 1 if code else 0)
    assert not code or said.startswith("tally: the current folder was deleted; ")


def run_main(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.text.program", "tally")
    monkeypatch.setattr("sys.argv", ["tally", *words.split()])
    with pytest.raises(SystemExit):
        main()


def test_help_shows_every_command_in_a_group_and_cuts_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run_main("help", monkeypatch)
    told = capsys.readouterr().out.partition("-h, --help")[2].split("\n")[1:]
    assert [line.rstrip(":") for line in told if line and line[0] != " "] == list(GROUPS)
    commands = [line for line in told if line.startswith("  ")]
    assert [line.split()[0] for line in commands] == list(COMMANDS)
    assert [line for line in commands if len(line) > 78 or line.endswith(("...", "…"))] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("eval", "'tally run'"),
        ("test", "'tally run' or 'tally score'"),
        ("list", "'tally runs'"),
        ("diff", "'tally compare'"),
        ("enter", "'tally attempt enter'"),
        ("publish", "'tally challenge publish'"),
        ("submit", "'tally attempt submit' or 'tally versus submit'"),
        ("chalenge", "'tally challenge'"),
        ("challenge pubish", "'tally challenge publish'"),
        ("run --models x", "'--model'"),
        ("runs --status qeued", "'queued'"),
    ],
)
def test_a_wrong_word_is_told_the_right_one_in_one_style(
    typed: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main(typed, monkeypatch)
    [said] = capsys.readouterr().err.splitlines()
    assert said.endswith(f"; did you mean {meant}?")


def test_every_synonym_names_a_command_that_exists() -> None:
    for typed, commands in SYNONYMS.items():
        assert typed not in COMMANDS
        assert {each.split()[0] for each in commands} <= set(COMMANDS)


def test_version_is_also_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main("version", monkeypatch)
    first = capsys.readouterr().out
    run_main("--version", monkeypatch)
    assert capsys.readouterr().out == first
