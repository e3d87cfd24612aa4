"""`run()` of a Python suite against pydantic-evals and DeepEval: an instant agent, one scorer.

By default pydantic-evals starts all cases at once and we start 10; it is quicker when it is told
the same, so that is measured too. Memory is the most that a process of its own holds.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any

from bench.measurement import (
    OURS,
    Bench,
    MakeSides,
    Promise,
    Side,
    Sides,
    find_scale,
    read_peak,
)

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_DISABLE_DOTENV": "1"}
SIZES = (50, 500, 5_000)
KEPT = "kept"


def sync_agent(_: object) -> str:
    return "Your refund is on its way."


async def async_agent(_: object) -> str:
    return "Your refund is on its way."


AGENTS: dict[str, Any] = {"sync": sync_agent, "async": async_agent}


def tallymark(cases: int) -> Callable[[Any], object]:
    from tallymark.scoring import load_scorer
    from tallymark.suites import Suite, Test, run

    suite = Suite(
        "bench",
        [Test(f"case {n}", {"query": f"question {n}"}) for n in range(cases)],
        scorers={"contains": load_scorer("contains", values=["refund"])},
    )

    def work(agent: Any) -> object:
        report = run(suite, agent)
        assert report.counts["passed"] == cases
        return report

    return work


def pydantic_evals(cases: int, at_once: int | None = None) -> Callable[[Any], object]:
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import Contains

    dataset: Any = Dataset(
        name="bench",
        cases=[Case(name=f"case {n}", inputs={"query": f"question {n}"}) for n in range(cases)],
        evaluators=[Contains(value="refund")],
    )

    def work(agent: Any) -> object:
        report = dataset.evaluate_sync(agent, progress=False, max_concurrency=at_once)
        assert len(report.cases) == cases
        return report

    return work


def deepeval(cases: int) -> Callable[[Any], object]:
    from deepeval.evaluate import evaluate
    from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    class Contains(BaseMetric):  # type: ignore[misc]  # it has no types of its own
        threshold = 0.5

        def measure(self, test_case: Any, *_: Any, **__: Any) -> float:
            self.score = float("refund" in test_case.actual_output)
            self.success = self.score >= self.threshold
            return self.score

        async def a_measure(self, test_case: Any, *_: Any, **__: Any) -> float:
            return self.measure(test_case)

        def is_successful(self) -> bool:
            return bool(self.success)

    def work(agent: Any) -> object:
        asked = [(f"question {n}", agent({})) for n in range(cases)]
        given = [LLMTestCase(input=question, actual_output=said) for question, said in asked]
        metrics: list[BaseMetric] = [Contains()]
        with redirect_stdout(io.StringIO()):  # it praises itself whatever it is told
            report = evaluate(
                given,
                metrics,
                async_config=AsyncConfig(run_async=False),
                display_config=DisplayConfig(show_indicator=False, print_results=False),
                cache_config=CacheConfig(write_cache=False),
            )
        assert len(report.test_results) == cases
        return report

    return work


SIDES: dict[str, Callable[[int], Callable[[Any], object]]] = {
    OURS: tallymark,
    "pydantic-evals": pydantic_evals,
    "pydantic-evals, 10 at once": lambda cases: pydantic_evals(cases, 10),
}


def seconds(kind: str) -> MakeSides:
    """CPU of all cases; DeepEval gets few, because each takes milliseconds, and only calls."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        agent = AGENTS[kind]
        sides = {name: Side(partial(side(size), agent), size) for name, side in SIDES.items()}
        if kind == "sync":
            few = deepeval(100)
            sides["DeepEval"] = Side(lambda: few(agent), 100, rounds=3)
        yield sides

    return make


@contextmanager
def memory(size: int) -> Iterator[Sides]:
    """Each in a process of its own."""

    def measure(name: str) -> float:
        words = [sys.executable, "-W", "ignore", "-m", "bench.bench_run", name, str(size)]
        return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    yield {name: Side(partial(measure, name), told=True) for name in SIDES}


def keep(cases: int) -> float:
    """Run a suite with a store of its own; seconds of CPU."""
    from tallymark.scoring import load_scorer
    from tallymark.suites import Suite, Test, run

    suite = Suite(
        "bench",
        [Test(f"case {n}", {"query": f"question {n}"}) for n in range(cases)],
        scorers={"contains": load_scorer("contains", values=["refund"])},
    )
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        began = time.process_time()
        run(suite, sync_agent, store=f"{folder}/tally.db")
        return time.process_time() - began


@contextmanager
def keeping(size: int) -> Iterator[Sides]:
    keep(10)  # what is loaded once
    yield {OURS: Side(lambda: keep(size) * find_scale(), size, told=True)}


@contextmanager
def kept_memory(size: int) -> Iterator[Sides]:
    words = [sys.executable, "-W", "ignore", "-m", "bench.bench_run", KEPT, str(size)]

    def measure() -> float:
        return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    yield {OURS: Side(measure, told=True)}


BENCHES = (
    Bench(
        "an agent that is a function",
        "Cases of a Python suite, asked, scored and summed up: at least ten times as fast as "
        "pydantic-evals.",
        seconds("sync"),
        SIZES,
        "cases",
        (Promise(0.1, "pydantic-evals"), Promise(0.05, "DeepEval")),
        each="case",
        rounds=3,
    ),
    Bench(
        "an agent that is a coroutine",
        "The same in the event loop.",
        seconds("async"),
        SIZES,
        "cases",
        (Promise(0.1, "pydantic-evals"),),
        each="case",
        rounds=3,
    ),
    Bench(
        "a suite that is kept",
        "A case of a Python suite, asked, scored and kept in SQLite: 30 µs of bookkeeping.",
        keeping,
        (1_000, 10_000, 100_000),
        "cases",
        (Promise(30e-6),),
        each="case",
        rounds=3,
    ),
    Bench(
        "memory of a suite that is kept",
        "The most that a process holds that runs it: 160 MB with 100,000 cases.",
        kept_memory,
        (1_000, 10_000, 100_000),
        "cases",
        (Promise(160.0),),
        unit="MB",
        rounds=1,
    ),
    Bench(
        "memory",
        "The most that a process holds that does the same: no more than pydantic-evals.",
        memory,
        SIZES,
        "cases",
        (Promise(1.0, "pydantic-evals"), Promise(1.0, "pydantic-evals, 10 at once")),
        unit="MB",
        rounds=1,
    ),
)


if __name__ == "__main__":
    if sys.argv[1] == KEPT:
        keep(int(sys.argv[2]))
    else:
        SIDES[sys.argv[1]](int(sys.argv[2]))(sync_agent)
    print(read_peak())
