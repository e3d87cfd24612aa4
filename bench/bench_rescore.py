"""Rescoring at size: a million attempts by 100,000 agents, by another formula.

Applying it, from the call to the commit: every score is another, the old ones are in the history,
the new order is written. Beside it a plain UPDATE of as many numbers inside SQLite, and the plain
way: all rows read into Python, scored and written back, without history and order.
"""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.bench_boards import SIZES, agent, open_loaded
from bench.databases import POSTGRESQL, SQLITE
from bench.measurement import OURS, Bench, Promise, Sides

from tallymark.challenges.rescore_plan import RescorePlan, change_scoring
from tallymark.formula import Formula
from tallymark.store import Store

FORMULA = "if(succeeded, 1000 - elapsed_s / {n} - 10 * cost, 0)"
_numbers = itertools.count(60)


def apply(store: Store) -> None:
    """By a formula that nobody has tried before, so that every score changes."""
    old = store.challenges.get("bench")
    new = change_scoring(old, formula=FORMULA.format(n=next(_numbers)))
    done = store.rescorings.apply(RescorePlan.of(old, new), at=0.0)
    assert (done.attempts > 0, done.undefined) == (True, 0)


def check(store: Store) -> None:
    """The best of the board has the score of the last rule."""
    best = store.boards.top("bench", limit=1)[0]
    assert best.attempt is not None
    outcome = store.attempts.get(best.attempt).outcome
    assert outcome is not None
    assert best.score == outcome.score == store.attempts.history(best.attempt)[-1].score


def plain(store: Store) -> None:
    """Reads, computes and writes back, in one transaction that is not kept."""
    formula = Formula.parse(FORMULA.format(n=60), ["succeeded", "elapsed_s", "cost"])
    database = store._database  # noqa: SLF001  what a caller outside would do
    key = ("challenge_id", "agent", "submitted_at", "attempt")
    with database.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            f"SELECT {', '.join(key)}, succeeded, elapsed_ms, cost FROM attempt_scores"
        ).all()
        new = [
            (formula.evaluate({"succeeded": s, "elapsed_s": e / 1000, "cost": c}), *place)
            for *place, s, e, c in rows
        ]
        where = " AND ".join(f"{name} = ?" for name in key)
        connection.exec_driver_sql(f"UPDATE attempt_scores SET score = ? WHERE {where}", new)
        connection.rollback()


@contextmanager
def plain_update(size: int) -> Iterator[Callable[[], object]]:
    """So many numbers, each computed from its neighbour."""
    with tempfile.NamedTemporaryFile(prefix="tally-bench-") as file:
        connection = sqlite3.connect(file.name, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE numbers (key INTEGER PRIMARY KEY, name, cost REAL, score REAL)"
        )
        rows = ((agent(number), number / 7, 0.0) for number in range(size))
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO numbers (name, cost, score) VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
        yield lambda: connection.execute("UPDATE numbers SET score = score + cost * 3.0")
        connection.close()


@contextmanager
def rescorings(size: int) -> Iterator[Sides]:
    """On SQLite."""
    lite, _ = open_loaded(SQLITE, size)
    with plain_update(size) as update:
        yield {
            OURS: lite.side(lambda: apply(lite.store)),
            "a plain UPDATE": lite.side(update),
            "through Python": lite.side(lambda: plain(lite.store), rounds=1),
        }
    check(lite.store)


@contextmanager
def on_both(size: int) -> Iterator[Sides]:
    """On PostgreSQL beside SQLite."""
    lite, postgres = (open_loaded(name, size)[0] for name in (SQLITE, POSTGRESQL))
    yield {
        OURS: postgres.side(lambda: apply(postgres.store)),
        SQLITE: lite.side(lambda: apply(lite.store)),
    }
    check(postgres.store)


BENCHES = (
    Bench(
        "another formula",
        "Every attempt rescored on SQLite, with history and order: 8 s for a million.",
        rescorings,
        SIZES,
        "attempts",
        (Promise(8.0),),
        rounds=3,
    ),
    Bench(
        "another formula on PostgreSQL",
        "The same there, its processes counted: at most twice SQLite.",
        on_both,
        SIZES,
        "attempts",
        (Promise(2.0, SQLITE),),
        rounds=3,
    ),
)
