"""Runs benches, each module in a process of its own, and writes what they found.

    python -m bench [--quick] [NAME ...]    all, or some: the others keep their results

`--quick` measures the smallest size only and keeps nothing: to see whether a bench works.

A broken promise does not stop it: it is told at the end, and the exit code is 1; so is one that
could not be measured, since a peer is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench.measurement import Bench, measure_bench
from bench.results import (
    FOLDER,
    Row,
    describe_machine,
    is_broken,
    keep_results,
    list_broken,
    list_modules,
    list_versions,
    load_results,
    make_row,
    tell_row,
)

ALONE, QUICK = "--alone", "--quick"


def main(words: Sequence[str]) -> int:
    """0 when every promise is kept."""
    if words[:1] == [ALONE]:
        return measure_module(words[1], Path(words[2]), quick=QUICK in words)
    quick = QUICK in words
    words = [word for word in words if word != QUICK]
    modules = list_modules()
    if unknown := [name for name in words if name not in modules]:
        sys.stderr.write(f"there is no bench {unknown[0]!r}; there are {', '.join(modules)}\n")
        return 2
    now: Row = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": describe_machine()}
    now["versions"] = list_versions()
    done = {}
    for name in words or modules:
        done[name] = run_module(name, quick=quick)
        if not quick:  # what is cut off has kept what it found, and nothing of others
            kept = load_results() | now
            benches = kept["benches"] | {name: done[name]}
            keep_results(
                kept | {"benches": {each: benches[each] for each in benches if each in modules}}
            )
    broken = list(list_broken(done))
    rows = [row for benches in done.values() for row in benches]
    print("\n" + "\n".join(broken or ["every promise is kept"]))
    return int(any(map(is_broken, rows)))


def run_module(name: str, *, quick: bool) -> list[Row]:
    """In a process of its own: what it loads and leaves behind is nobody else's."""
    print(f"\n## {name}", flush=True)
    # One thread each: what is counted is the CPU of all.
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, "-W", "ignore", "-m", "bench", ALONE, name, str(path)]
        command += [QUICK] if quick else []
        done = subprocess.run(command, env=os.environ | threads, cwd=FOLDER.parent, check=False)
        rows: list[Row] = json.loads(path.read_text("utf-8")) if path.is_file() else []
    if done.returncode:
        error = f"it ended with {done.returncode}; what it said is above"
        rows.append({"name": name, "claim": "All of it.", "error": error, "promises": []})
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return rows


def measure_module(name: str, path: Path, *, quick: bool) -> int:
    """Each bench of it; one that fails does not keep the others from being measured."""
    benches: Sequence[Bench] = import_module(f"bench.bench_{name}").BENCHES
    before = {row["name"]: row for row in load_results()["benches"].get(name, [])}
    rows: list[Row] = []
    for bench in benches:
        try:
            row = make_row(bench, measure_bench(bench, quick=quick), before.get(bench.name))
        except Exception as error:  # noqa: BLE001 (told on the page, and the others are measured)
            said = f"{type(error).__name__}: {error}".partition("\n")[0]
            row = {"name": bench.name, "claim": bench.claim, "error": said, "promises": []}
        rows.append(row)
        print(tell_row(row), flush=True)
        path.write_text(json.dumps(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
