"""Every command says the same, and ends with the same code, on a database and against a server.

A story is a list of command lines. It is played in order on a database here, and against a server
process that serves a copy of that database; what each line says is compared. A command is in a
story, or in `ONLY_HERE` with a reason.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scripts.cli_reference import COMMANDS
from tests.cli import contest_stories
from tests.cli.tally_process import Tally
from tests.golden.masks import MASKS, MEASURED, Mask, Masker

KEY = "tly_both-9876543210-zyxwvutsrqponmlkjihgfedcba-b"
SUITE = """
metadata: {name: greet, model: echo/me}
evals:
  - {name: hello, prompt: Say hello, checks: [{match: "*hello*"}]}
  - {name: bye, prompt: Say hi, checks: [{match: "*bye*"}]}
  - {name: again, prompt: Say it again, checks: [{match: "*again*"}], epochs: 3}
score: {formula: success_pct * 2}
"""
FILES = {
    "suite.yaml": SUITE,
    "other.yaml": SUITE.replace("*bye*", "*hi*").replace("* 2", "* 3"),
    "broken.yaml": "evals: [{prompt: 1, chekcs: []}]\n",
    "traces.jsonl": '{"trace_id": "t-1", "output": "one two"}\n{"trace_id": "t-2", "output": ""}\n',
    "greet_eval.py": """
from tallymark import Suite, Test

suite = Suite(
    name="greetings",
    agent=lambda question: f"hello {question}",
    tests=[Test(name="hello", input="you", scorers=["contains(values=['hello'])"])],
)
""",
}
LONG = "~ "
"""Before lines that only the long form has: `make proof`."""
BEFORE = ("run suite.yaml -q", "run suite.yaml -m echo/you -q --limit 2")
"""What both have done: the database is copied after it."""
STORIES: dict[str, tuple[str, ...]] = {
    "runs": (
        "runs",
        "runs --json --limit 1",
        "~ runs --sort model --ascending",
        "~ runs --suite nothing",
        "show latest",
        "show latest~1 --json",
        "show latest --report out.json --report out.html",
        "show nothing",
        "~ show latest --report out.what",
        "compare latest~1 latest",
        "compare latest latest~1 --json --fail-on-regression --strict",
        "~ compare latest nothing",
        "rescore latest --formula success_pct",
        "~ rescore latest --formula 'success_pct +'",
        "rescore latest --suite other.yaml --json",
        "rescore latest --suite other.yaml --apply",
        "runs --limit 1",
        "~ rescore latest",
        "runs rename latest nightly",
        "~ runs rename nothing nightly",
        "compare nightly latest~1",
        "rescore nightly --formula success_pct",
        "runs rename nightly 'week 1: 100 %?'",
        "show 'week 1: 100 %?'",
        "runs delete 'week 1: 100 %?'",
        "~ runs rename latest week/1",
        "runs rename latest~1 'week 1: 100 %?'",
        "show 'week 1: 100 %?'",
        "runs --limit 2",
        "runs delete latest",
        "runs delete latest latest~1 --yes --reason 'a test'",
        "runs",
        "runs delete nothing --yes",
    ),
    "new runs": (
        "run suite.yaml --threads 1",
        "show latest",
        "run suite.yaml --threads 1 -m echo/you --json",
        "run suite.yaml --failed-of latest --threads 1 -q",
        "show latest",
        "run suite.yaml -q --baseline latest~1 --fail-on-regression --only 'again*'",
        "~ run suite.yaml -q --fail-under 190",
        "~ run suite.yaml -q --var name=value --limit 1",
        "~ run suite.yaml -q --only nothing",
        "~ run nothing.yaml",
        "~ run broken.yaml",
        "~ run suite.yaml -q -m what/ever",
        "~ runs --limit 4",
        "score traces.jsonl -s word_count --formula success_pct",
        "show latest",
        "~ score traces.jsonl -s word_count --fail-under 0.99 -q",
        "score greet_eval.py -q",
        "show latest",
        "runs --json --limit 2",
    ),
    "webhooks": (
        "webhooks list",
        "webhooks add https://hooks.example/x --event run.finished --suite greet",
        "webhooks add https://hooks.example/y --json",
        "webhooks add hooks.example",
        "webhooks add https://hooks.example/x --challenge nothing",
        "webhooks add https://hooks.example/x --suite nothing",
        "webhooks list",
        "webhooks pause whk_nothing",
        "webhooks resume whk_nothing",
        "webhooks rotate whk_nothing",
        "webhooks remove whk_nothing",
        "webhooks ping whk_nothing",
        "webhooks deliveries whk_nothing",
        "webhooks replay whk_nothing whd_nothing",
    ),
    "tables": (
        "export results -o results.parquet",
        "export results latest -o results.parquet --json",
        "export results nothing -o results.parquet",
        "export results -o results.csv",
        "load traces traces.jsonl",
        "traces score t-1 helpful 0.5",
        "export traces -o kept.parquet --filter helpful",
        "export traces -o kept.parquet",
        "export traces -o kept.parquet --filter 'cost>'",
        "load traces kept.parquet",
        "load traces results.parquet",
        "export scores -o scores.parquet",
        "export attempts nothing -o attempts.parquet",
    ),
    **contest_stories.STORIES,
}
"""Command lines without `tally`, by subject."""
ALONE = frozenset({"rules"})
"""Stories with a database of their own, because a server scores stored traces in the background."""
ONLY_HERE: dict[str, str] = {
    "admin backup": "copies the database, for whoever has it",
    "admin restore": "makes a database from a copy, for whoever has it",
    "admin copy": "copies the database, for whoever has it",
    "admin compact": "writes the database anew, for whoever has it",
    "admin rotate-secret-key": "seals what is stored by a new key, for whoever has the database",
    "admin check": "computes the database anew, for whoever has it",
    "admin upgrade": "changes the tables of the database, for whoever has it",
    "admin prune": "takes old things out of the database, for whoever has it",
    "admin config": "lists the settings of the machine that it runs on",
    "load attempts": "puts a file into the database, for whoever has it",
    "load results": "puts a file into the database, for whoever has it",
    "load scores": "puts a file into the database, for whoever has it",
    "init": "writes a file",
    "import": "reads and writes files",
    "validate": "reads a file",
    "scorers": "lists what is installed here",
    "schema": "prints what is written in the code",
    "docs": "prints pages of the documentation",
    "doctor": "looks at this machine",
    "view": "serves pages from here",
    "serve": "is the server",
    "worker": "works for a server, over its database",
    "mcp": "has a server of its own to speak to, and says nothing to people",
    "compete": "asks a server either way, its own where there is no other: test_compete.py",
    "login": "is about servers; tests/cli/test_login.py",
    "logout": "is about servers; tests/cli/test_login.py",
    "whoami": "is about servers; tests/cli/test_login.py",
    "formula check": "reads what is typed",
    "formula explain": "reads what is typed",
    **contest_stories.ONLY_HERE,
}
"""Commands that keep nothing and read nothing that is kept, or are for whoever has the database."""
TOLD_OTHERWISE: dict[str, str] = {
    "runs --json --limit 2": "a server does not keep the folder of a run, and marks what was sent",
    **contest_stories.TOLD_OTHERWISE,
}
"""Lines whose words differ, and why; both are played."""
THERE = (
    "suite.yaml",
    "suite.yaml -v --fail-under 190",
    "suite.yaml -q -m echo/a -m echo/b --epochs 2",
    "other.yaml -q --limit 1 --baseline latest",
)
"""What `tally run --remote` is given."""
TODAY = (
    Mask("run", r"\b(r[0-9a-hjkmnp-tv-z]{10})\b", "a run's id has the time in it", numbered=True),
    Mask("group", r"\b(g[0-9a-hjkmnp-tv-z]{10})\b", "so has a group's", numbered=True),
    Mask("webhook", r"(whk_[0-9a-f]+|whsec_[\w+/=]+)", "it is drawn by lot"),
    Mask(
        "moment",
        r'(?:"|_)(?:at|since|until)": (\d+(?:\.\d+)?)|(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?)'
        r"|,(\d{10}\.\d+),",
        "it was done twice",
    ),
    Mask(
        "actor",
        r'"(?:actor|author|owner|made_by)": "([^"]+)"|(?:ed|void) by ([a-z ]+?)(?=:|$)'
        r"|[, ] by ([a-z ]+)$",
        "here it is whoever is at the machine, there the key's name",
    ),
    Mask("seq", r'"seq": (\d+)', "the log there has its keys in it"),
)


@dataclass
class Way:
    """One of both: where commands are played, with what in the environment."""

    folder: Path
    env: dict[str, str]
    masker: Masker = field(init=False)

    def __post_init__(self) -> None:
        # The copied database knows where its runs were done.
        places = {str(self.folder.with_name(name)): "{here}" for name in ("here", "there")}
        self.masker = Masker(places, (*TODAY, *MASKS, *MEASURED))

    def play(self, line: str) -> str:
        """All that a command line says, and how it ends."""
        words, _, stdin = self.masker.unmask(line).partition(" <<< ")
        done = Tally(self.folder)(*shlex.split(words), stdin=stdin, env=self.env)
        typed = line.removesuffix(" --remote")
        said = f"$ {typed}\n{done.stdout}--\n{done.stderr}→ {done.returncode}\n"
        # From where somebody came, only a server knows.
        return re.sub(r',\s+"address": "[^"]+"', "", self.masker.mask(said))


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Way, Way]]:
    """Both, for all short stories."""
    with open_ways(tmp_path_factory.mktemp("both")) as both:
        yield both


@contextmanager
def open_ways(base: Path) -> Iterator[tuple[Way, Way]]:
    """Here, and there: a server over a copy of the database."""
    here, there, served = (base / name for name in ("here", "there", "served"))
    for folder in (here, there, served):
        folder.mkdir()
        for name, text in {**FILES, **contest_stories.FILES}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    quiet = {"TALLY_SERVER": "", "TALLY_KEY": "", "XDG_CONFIG_HOME": str(there / "config")}
    local = Way(here, quiet)
    for line in BEFORE:
        done = Tally(here)(*shlex.split(line), env=quiet)
        assert done.returncode < 2, done.stderr
    shutil.copytree(here / ".tally", served / ".tally")
    with serving(served) as url:
        yield local, Way(there, {**quiet, "TALLY_SERVER": url, "TALLY_KEY": KEY})


class serving:  # noqa: N801 (used like a function)
    """`tally serve` in a folder, until the end of a `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
        self.process = subprocess.Popen(
            [Path(sys.executable).parent / "tally", "serve", "--port", "0"],
            cwd=self.folder,
            env={**env, "TALLY_ADMIN_KEY": KEY},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"at (http://\S+)", line):
                return found[1]
        raise AssertionError("".join(said))

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=20)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.mark.parametrize("name", STORIES)
def test_a_command_says_the_same_here_and_there(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    lines = [line for line in STORIES[name] if not line.startswith(LONG)]
    if name in ALONE:
        with open_ways(tmp_path) as both:
            play_story(lines, both)
    else:
        play_story(lines, request.getfixturevalue("ways"))


@pytest.mark.proof
def test_so_do_refusals_and_documents(tmp_path: Path) -> None:
    together = [name for name in STORIES if name not in ALONE]
    for number, names in enumerate([together, *([name] for name in sorted(ALONE))]):
        (tmp_path / str(number)).mkdir()
        with open_ways(tmp_path / str(number)) as both:
            for name in names:
                play_story([line.removeprefix(LONG) for line in STORIES[name]], both)


def play_story(lines: Iterable[str], ways: tuple[Way, Way]) -> None:
    """Every line both ways, with the same words and the same end."""
    here, there = ways
    for line in lines:
        told, expected = there.play(line), here.play(line)
        if line not in TOLD_OTHERWISE:
            assert told == expected


@pytest.mark.parametrize("line", THERE)
def test_what_a_server_runs_says_the_same(line: str, ways: tuple[Way, Way]) -> None:
    here, there = ways
    assert there.play(f"run {line} --remote") == here.play(f"run {line}")


def test_what_the_server_has_is_no_longer_here(ways: tuple[Way, Way]) -> None:
    _, there = ways
    there.play("run suite.yaml -q")
    assert Tally(there.folder).json("runs", "--db", ".tally/unsent.db") == {"runs": []}


@pytest.mark.parametrize(
    ("role", "line", "said"),
    [
        ("", "ratings --live", "is for organisers"),
        ("", "log", "this needs a key"),
        ("tly_wrong", "leaderboard speed", "the key is not known"),
        ("viewer", "challenge close speed --reason x", "may not do this"),
        ("viewer", "ratings --live", "is for organisers"),
        ("agent --agent zed", "attempt enter sums --agent carol", "speaks for 'zed'"),
        ("admin", "rules delete ..", "nothing is called '..'"),
        ("admin", "attempt report speed --agent bob --metric rating=1 --insecure-local", "server"),
    ],
)
def test_who_may_not_gets_a_sentence(
    role: str, line: str, said: str, ways: tuple[Way, Way]
) -> None:
    _, there = ways
    tally, key = Tally(there.folder), role
    if role and not role.startswith("tly_"):
        made = tally("admin", "keys", "create", *role.split(), env=there.env)
        assert made.returncode == 0, made.stderr
        key = made.stdout.strip()
    done = tally(*line.split(), env={**there.env, "TALLY_KEY": key})
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_every_command_is_played_or_has_a_reason_not_to_be() -> None:
    played = {line for lines in STORIES.values() for line in lines if not line.startswith(LONG)}
    for command in COMMANDS:
        is_played = any(line == command or line.startswith(f"{command} ") for line in played)
        assert is_played + (command in ONLY_HERE) == 1, command
