"""All engines give the same results, whatever is killed on the way.

    python -m scripts.prove_engine [--short] [--attempts N] [NAME ...]

Traces are scored, attempts rescored by a plugin and a suite is run: by one process without an
engine, by processes of this machine, and by Ray; with one of two Ray nodes killed half-way, and
with the command itself killed half-way, by SIGKILL, and typed again. What is stored, written and
exported in the end is compared byte for byte, and `tally admin check` finds no difference. And
seconds of CPU are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.engine_samples import CHALLENGE, write_attempts, write_suite, write_traces
from scripts.prove_server import judge
from scripts.ray_cluster import RayCluster, open_cluster
from scripts.server_process import read_cpu

_TALLY = str(Path(sys.executable).with_name("tally"))
_PATIENCE = 3 * 3600.0
_RESULTS = (
    "SELECT case_name, epoch, status, latency, cost, input_tokens, output_tokens, detail, trace"
    " FROM case_results ORDER BY case_name, epoch"
)
_RUNS = "SELECT status, score, score_low, score_high, metrics, passed, failed, errors FROM runs"
_ATTEMPTS = (
    "SELECT a.key, a.agent, a.state, s.score, s.result, s.error, d.details, d.evaluation"
    " FROM attempts a JOIN attempt_scores s ON s.attempt = a.key"
    " LEFT JOIN attempt_details d ON d.attempt = a.key ORDER BY a.key"
)
_BOARD = "SELECT agent, attempt, score FROM boards ORDER BY agent"
_HISTORY = "SELECT attempt, score, result, error FROM score_history ORDER BY attempt, scoring"
_PAUSES = "SELECT agent, deadly, reason FROM plugin_pauses ORDER BY agent"
_LEFT = "SELECT work, block FROM work_blocks WHERE 1"
Found = dict[str, tuple[int, str]]
"""How many rows or lines there are, and their hash, by query or file."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    traces: int = 20_000
    attempts: int = 10_000
    cases: int = 2_000
    rounds: int = 25
    """Looks of the scorer at a trace, about 20 µs each."""
    heavy_rounds: int = 170
    """The same where seconds of CPU are compared: a minute at least."""
    most_ratio: float = 1.5


SHORT = Size(traces=3000, attempts=3000, cases=600, rounds=40, heavy_rounds=60)


@dataclass(frozen=True)
class BulkCommand:
    """A command that does much, and what it leaves behind."""

    name: str
    words: Sequence[str]
    """Without the database and the engine."""
    again: Sequence[str] | None
    """What is typed after it was killed; None for the same."""
    counted: str
    """A query for how much is done."""
    compared: Sequence[str]
    files: Sequence[str] = ()
    made: Callable[[Path, Path], object] | None = None
    """What is in the database before."""


@dataclass
class Trial:
    """One way of doing it, in a folder of its own."""

    command: BulkCommand
    home: Path
    name: str
    db: Path = field(init=False)

    def __post_init__(self) -> None:
        self.db = self.home / f"{self.name}.db"
        if self.command.made is not None:
            self.command.made(self.home, self.db)

    def start(self, *more: str, again: bool = False) -> subprocess.Popen[bytes]:
        """Types the command."""
        words = self.command.words
        if again and self.command.again is not None:
            words = self.command.again
        words = [each.replace("{name}", self.name) for each in words]
        log = (self.home / f"{self.name}.log").open("ab")
        return subprocess.Popen(
            [_TALLY, *words, "--db", str(self.db), *more],
            cwd=self.home,
            stdout=log,
            stderr=log,
            env=os.environ | {"NO_COLOR": "1"},
        )

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """It ends well."""
        code = process.wait(_PATIENCE)
        if code:
            said = (self.home / f"{self.name}.log").read_text("utf-8", "replace")[-600:]
            raise AssertionError(f"{self.command.name}, {self.name}: ended with {code}: {said}")

    def run(self, *more: str) -> Found:
        """The command to its end, and what it left."""
        self.finish(self.start(*more))
        return self.read()

    def wait_for(self, process: subprocess.Popen[bytes], count: int) -> None:
        """Until so much is done."""
        deadline = time.monotonic() + _PATIENCE
        while self.count() < count:
            if process.poll() is not None:
                raise AssertionError(f"{self.name} has ended before half of it was done")
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} does not get on")
            time.sleep(0.05)

    def count(self) -> int:
        """How much is done."""
        with suppress(sqlite3.OperationalError), self._open() as connection:
            found: int = connection.execute(self.command.counted).fetchone()[0]
            return found
        return 0

    def read(self) -> Found:
        """All that is compared."""
        found: Found = {}
        with self._open() as connection:
            for query in (*self.command.compared, _LEFT):
                found[query] = _digest(repr(row).encode() for row in connection.execute(query))
        for name in self.command.files:
            with (self.home / name.replace("{name}", self.name)).open("rb") as file:
                found[name] = _digest(file)
        return found

    def check(self) -> None:
        """No differences."""
        words = [_TALLY, "admin", "check", "--db", str(self.db)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr)[-600:]
            raise AssertionError(f"{self.command.name}, {self.name}: tally admin check: {said}")

    def _open(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True))


def _digest(lines: Iterable[bytes]) -> tuple[int, str]:
    """How many there are, and a hash of them all: a million do not fit into memory twice."""
    count, digest = 0, hashlib.sha256()
    for line in lines:
        count += 1
        digest.update(line + b"\n")
    return count, digest.hexdigest()


def require_same(first: Found, other: Found, what: str) -> None:
    """AssertionError that says where they differ."""
    for key, value in first.items():
        if other[key] != value:
            counts = f"{value[0]:,} and {other[key][0]:,}"
            raise AssertionError(f"{what}: another result of {key[:60]}: {counts}")


def prove_command(command: BulkCommand, home: Path, half: int) -> str:
    """The same by every way, whatever is killed."""
    first = Trial(command, home, "alone").run()
    rows = first[command.compared[0]][0]
    require_same(first, Trial(command, home, "local").run("--workers", "2"), "local")
    require_same(first, kill_driver(command, home, half, "--workers", "2"), "local, killed")
    with open_cluster(2) as cluster:
        engine = ("--engine", f"ray:{cluster.address}")
        require_same(first, Trial(command, home, "ray").run(*engine), "ray")
        require_same(first, kill_driver(command, home, half, *engine), "ray, driver killed")
    with open_cluster(1, 1) as cluster:
        require_same(first, kill_node(command, home, half, cluster), "ray, node killed")
    return (
        f"{rows:,} results, the same byte for byte by one process, by two of this machine, by Ray,"
        " by two Ray nodes of which one was killed half-way, and by commands that were killed"
        " half-way and typed again, here and on Ray; `tally admin check` finds no difference after"
        " any of the kills"
    )


def kill_driver(command: BulkCommand, home: Path, half: int, *engine: str) -> Found:
    """What is there after a command that was killed when half of it was done, and typed again."""
    trial = Trial(command, home, f"killed-{engine[0].strip('-')}")
    process = trial.start(*engine)
    trial.wait_for(process, half)
    process.kill()
    process.wait()
    before = trial.count()
    trial.finish(trial.start(*engine, again=True))
    sys.stdout.write(f"  {command.name}: killed when {before} of about {2 * half} were done\n")
    trial.check()
    return trial.read()


def kill_node(command: BulkCommand, home: Path, half: int, cluster: RayCluster) -> Found:
    """What is there after one of two nodes was killed when half of it was done."""
    trial = Trial(command, home, "node")
    process = trial.start("--engine", f"ray:{cluster.address}")
    trial.wait_for(process, half)
    cluster.kill_node()
    trial.finish(process)
    trial.check()
    return trial.read()


def prove_traces(folder: Path, size: Size) -> str:
    """Traces of a file by a scorer of the user's."""
    write_traces(folder, size.traces, size.rounds)
    parts = (folder / "traces.jsonl").stat().st_size // (256 * 1024)
    return prove_command(TRACES, folder, parts // 2)


def prove_attempts(folder: Path, size: Size) -> str:
    """Attempts by a plugin in the sandbox; one agent's keep ending its process."""
    write_attempts(folder, str(folder / "made.db"), size.attempts, 20 * size.rounds)
    return prove_command(ATTEMPTS, folder, size.attempts // 1000)


def prove_suite(folder: Path, size: Size) -> str:
    """Cases against recorded answers, with a check that takes its time."""
    write_suite(folder, size.cases, size.rounds * 10)
    return prove_command(SUITE, folder, size.cases // 2)


TRACES = BulkCommand(
    "traces",
    ("score", "traces.jsonl", "-s", "scorers.py:polite", "-o", "{name}.jsonl", "-q"),
    None,
    "SELECT count(*) FROM work_blocks",
    (_RESULTS, _RUNS),
    ("{name}.jsonl",),
)
ATTEMPTS = BulkCommand(
    "attempts",
    ("rescore", CHALLENGE, "--plugin", "heavy.py:Heavy", "--apply"),
    None,
    "SELECT count(*) FROM work_blocks",
    (_ATTEMPTS, _BOARD, _HISTORY, _PAUSES),
    made=lambda home, db: shutil.copy(home / "made.db", db),
)
SUITE = BulkCommand(
    "suite",
    ("run", "suite.yaml", "-m", "replay/samples", "-q"),
    ("run", "--resume", "latest", "-q"),
    "SELECT count(*) FROM case_results",
    (_RESULTS, _RUNS),
)


class CpuWatch:
    """Seconds of CPU of all processes below one, also of those that have ended meanwhile."""

    def __init__(self, *roots: int) -> None:
        self._roots = set(roots)
        self._known: dict[tuple[int, str], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> float:
        """All of it."""
        self._look()
        self._ended.set()
        self._thread.join()
        return sum(self._known.values())

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self._look()

    def _look(self) -> None:
        found: dict[int, tuple[int, float, str]] = {}
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                with suppress(OSError, IndexError):
                    parent, used, _ = read_cpu(int(path.name))
                    began = (path / "stat").read_text("ascii", "replace").rpartition(")")[2]
                    found[int(path.name)] = (parent, used, began.split()[19])
        family, more = set(self._roots), set(self._roots)
        while more:
            more = {pid for pid, (parent, *_) in found.items() if parent in more} - family
            family |= more
        for pid in family & found.keys():
            _, used, began = found[pid]
            self._known[pid, began] = used


def prove_cost(folder: Path, size: Size) -> str:
    """Seconds of CPU on Ray against those of processes of this machine, for the same work."""
    write_traces(folder, size.traces, size.heavy_rounds)
    trial = Trial(TRACES, folder, "cpu-local")
    process = trial.start("--workers", "2")
    watch = CpuWatch(process.pid)
    trial.finish(process)
    local = watch.end()
    with open_cluster(2) as cluster:
        trial = Trial(TRACES, folder, "cpu-ray")
        process = trial.start("--engine", f"ray:{cluster.address}")
        # From the start of the cluster on: what it took to get there is in the first look.
        watch = CpuWatch(process.pid, cluster.process.pid)
        trial.finish(process)
        there = watch.end()
    said = (
        f"{local:.0f} s of CPU by two processes of this machine, {there:.0f} s by Ray with the"
        f" start of its cluster: {there / local:.2f} times (all processes that the command and the"
        " cluster started, read from /proc five times a second)"
    )
    if there > size.most_ratio * local:
        raise AssertionError(said)
    return said


PROOFS: dict[str, Callable[[Path, Size], str]] = {
    "traces": prove_traces,
    "attempts": prove_attempts,
    "suite": prove_suite,
    "cost": prove_cost,
}


def judge_engines(size: Size | None = None, names: list[str] | None = None) -> tuple[bool, str]:
    """Whether all of it holds, and a table of what was found."""
    return judge(PROOFS, size or Size(), names)


def main() -> int:
    """Tells what was found; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of proofs; all without any")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--attempts", type=int, help="to rescore; a million in `make soak`")
    given = parser.parse_args()
    size = SHORT if given.short else Size()
    if given.attempts is not None:
        size = replace(size, attempts=given.attempts)
    holds, _ = judge_engines(size, given.names)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
