"""Boards at size, on SQLite and on PostgreSQL: loaded, asked for, and beside window functions.

A million attempts by 100,000 agents at most. Pages are asked for of agents and places drawn at
random.
"""

from __future__ import annotations

import atexit
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from bench.databases import POSTGRESQL, SQLITE, Database, open_database
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge import Challenge, Evaluator

SIZES = (10_000, 100_000, 1_000_000)
ATTEMPTS, AGENTS = 1_000_000, 100_000
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
)
WINDOW = """
SELECT agent, score, rank() OVER (ORDER BY score DESC) FROM (
  SELECT agent, score, row_number() OVER (PARTITION BY agent ORDER BY score DESC) AS nth
  FROM attempt_scores WHERE succeeded
) AS best WHERE nth = 1 ORDER BY score DESC LIMIT 100
"""
"""A board without one: what a query over all attempts would be."""


def attempts(count: int = ATTEMPTS) -> Iterator[Attempt]:
    """Attempts of agents drawn at random, ten each; every tenth was no success."""
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
            agent=agent(dice.randrange(max(1, count // 10))),
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


_opened = ExitStack()  # until the process ends
atexit.register(_opened.close)


@cache
def open_loaded(name: str, size: int) -> tuple[Database, float]:
    """A database with so many attempts, and the CPU of loading them."""
    database = _opened.enter_context(open_database(name))
    store = database.store
    store.challenges.publish(CHALLENGE, b"", at=0.0)
    given = list(attempts(size))
    spent = database.spend(lambda: store.attempts.load("bench", given, at=0.0, rated=False))
    database.settle()
    return database, spent


def ask_by_window(database: Database) -> None:
    """The best hundred, found among all attempts."""
    with database.store._database.read() as connection:  # noqa: SLF001
        assert len(connection.exec_driver_sql(WINDOW).all()) == 100


@contextmanager
def loads(size: int) -> Iterator[Sides]:
    """Attempts that were scored elsewhere."""
    lite, postgres = (open_loaded(name, size)[1] for name in (SQLITE, POSTGRESQL))
    yield {OURS: Side(lambda: lite, told=True), POSTGRESQL: Side(lambda: postgres, told=True)}


Question = Callable[[Database, random.Random, int], object]
PAGES: dict[str, Question] = {
    "the first 100": lambda database, _, __: database.store.boards.top("bench"),
    "an agent's neighbours": lambda database, dice, agents: database.store.boards.around(
        "bench", agent(dice.randrange(agents))
    ),
    "100 from deep inside": lambda database, dice, agents: database.store.boards.top(
        "bench", offset=dice.randrange(agents)
    ),
}
ROWS: dict[str, Question] = {
    "the rank of an agent": lambda database, dice, agents: database.store.boards.standing(
        "bench", agent(dice.randrange(agents))
    ),
    "an attempt's scores": lambda database, dice, agents: database.store.attempts.history(
        f"a{dice.randrange(1, agents)}"
    ),
}


def pages(question: Question, times: int = 100) -> MakeSides:
    """A question to PostgreSQL, beside the same to SQLite and beside window functions."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        lite, postgres = (open_loaded(name, size)[0] for name in (SQLITE, POSTGRESQL))
        dice = random.Random(11)

        def ask(database: Database) -> float:
            return database.spend(lambda: question(database, dice, size // 10), times)

        for database in (lite, postgres):
            ask(database)
        yield {
            OURS: Side(lambda: ask(postgres), told=True),
            SQLITE: Side(lambda: ask(lite), told=True),
            "window functions": postgres.side(lambda: ask_by_window(postgres), rounds=3),
        }

    return make


BENCHES = (
    Bench(
        "loading",
        "`attempts.load` into SQLite: a million attempts in 25 s at most.",
        loads,
        SIZES,
        "attempts",
        (Promise(25.0),),
        rounds=1,
    ),
    *(
        Bench(
            name,
            "A page of a board on PostgreSQL, its processes counted: 10 ms with 100,000 agents.",
            pages(question),
            SIZES,
            "attempts",
            (Promise(10e-3), Promise(0.1, "window functions")),
            rounds=5,
        )
        for name, question in PAGES.items()
    ),
    *(
        Bench(
            name,
            "A single row on PostgreSQL, its processes counted: 10 ms with 100,000 agents.",
            pages(question),
            SIZES,
            "attempts",
            (Promise(10e-3), Promise(0.1, "window functions")),
            rounds=5,
        )
        for name, question in ROWS.items()
    ),
)
