"""Queries meant for a partial index use it.

SQLite takes a partial index only where the query repeats its condition literally. SQLAlchemy sends
`column == "value"` as a bound parameter, which silently becomes a scan of the whole table. Only the
queries that SQLAlchemy writes are asked here: those written as text have the words in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from tallymark.store import Store
from tallymark.store.contests.frozen_attempts import read_voids


def read_all_voids(store: Store) -> None:
    with store._database.read() as connection:
        read_voids(connection, store.tenant)


QUERIES: list[tuple[str, Callable[[Store], Any]]] = [
    ("ix_attempts_unfinished", lambda store: store.ratings.provisional(1.0)),
    ("ix_attempts_unfinished", lambda store: store.ratings.provisional(1.0, ["sums"])),
    ("ix_attempts_unfinished", lambda store: store.attempts.pending()),
    ("ix_attempts_unfinished", lambda store: store.contest_stats.count_waiting()),
    ("ix_attempts_unfinished", lambda store: store.contest_stats.waiting()),
    ("ix_attempts_unfinished", lambda store: store.contest_stats.open_attempts_of("ada")),
    ("ix_attempts_unfinished", lambda store: store.job_queue.queue_unfinished_attempts(1.0)),
    ("ix_versus_verdicts_unjudged", lambda store: store.versus.unjudged("sums", failed=True)),
    ("ix_versus_verdicts_unjudged", lambda store: store.versus.suspects("sums")),
    ("ux_jobs_subject", lambda store: store.job_queue.count()),
    ("ix_jobs_live", lambda store: store.job_queue.is_wanted(["settle"])),
    ("ux_rules_name", lambda store: store.rules.list()),
    ("ix_contest_audit_acts", lambda store: store.audit_log.entries()),
    ("ix_contest_audit_acts", read_all_voids),
]


@contextmanager
def recorded(store: Store) -> Iterator[list[tuple[str, Any]]]:
    """The statements that SQLAlchemy sends, with their parameters."""
    asked: list[tuple[str, Any]] = []

    def record(_connection: Any, _cursor: Any, text: str, values: Any, *_: Any) -> None:
        asked.append((text, values))

    engine = store._database.engine
    event.listen(engine, "before_cursor_execute", record)
    yield asked
    event.remove(engine, "before_cursor_execute", record)


@pytest.mark.parametrize(("index", "query"), QUERIES)
def test_a_partial_index_is_used(contest: Store, index: str, query: Callable[[Store], Any]) -> None:
    with recorded(contest) as asked:
        query(contest)
    engine = contest._database.engine
    explain = "EXPLAIN QUERY PLAN " if engine.name == "sqlite" else "EXPLAIN "
    plans = []
    with engine.connect() as connection:
        if engine.name == "postgresql":  # which else reads the whole of a small table
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for text, values in asked:
            if text.startswith("SELECT"):
                plans.append(repr(connection.exec_driver_sql(explain + text, values).all()))
    assert any(index in plan for plan in plans), "\n".join(plans)
