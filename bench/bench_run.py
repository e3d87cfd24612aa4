"""`run()` against pydantic-evals: 10,000 cases, an instant agent, one contains scorer.

Promise: at least 10 times faster than `dataset.evaluate_sync(agent)`, with a peak of memory that is
no higher. By default pydantic-evals starts all cases at once and we start 10; it is quicker when it
is told the same, so that is shown too. For the time all take turns in one process and the best turn
of each counts; for the memory each has its own process.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

CASES = 10_000
TURNS = 3
PROMISE = 10.0


def sync_agent(_: object) -> str:
    return "Your refund is on its way."


async def async_agent(_: object) -> str:
    return "Your refund is on its way."


AGENTS: dict[str, Any] = {"sync": sync_agent, "async": async_agent}


def tallymark() -> Callable[[Any], object]:
    from tallymark.scoring import load_scorer
    from tallymark.suites import Suite, Test, run

    suite = Suite(
        "bench",
        [Test(f"case {n}", {"query": f"question {n}"}) for n in range(CASES)],
        scorers={"contains": load_scorer("contains", values=["refund"])},
    )

    def work(agent: Any) -> object:
        report = run(suite, agent)
        assert report.counts["passed"] == CASES
        return report

    return work


def pydantic_evals(at_once: int | None = None) -> Callable[[Any], object]:
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import Contains

    dataset: Any = Dataset(
        name="bench",
        cases=[Case(name=f"case {n}", inputs={"query": f"question {n}"}) for n in range(CASES)],
        evaluators=[Contains(value="refund")],
    )

    def work(agent: Any) -> object:
        report = dataset.evaluate_sync(agent, progress=False, max_concurrency=at_once)
        assert len(report.cases) == CASES
        return report

    return work


SIDES: dict[str, Callable[[], Callable[[Any], object]]] = {
    "tallymark": tallymark,
    "pydantic-evals": pydantic_evals,
    "pydantic-evals, 10 at once": lambda: pydantic_evals(10),
}


def seconds(agent: Any) -> dict[str, float]:
    works = {side: make() for side, make in SIDES.items()}
    best = dict.fromkeys(works, float("inf"))
    gc.collect()
    gc.freeze()  # so that no side's garbage collector walks through the others' cases
    for _ in range(TURNS):
        for side, work in works.items():
            gc.collect()
            began = time.perf_counter()
            work(agent)
            best[side] = min(best[side], time.perf_counter() - began)
    return best


def megabytes(side: str, kind: str) -> float:
    command = [sys.executable, __file__, side, kind]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    kept = True
    print(f"run(), {CASES:,} cases, an instant agent, one contains scorer")
    # First the memory: a process starts with the peak of the one that started it.
    peaks = {kind: {side: megabytes(side, kind) for side in SIDES} for kind in AGENTS}
    for kind, agent in AGENTS.items():
        best, peak = seconds(agent), peaks[kind]
        for side in SIDES:
            case, times = best[side] / CASES * 1e6, best[side] / best["tallymark"]
            print(
                f"  {kind:5}  {side:26}  {case:6.1f} µs a case ({times:4.1f}), {peak[side]:.0f} MB"
            )
        kept &= best["pydantic-evals"] / best["tallymark"] >= PROMISE
        kept &= peak["tallymark"] <= min(peak.values())
    print(f"  promised: {PROMISE:g} times faster, no more memory: {'kept' if kept else 'BROKEN'}")
    return 0 if kept else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        SIDES[sys.argv[1]]()(AGENTS[sys.argv[2]])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    else:
        sys.exit(main())
