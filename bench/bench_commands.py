"""What people wait for when they type a command: CPU of the process from its start to its end.

As on a core on which `python -c pass` takes 11 ms. The provider is a server on loopback, in a
process of its own, that answers at once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measurement import (
    OURS,
    Bench,
    MakeSides,
    Promise,
    Side,
    Sides,
    find_scale,
    measure_process,
)
from scripts.server_process import TALLY, serve

from tallymark.store import open_store

PROVIDER = Path(__file__).parents[1] / "tests" / "models" / "provider_server.py"
STARTS = (1, 10, 100)
CASES = (1, 10, 100)


def start(*words: str) -> MakeSides:
    """A command that does nothing but tell something."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        def spend() -> float:
            return sum(measure_process([TALLY, *words]) for _ in range(size)) * find_scale()

        yield {OURS: Side(spend, size, told=True)}

    return make


def run(model: str) -> MakeSides:
    """A suite of so many cases, kept."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder, provide() as url:
            suite = Path(folder, "suite.yaml")
            case = "- {{name: case-{0}, prompt: question {0}, checks: [{{match: '*'}}]}}"
            cases = "\n".join(case.format(number) for number in range(size))
            suite.write_text(f"evals:\n{cases}\n", "utf-8")
            command = [TALLY, "run", str(suite), "-m", model, "--db", f"{folder}/tally.db"]
            with open_store(f"{folder}/tally.db") as store:
                store.prepare()
            keys = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1"}
            work = lambda: measure_process(command, **keys) * find_scale()  # noqa: E731
            yield {OURS: Side(work, told=True)}

    return make


@contextmanager
def provide() -> Iterator[str]:
    """The address of a provider, until the end of the block."""
    server = subprocess.Popen(
        [sys.executable, str(PROVIDER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.communicate()


@contextmanager
def listening(size: int) -> Iterator[Sides]:
    """A server on a store that is there, until it says where it listens."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        db = f"{folder}/tally.db"
        with open_store(db) as store:
            store.prepare()

        def spend() -> float:
            spent = 0.0
            for _ in range(size):
                with serve(db) as server:
                    spent += server.cpu
            return spent * find_scale()

        yield {OURS: Side(spend, size, told=True)}


BENCHES = (
    *(
        Bench(
            f"tally {word}",
            "A start: 100 ms.",
            start(word),
            STARTS,
            "starts",
            (Promise(100e-3),),
            each="start",
            rounds=1,
        )
        for word in ("--help", "--version")
    ),
    Bench(
        "tally run, a provider",
        "A small suite against a model of OpenAI's: 1 s, most of it for loading the libraries.",
        run("openai/gpt-5-mini"),
        CASES,
        "cases",
        (Promise(1.0),),
        rounds=3,
    ),
    Bench(
        "tally run, no provider",
        "The same against `echo/`: half a second.",
        run("echo/me"),
        CASES,
        "cases",
        (Promise(0.5),),
        rounds=3,
    ),
    Bench(
        "tally serve",
        "Until it listens: 0.8 s.",
        listening,
        (1, 10, 100),
        "starts",
        (Promise(0.8),),
        each="start",
        rounds=1,
    ),
)
