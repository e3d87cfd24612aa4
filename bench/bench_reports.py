"""Reported attempts: CPU of storing, scoring by a formula, ranking, rating and logging each.

Three ways on SQLite and on PostgreSQL: 64 at once in an event loop, through the writer; in bulk;
and one by one, as a command does. Beside them a plain loop that inserts rows of one table in groups
of 64. What PostgreSQL's own processes use is in it, and told apart: a writer waits for them, so all
of it is what a report takes of a writer's time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.databases import POSTGRESQL, SQLITE, Database, open_database
from bench.measurement import OURS, Bench, MakeSides, Promise, Sides
from sqlalchemy import Column, Float, Integer, MetaData, Table, Text, create_engine, insert

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.service.competition import AttemptReport, Competition

AGENTS, AT_ONCE = 5_000, 64
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
    scoring=ScoringRule(formula="1000 * succeeded - tokens_total / 100 - elapsed_s"),
)
TABLE = Table(
    "plain",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("agent", Text),
    Column("metrics", Text),
    Column("at", Float),
)


def reports(count: int, dice: random.Random) -> list[AttemptReport]:
    """Attempts of agents drawn at random."""
    return [
        AttemptReport(
            "bench",
            f"agent-{dice.randrange(AGENTS):05}",
            Metrics(
                succeeded=dice.random() < 0.9,
                tokens_total=dice.randrange(20_000),
                elapsed_ms=dice.randrange(600_000),
            ),
        )
        for _ in range(count)
    ]


def report_at_once(games: Competition, dice: random.Random, count: int) -> None:
    """So many clients, each with the next report as soon as it has an answer."""

    async def client(share: list[AttemptReport]) -> None:
        for name, agent, metrics, key in share:
            done = await games.areport(name, agent, metrics, key=key)
            assert done.state == "scored"

    async def main(given: list[AttemptReport]) -> None:
        await asyncio.gather(*(client(given[nth::AT_ONCE]) for nth in range(AT_ONCE)))

    asyncio.run(main(reports(count, dice)))


def report_in_bulk(games: Competition, dice: random.Random, count: int) -> None:
    """All in one call."""
    done = games.report_many(reports(count, dice))
    assert all(isinstance(each, Attempt) and each.state == "scored" for each in done)


def report_one_by_one(games: Competition, dice: random.Random, count: int) -> None:
    """As a command does."""
    for name, agent, metrics, key in reports(count, dice):
        games.report(name, agent, metrics, key=key)


def insert_plainly(database: Database, dice: random.Random, count: int) -> None:
    """Rows of one table, in groups."""
    url = database.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url if database.postmaster else f"sqlite:///{url}.plain")
    TABLE.create(engine, checkfirst=True)
    for start in range(0, count, AT_ONCE):
        rows = [
            {"agent": f"agent-{dice.randrange(AGENTS):05}", "metrics": "{}", "at": float(start)}
            for _ in range(AT_ONCE)
        ]
        with engine.begin() as connection:
            connection.execute(insert(TABLE), rows)
    engine.dispose()


Way = Callable[[Competition, random.Random, int], None]


def ways(name: str, way: Way) -> MakeSides:
    """So many reports at once on a database that knows the agents, beside plain rows."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        dice = random.Random(7)
        with open_database(name) as database:
            database.store.challenges.publish(CHALLENGE, b"", at=0.0)
            games = Competition(database.store)
            games.report_many(reports(AGENTS, dice))
            if way is report_at_once:
                database.store.start_writer()

            def report() -> None:
                way(games, dice, size)

            report()
            insert_plainly(database, dice, size)
            sides = {
                OURS: database.side(report, size),
                "plain rows": database.side(lambda: insert_plainly(database, dice, size), size),
            }
            if database.postmaster is not None:
                sides["PostgreSQL's own processes"] = database.server_side(report, size)
            yield sides
            games.close()

    return make


WAYS: dict[str, tuple[str, Way, tuple[int, int, int], float]] = {
    "64 at once, SQLite": (SQLITE, report_at_once, (100, 1_000, 10_000), 0.35e-3),
    "in bulk, SQLite": (SQLITE, report_in_bulk, (100, 1_000, 10_000), 0.25e-3),
    "64 at once, PostgreSQL": (POSTGRESQL, report_at_once, (100, 1_000, 10_000), 0.7e-3),
    "in bulk, PostgreSQL": (POSTGRESQL, report_in_bulk, (100, 1_000, 10_000), 0.5e-3),
    "one by one, SQLite": (SQLITE, report_one_by_one, (10, 100, 1_000), 5e-3),
}
"""On what, how, how many, and the seconds of CPU that are promised for one."""
BENCHES = tuple(
    Bench(
        name,
        "A reported attempt stored, scored, ranked, rated and logged, PostgreSQL's own processes "
        "counted.",
        ways(database, way),
        sizes,
        "reports",
        (Promise(seconds),),
        each="report",
        rounds=5,
    )
    for name, (database, way, sizes, seconds) in WAYS.items()
)
