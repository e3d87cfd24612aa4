"""Large runs by the command: memory of each, and CPU of looking at them afterwards.

Each command is a process of its own; memory is the most that it held, CPU what it and the system
spent on it, imports included.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides

SIZES = (1_000, 10_000, 100_000)
SUITE = """
metadata: {name: large, model: echo/x, threads: 100, pricing: {input: 3, output: 15}}
evals:
  - name: sums
    prompt: "What is {{var('n')}} and {{var('n')}}? Answer with a number, and with nothing else."
    cases_from: rows.csv
    checks: [{match: "*3*"}]
score: {formula: success_pct - 10 * total_cost}
"""
REPORTS = tuple(f"--report=all.{ending}" for ending in ("json", "csv", "xml", "md", "html"))
PEAK = "from bench.measurement import read_peak; print(read_peak(), file=sys.stderr)"
CODE = f"""
import atexit, sys
atexit.register(lambda: exec({PEAK!r}))
from tallymark.cli import main
main()
"""
_folder = tempfile.TemporaryDirectory(prefix="tally-bench-")


def measure(folder: Path, *words: str) -> tuple[float, float]:
    """The megabytes and the seconds of CPU that a command took."""
    said = folder / "said.txt"
    with said.open("wb") as errors:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CODE, *words, "--db=runs.db"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(child.pid, 0)
    text = said.read_text()
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(text)
    return float(text.split()[-1]), used.ru_utime + used.ru_stime


@cache
def make_runs(size: int) -> tuple[Path, float, str, str]:
    """A folder with two runs that are kept, the most that they held, and their ids."""
    folder = Path(_folder.name, str(size))
    folder.mkdir()
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "rows.csv").write_text("n\n" + "\n".join(map(str, range(size))) + "\n")
    plain, _ = measure(folder, "run", "suite.yaml")
    reported, _ = measure(folder, "run", "suite.yaml", *REPORTS)
    with sqlite3.connect(folder / "runs.db") as database:
        first, second = [row[0] for row in database.execute("SELECT id FROM runs LIMIT 2")]
    return folder, max(plain, reported), first, second


@contextmanager
def memory(size: int) -> Iterator[Sides]:
    """Of a run, and of a run that writes every report."""
    yield {OURS: Side(lambda: make_runs(size)[1], told=True)}


def look(words: Callable[[str, str], tuple[str, ...]]) -> MakeSides:
    """CPU of a command about runs that are kept."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        folder, _, first, second = make_runs(size)
        yield {OURS: Side(lambda: measure(folder, *words(first, second))[1], told=True)}

    return make


LOOKS: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "show": lambda first, _: ("show", first),
    "compare": lambda first, second: ("compare", first, second),
    "rescore --formula": lambda first, _: (
        "rescore",
        first,
        "--formula=success_pct - avg_latency",
    ),
    "rescore --suite": lambda first, _: ("rescore", first, "--suite=suite.yaml"),
}
BENCHES = (
    Bench(
        "memory of a run",
        "The most that `tally run` holds, with every report or without: less than 200 MB.",
        memory,
        SIZES,
        "cases",
        (Promise(200),),
        unit="MB",
        rounds=1,
    ),
    *(
        Bench(
            name,
            f"`tally {name}` of a run that is kept, its start included: 3 s at most.",
            look(words),
            SIZES,
            "cases",
            (Promise(3.0),),
            rounds=3,
        )
        for name, words in LOOKS.items()
    ),
)
