"""Blocks: ranks are sums of their sizes, and no order of arrival makes them large or many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from tests.effort import SHARED_FIXTURE, examples
from tests.store.contest_samples import agents

from tallymark.challenges.strategies import Standing
from tallymark.store import Store
from tallymark.store.contests import boards, rank_blocks
from tallymark.store.contests.batch_memory import BatchMemory, Entrant
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.contest_tables import board_blocks
from tallymark.store.quick_statements import QuickStatements


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Blocks so small that they are split and merged all the time."""
    with monkeypatch.context() as patch:
        patch.setattr(rank_blocks, "MOST_ROWS", 16)
        yield 16


def put_all(store: Store, rows: list[tuple[str, float, float]], together: int = 1) -> None:
    """Lets attempts with these scores and times come to the board, so many at once."""

    def work(connection: Any) -> None:
        statements = QuickStatements(connection)
        memory = BatchMemory(statements)
        kept = find_challenge(connection, store.tenant, "sums", lock=True)
        memory.challenges[kept.id] = kept
        for number, (agent, score, at) in enumerate(rows, 1):
            newcomer = Entrant(0, None, None, None, None, 1)
            entrant = memory.entrants.setdefault((kept.id, agent), newcomer)
            row = {"attempt": number, "submitted_at": at, "score": score}
            boards.stand(kept, entrant, row)
            if number % together == 0 or number == len(rows):
                boards.write_entrants(statements, memory)
                for each in memory.entrants.values():
                    each.forget_new()

    store._database.write(work)


def sizes(store: Store) -> list[int]:
    with store._database.read() as connection:
        return list(
            connection.scalars(
                select(board_blocks.c.size).where(board_blocks.c.tenant == store.tenant)
            )
        )


DISTRIBUTIONS = {
    "all equal": [(f"agent-{n:03}", 1.0, 5.0) for n in range(150)],
    "ever better": [(f"agent-{n:03}", float(n), 5.0) for n in range(150)],
    "ever worse": [(f"agent-{n:03}", -float(n), 5.0) for n in range(150)],
    "all in one place, then apart": [
        (f"agent-{n % 50:03}", [0.0, 1e-9 * n, 1e9 * n][n // 50], 5.0) for n in range(150)
    ],
    "everybody overtakes everybody": [(f"agent-{n % 20:03}", float(n), 5.0) for n in range(150)],
    "all but a few leave": [(f"agent-{n:03}", float(n), 5.0) for n in range(100)]
    + [(f"agent-{n:03}", 1e6 + n, 5.0) for n in range(99, -1, -1) if n % 16],
}


@pytest.mark.parametrize("together", [1, 7, 40, 1000])
@pytest.mark.parametrize("rows", DISTRIBUTIONS.values(), ids=list(DISTRIBUTIONS))
def test_no_order_of_arrival_makes_large_or_many_blocks(
    contest: Store, small_blocks: int, rows: list[tuple[str, float, float]], together: int
) -> None:
    put_all(contest, rows, together)
    found = sizes(contest)
    agents_there = len({agent for agent, _, _ in rows})
    assert sum(found) == agents_there
    assert max(found) <= small_blocks
    assert len(found) <= 4 * agents_there / small_blocks + 2


@settings(
    max_examples=examples(12, 4),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 40).map(lambda n: f"agent-{n:02}"),
            st.sampled_from([0.0, 1.0, 2.0, 3.0, math.pi]),
            st.sampled_from([5.0, 6.0]),
        ),
        max_size=200,
    ),
    together=st.sampled_from([1, 5, 50]),
)
def test_ranks_from_blocks_are_ranks_by_sorting(
    contests: Any, small_blocks: int, rows: list[tuple[str, float, float]], together: int
) -> None:
    best: dict[str, tuple[float, float, int]] = {}
    for number, (agent, score, at) in enumerate(rows, 1):
        best[agent] = min(best.get(agent, (math.inf, 0.0, 0)), (-score, at, number))
    expected = sorted(best, key=best.__getitem__)
    with contests() as store:
        put_all(store, rows, together)
        assert agents(store) == expected
        assert [each.rank for each in map_standings(store, expected)] == [
            *range(1, len(expected) + 1)
        ]
        for offset in range(1, len(expected), 7):
            assert agents(store, offset=offset, limit=1) == [expected[offset]]


def test_a_page_may_begin_at_any_row_of_any_block(contest: Store, small_blocks: int) -> None:
    rows = [(f"agent-{n:02}", -float(n), 5.0) for n in range(3 * small_blocks)]
    put_all(contest, rows)
    assert len(sizes(contest)) > 2
    for offset, (agent, _, _) in enumerate(rows):
        assert agents(contest, offset=offset, limit=1) == [agent]
        standing = contest.boards.standing("sums", agent)
        assert standing is not None
        assert standing.rank == offset + 1
    assert agents(contest, offset=len(rows), limit=1) == []


def map_standings(store: Store, names: list[str]) -> Iterator[Standing]:
    for name in names:
        found = store.boards.standing("sums", name)
        assert found is not None
        yield found
