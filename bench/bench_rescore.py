"""Rescoring at three sizes, up to a million attempts by 100,000 agents, by another formula.

Measures applying it, from the call to the commit: every score is another, the old ones are in the
history, the new order is written. The promise is 1.5 s where a plain UPDATE of a million numbers
inside SQLite takes 0.3 s, so that UPDATE is measured in the same run, and five of it are allowed on
a machine that is slower. Beside it the plain way: all rows read into Python, scored and written
back, without history and order. On PostgreSQL it may take 1.5 times SQLite's CPU, that of its own
processes counted. Exits 1 when a promise is broken.

    python bench/bench_rescore.py [ATTEMPTS ...]
"""

from __future__ import annotations

import itertools
import sqlite3
import sys
from collections.abc import Sequence

from bench.bench_boards import (
    ATTEMPTS,
    SIZES,
    CpuClock,
    agent,
    databases,
    fill,
    tell_growth,
    timed,
)

from tallymark.challenges.rescore_plan import RescorePlan, change_scoring
from tallymark.formula import Formula
from tallymark.store import Store, open_store

FORMULA = "if(succeeded, 1000 - elapsed_s / {n} - 10 * cost, 0)"
PROMISE, UPDATES = 1.5, 5
MOST_TIMES = 1.5
"""On PostgreSQL against SQLite."""
ROUNDS = 5
_numbers = itertools.count(60)


def apply(store: Store, count: int) -> None:
    """By a formula that nobody has tried before, so that every score changes."""
    old = store.challenges.get("bench")
    new = change_scoring(old, formula=FORMULA.format(n=next(_numbers)))
    done = store.rescorings.apply(RescorePlan.of(old, new), at=0.0)
    assert (done.attempts, done.undefined) == (count, 0)


def check(store: Store) -> None:
    """The best of the board has the score of the last rule, and the earlier ones before it."""
    best = store.boards.top("bench", limit=1)[0]
    outcome = store.attempts.get(best.attempt).outcome
    entries = store.attempts.history(best.attempt)
    assert outcome is not None
    assert best.score == outcome.score == entries[-1].score
    assert len(entries) == ROUNDS + 1


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


def update(path: str) -> float:
    """A million numbers, each computed from its neighbour."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE numbers (key INTEGER PRIMARY KEY, name, cost REAL, score REAL)"
    )
    rows = ((agent(number), number / 7, 0.0) for number in range(ATTEMPTS))
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO numbers (name, cost, score) VALUES (?, ?, ?)", rows)
    connection.execute("COMMIT")
    statement = "UPDATE numbers SET score = score + cost * 3.0"
    took = min(timed(lambda: connection.execute(statement)) for _ in range(ROUNDS))
    connection.close()
    return took


def measure(store: Store, count: int, cpu: CpuClock) -> tuple[float, float]:
    """Seconds of the quickest, and of the least CPU."""
    fill(store, count, cpu)
    took: list[float] = []
    used = [
        cpu.measure(lambda: took.append(timed(lambda: apply(store, count)))) for _ in range(ROUNDS)
    ]
    check(store)
    print(f"  applied         {min(took):7.2f} s, {min(used):.2f} s of CPU")
    return min(took), min(used)


def judge(took: float, unit: float) -> bool:
    allowed = max(PROMISE, UPDATES * unit)
    print(f"  a plain UPDATE  {unit:7.2f} s")
    print(f"  allowed         {allowed:7.2f} s{'' if took <= allowed else '   BROKEN'}")
    return took <= allowed


def measure_size(count: int) -> tuple[bool, dict[str, float]]:
    """Whether all is kept, and the CPU on each database."""
    kept, used, last = True, {}, count == ATTEMPTS
    with databases() as urls:
        cpu = CpuClock(urls)
        for name, url in urls.items():
            print(f"rescoring {count:,} attempts of {count // 10:,} agents on {name}")
            with open_store(url) as store:
                took, used[name] = measure(store, count, cpu)
                if name == "SQLite" and last:
                    kept = judge(took, update(f"{url}.plain"))
                    print(f"  through Python  {timed(lambda: plain(store)):7.2f} s")
    times = used["PostgreSQL"] / used["SQLite"]
    broken = last and times > MOST_TIMES
    print(f"on PostgreSQL it takes {times:.2f} times the CPU{'   BROKEN' if broken else ''}")
    return kept and not broken, used


def main(sizes: Sequence[int]) -> bool:
    results = [measure_size(count) for count in sizes]
    tell_growth("rescoring", sizes, [used for _, used in results])
    return all(kept for kept, _ in results)


if __name__ == "__main__":
    sys.exit(not main([int(each) for each in sys.argv[1:]] or SIZES))
