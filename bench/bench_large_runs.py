"""Runs of 100,000 cases by the command: memory of each, and CPU of looking at them afterwards.

Each command is a process of its own; memory is the most that it held, CPU what it and the system
spent on it, imports included.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = 100_000
MOST_MB = 200
MOST_SECONDS = 3
SUITE = """
metadata: {name: large, model: echo/x, threads: 100, pricing: {input: 3, output: 15}}
evals:
  - name: sums
    prompt: "What is {{var('n')}} and {{var('n')}}? Answer with a number, and with nothing else."
    cases_from: rows.csv
    checks: [{match: "*3*"}]
score: {formula: success_pct - 10 * total_cost}
"""
REPORTS = [f"--report=all.{ending}" for ending in ("json", "csv", "xml", "md", "html")]


def measure(folder: Path, *arguments: str) -> tuple[float, float]:
    """The megabytes and the seconds of CPU that a command took."""
    code = "from tallymark.cli import main; main()"
    said = folder / "said.txt"
    with said.open("wb") as errors:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, *arguments, "--db=runs.db"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(said.read_text())
    return used.ru_maxrss / 1024, used.ru_utime + used.ru_stime


def tell(what: str, used: tuple[float, float], *, quick: bool) -> bool:
    megabytes, seconds = used
    kept = megabytes <= MOST_MB and (not quick or seconds <= MOST_SECONDS)
    limits = f"at most {MOST_MB} MB" + (f" and {MOST_SECONDS} s" if quick else "")
    told = f"{megabytes:6.0f} MB {seconds:7.2f} s of CPU   {limits}"
    print(f"  {what:<34} {told}   {'' if kept else 'BROKEN'}")
    return kept


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "suite.yaml").write_text(SUITE)
        (folder / "rows.csv").write_text("n\n" + "\n".join(map(str, range(CASES))) + "\n")
        print(f"{CASES:,} cases by the command")
        kept = [
            tell("run", measure(folder, "run", "suite.yaml"), quick=False),
            tell("run, every report", measure(folder, "run", "suite.yaml", *REPORTS), quick=False),
            tell("run --json", measure(folder, "run", "suite.yaml", "--json"), quick=False),
        ]
        with sqlite3.connect(folder / "runs.db") as database:
            first, second = [row[0] for row in database.execute("SELECT id FROM runs LIMIT 2")]
        formula, other = "--formula=success_pct - avg_latency", "--suite=suite.yaml"
        kept += [
            tell("show", measure(folder, "show", first), quick=True),
            tell("compare", measure(folder, "compare", first, second), quick=True),
            tell("rescore --formula", measure(folder, "rescore", first, formula), quick=True),
            tell("rescore --suite", measure(folder, "rescore", first, other), quick=True),
            tell("show --json", measure(folder, "show", first, "--json"), quick=False),
        ]
    sys.exit(not all(kept))
