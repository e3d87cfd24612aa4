"""Rescoring at size: a million attempts by 100,000 agents, by another formula.

Measures applying it, from the call to the commit: new scores, the old ones in the history, the
new order written. Beside it, in the same run, the plain way: all rows read into Python, scored and
written back, without history and order. Exits 1 when a promise is broken.
"""

from __future__ import annotations

import itertools
import sys

from bench.bench_boards import AGENTS, ATTEMPTS, CHALLENGE, attempts, databases, timed
from sqlalchemy import text

from tallymark.challenges.rescoring import Plan, by_scoring
from tallymark.formula import Formula
from tallymark.store import Store, open_store

FORMULA = "if(succeeded, 1000 - elapsed_s / {n} - 10 * cost, 0)"
PROMISE = 1.5
ROUNDS = 3
_numbers = itertools.count(60)


def apply(store: Store) -> None:
    """By a formula that nobody has tried before, so that every score changes."""
    old = store.challenges.get("bench")
    new = by_scoring(old, formula=FORMULA.format(n=next(_numbers)))
    done = store.rescorings.apply(Plan.of(old, new), at=0.0)
    assert done.attempts == ATTEMPTS


def plain(store: Store) -> None:
    """Reads, computes and writes back, in one transaction that is not kept."""
    formula = Formula.parse(FORMULA.format(n=60), ["succeeded", "elapsed_s", "cost"])
    database = store._database  # noqa: SLF001  what a caller outside would do
    with database.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT challenge_id, agent, attempt, succeeded, elapsed_ms, cost FROM attempt_scores"
        ).all()
        new = [
            (formula.evaluate({"succeeded": s, "elapsed_s": e / 1000, "cost": c}), *key)
            for *key, s, e, c in rows
        ]
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        where = " AND ".join(f"{name} = {mark}" for name in ("challenge_id", "agent", "attempt"))
        statement = f"UPDATE attempt_scores SET score = {mark} WHERE {where}"
        connection.exec_driver_sql(statement, new)
        connection.rollback()


def measure(name: str, store: Store) -> bool:
    store.challenges.publish(CHALLENGE, b"", at=0.0)
    store.attempts.load("bench", attempts(), at=0.0, rated=False)
    took = min(timed(lambda: apply(store)) for _ in range(ROUNDS))
    broken = name == "SQLite" and took > PROMISE
    promised = f", at most {PROMISE:.1f}" if name == "SQLite" else ""
    print(f"  applied                {took:7.2f} s{promised}{'   BROKEN' if broken else ''}")
    if name == "SQLite":
        slow = timed(lambda: plain(store))
        print(f"  through Python         {slow:7.2f} s, without history and order")
    with store._database.read() as connection:  # noqa: SLF001
        kept = connection.execute(text("SELECT count(*) FROM score_history")).scalar_one()
    print(f"  scores in the history  {kept:,}")
    return not broken


def main() -> bool:
    kept = True
    with databases() as urls:
        for name, url in urls.items():
            print(f"rescoring {ATTEMPTS:,} attempts of {AGENTS:,} agents on {name}")
            with open_store(url) as store:
                kept &= measure(name, store)
    return kept


if __name__ == "__main__":
    sys.exit(not main())
