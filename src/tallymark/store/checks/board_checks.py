"""Boards, the blocks that count their rows, and ratings, computed again from the attempts."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tallymark.challenges.strategies import STRATEGIES, Strategy
from tallymark.ratings import Counts, EloRating, elo
from tallymark.store.checks.frozen_checks import check_frozen_rows
from tallymark.store.contests import matches
from tallymark.store.contests.tables import (
    attempt_scores,
    attempts,
    boards,
    challenges,
    rating_pairs,
    ratings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Row

    from tallymark.ratings import Match
    from tallymark.store.checks.findings import Findings
    from tallymark.store.contests.board_rows import Board
    from tallymark.store.contests.challenges import StoredChallenge

_FIELDS = ("place", "submitted_at", "attempt", "value", "score", "tries")
_PAIR = ("wins", "draws", "losses")


def check_boards(connection: Connection, kept: StoredChallenge, findings: Findings) -> None:
    """The live board by all scores, and the public's copy by what was known then."""
    name = kept.challenge.name
    rows = _read_rows(connection, kept.live_board)
    should = dict(_compute_rows(connection, kept))
    for agent in sorted(rows.keys() | should.keys()):
        findings.note_checked("boards")
        stored, computed = rows.get(agent, {}), should.get(agent, {})
        if not (stored and computed):
            what = (bool(stored), bool(computed))
            findings.add("boards", kept.tenant, f"{agent} at {name}", "a row on the board", *what)
            continue
        findings.compare("boards", kept.tenant, f"{agent} on the board of {name}", stored, computed)
    frozen = _read_rows(connection, kept.frozen_board)
    if frozen and kept.frozen_at is None:
        findings.add("boards", kept.tenant, name, "rows of a frozen board", len(frozen), 0)
    if kept.frozen_at is not None:
        check_frozen_rows(connection, kept, frozen, findings)


def _read_rows(connection: Connection, board: Board) -> dict[str, dict[str, Any]]:
    query = select(boards.c.agent, *(boards.c[name] for name in _FIELDS)).where(board.rows())
    return {
        agent: dict(zip(_FIELDS, values, strict=True))
        for agent, *values in connection.execute(query)
    }


def _compute_rows(
    connection: Connection, kept: StoredChallenge
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each agent with its best attempt: as `board_rows` has it in SQL, here row by row."""
    strategy = STRATEGIES[kept.challenge.scoring.strategy]
    mine = attempts.c.challenge_id == kept.id
    void = set(
        connection.scalars(select(attempts.c.key).where(mine, attempts.c.voided_at.is_not(None)))
    )
    scores = attempt_scores.c
    query = select(attempt_scores).where(scores.challenge_id == kept.id)
    query = query.order_by(scores.agent, scores.submitted_at, scores.attempt)
    with connection.execute(query, execution_options={"yield_per": 1000}) as found:
        for agent, rows in groupby(found, key=lambda row: row.agent):
            best: dict[str, Any] | None = None
            tries = 0
            for row in rows:
                if row.attempt in void:
                    continue
                tries += row.error is None
                placed = _place_row(row, strategy) if row.ranks else None
                if placed is not None and (best is None or placed["place"] < best["place"]):
                    best = placed
            if best is not None:
                yield agent, best | {"tries": tries}


def _place_row(row: Row[Any], strategy: Strategy) -> dict[str, Any]:
    number = getattr(row, strategy.column)
    value = None if number is None else float(number)
    return {
        "place": strategy.place(value),
        "submitted_at": row.submitted_at,
        "attempt": row.attempt,
        "value": value,
        "score": row.score,
    }


def check_ratings(connection: Connection, tenant: str, findings: Findings) -> None:
    """Ratings and counts, by all matches in the order in which they ended."""
    counts = Counts()

    def count_all() -> Iterator[Match]:
        for match in matches.read_matches(connection, tenant):
            findings.note_checked("matches")
            counts.add(match)
            yield match

    should = {agent: asdict(each) for agent, each in elo.replay(count_all()).items()}
    fields = tuple(asdict(EloRating()))
    query = select(ratings.c.agent, *(ratings.c[name] for name in fields))
    stored = {
        agent: dict(zip(fields, values, strict=True))
        for agent, *values in connection.execute(query.where(ratings.c.tenant == tenant))
    }
    newcomer = asdict(EloRating())
    for agent in sorted(stored.keys() | should.keys()):
        findings.note_checked("ratings")
        # Who has played none need not have a row.
        pair = stored.get(agent, newcomer), should.get(agent, newcomer)
        findings.compare("ratings", tenant, f"the rating of {agent}", *pair)
    pairs = {pair: dict(zip(_PAIR, cell, strict=True)) for pair, cell in counts.cells()}
    kept = _read_pairs(connection, tenant)
    nothing = dict.fromkeys(_PAIR, 0)
    for agent, name in sorted(kept.keys() | pairs.keys()):
        findings.note_checked("pairs of agent and challenge")
        cells = kept.get((agent, name), nothing), pairs.get((agent, name), nothing)
        findings.compare("ratings", tenant, f"{agent} at {name}", *cells)


def _read_pairs(connection: Connection, tenant: str) -> dict[tuple[str, str], dict[str, int]]:
    table = rating_pairs.c
    query = (
        select(table.agent, challenges.c.name, *(table[name] for name in _PAIR))
        .join(challenges, challenges.c.id == table.challenge_id)
        .where(table.tenant == tenant)
    )
    return {
        (agent, name): dict(zip(_PAIR, cell, strict=True))
        for agent, name, *cell in connection.execute(query)
    }
