"""The rows of a board, one for each agent with its best attempt: rebuilt, copied and ranked.

A rank is a count on the index that orders a board. The caller of what writes holds the challenge's
lock. Nothing here touches the copy that the public sees of a frozen board but `freeze_if_due`,
`copy_for_public`, which make it, and `unfreeze`, `remove_copy`, which remove it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import delete, func, insert, literal, select, text, tuple_, update

from tallymark.challenges.strategies import STRATEGIES
from tallymark.store.contests import audit_log
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.tables import boards, challenges

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement, Connection

    from tallymark.store.contests.challenges import StoredChallenge

Spot: TypeAlias = tuple[float, float, int]
"""Position of a row: place, submitted_at, attempt. No two rows of a board share a spot."""
SPOT = (boards.c.place, boards.c.submitted_at, boards.c.attempt)
"""The columns that order a board."""


@dataclass(frozen=True, slots=True)
class Board:
    """The live board of a challenge, or the public's copy while it is frozen."""

    tenant: str
    challenge_id: int
    frozen: bool

    @property
    def key(self) -> tuple[int, bool]:
        return self.challenge_id, self.frozen

    def rows(self, of: Any = boards) -> ColumnElement[bool]:
        """Condition for the rows of this board; `of` is an alias of the table."""
        found: ColumnElement[bool] = (of.c.challenge_id == self.challenge_id) & (
            of.c.frozen == self.frozen
        )
        return found


def compare_spot(at: Spot) -> Any:
    """A spot as a value in SQL, to be compared with `tuple_(*SPOT)`."""
    values = zip(at, SPOT, strict=True)
    return tuple_(*(literal(value, column.type) for value, column in values))


def count_rows(connection: Connection, board: Board) -> int:
    """Count the rows of a board by the index that orders it.

    PostgreSQL looks up every row of a page that changed since it was vacuumed, and in the order of
    the primary key those lie far apart (80 ms instead of 15).
    """
    query = select(func.count()).select_from(boards).where(board.rows())
    return connection.scalar(query.where(boards.c.place >= -math.inf)) or 0


def count_rows_before(
    connection: Connection, board: Board, spots: Collection[Spot]
) -> dict[Spot, int]:
    """Count the rows of a board before each of these spots.

    Counting from place to place takes one pass over the index for many spots. Ties are counted
    separately: a database compares single columns faster than rows.
    """
    found: dict[Spot, int] = {}
    query = select(func.count()).select_from(boards).where(board.rows())
    better, last = 0, -math.inf
    for place, submitted_at, attempt in sorted(spots):
        if place > last:
            between = query.where(boards.c.place >= last, boards.c.place < place)
            better, last = better + (connection.scalar(between) or 0), place
        tied = query.where(
            boards.c.place == place,
            tuple_(boards.c.submitted_at, boards.c.attempt)
            < tuple_(literal(submitted_at), literal(attempt)),
        )
        found[place, submitted_at, attempt] = better + (connection.scalar(tied) or 0)
    return found


def rebuild(connection: Connection, kept: StoredChallenge) -> None:
    """Build the live board from all scores, without reading them into Python."""
    connection.execute(delete(boards).where(kept.live_board.rows()))
    _insert_rows(connection, kept)


def rebuild_agent(connection: Connection, kept: StoredChallenge, agent: str) -> None:
    """Put one agent where its scores now put it, or nowhere."""
    mine = kept.live_board.rows() & (boards.c.agent == agent)
    connection.execute(delete(boards).where(mine))
    _insert_rows(connection, kept, agent)


_VOIDED = "SELECT key FROM attempts WHERE challenge_id = :id AND voided_at IS NOT NULL"


def _insert_rows(connection: Connection, kept: StoredChallenge, agent: str | None = None) -> None:
    strategy = STRATEGIES[kept.challenge.scoring.strategy]
    counted = "challenge_id = :id"
    values: dict[str, object] = {"id": kept.id, "tenant": kept.tenant, "last": math.inf}
    if agent is not None:
        counted += " AND agent = :agent"
        values["agent"] = agent
    # Checked first: without voided attempts, none of a million is looked up.
    if connection.scalar(text(f"{_VOIDED} LIMIT 1"), {"id": kept.id}) is not None:
        counted += f" AND attempt NOT IN ({_VOIDED})"
    value = f"CAST({strategy.column} AS double precision)"
    sign = "-" if strategy.highest_first else ""
    # An attempt that does not rank has no place, but is read because it counts as a try.
    place = f"CASE WHEN ranks THEN coalesce({sign}{value}, :last) END"
    statement = _REBUILD[connection.dialect.name].format(counted=counted, value=value, place=place)
    connection.execute(text(statement), values)


def freeze_if_due(connection: Connection, kept: StoredChallenge, at: float) -> None:
    """Copy the board for the public before the first change at or after the freeze."""
    if kept.frozen_at is None and kept.is_frozen(at):
        copy_for_public(connection, kept)
        _set_frozen(connection, kept, at, "frozen")


def unfreeze(connection: Connection, kept: StoredChallenge, at: float) -> None:
    """Let the public see the live board again."""
    if kept.frozen_at is not None:
        remove_copy(connection, kept)
        _set_frozen(connection, kept, at, "unfrozen")


def copy_for_public(connection: Connection, kept: StoredChallenge) -> None:
    """Copy the live board for the public."""
    copied = [literal(True) if each is boards.c.frozen else each for each in boards.c]
    query = select(*copied).where(kept.live_board.rows())
    connection.execute(insert(boards).from_select(boards.c.keys(), query))


def remove_copy(connection: Connection, kept: StoredChallenge) -> None:
    """Remove the public's copy."""
    connection.execute(delete(boards).where(kept.frozen_board.rows()))


def _set_frozen(connection: Connection, kept: StoredChallenge, at: float, event: str) -> None:
    change = {"frozen_at": at if event == "frozen" else None}
    connection.execute(update(challenges).where(challenges.c.id == kept.id).values(change))
    entry = AuditEntry(at=at, actor=SYSTEM, event=event)
    audit_log.write_entry(connection, kept.tenant, kept.id, None, entry)


# SQLite reads the attempts in the order in which ties are broken, agent by agent: the other columns
# of a `min` are those of the first row that has it. PostgreSQL has no such order: it compares
# lists that begin with the place and with what breaks ties, so that it need not sort attempts. It
# sorts the rows found: rows that are inserted in the order of the board lie in it, so that those of
# a page are together, and the index that orders the board grows from leaf to leaf.
_REBUILD = {
    "sqlite": """
        INSERT INTO boards (challenge_id, frozen, agent, tenant, place, submitted_at, attempt,
                            value, score, tries)
        SELECT * FROM (
            SELECT :id, FALSE, agent, :tenant,
                   min({place}) AS place,
                   submitted_at, attempt, {value}, score,
                   count(*) FILTER (WHERE error IS NULL)
            FROM attempt_scores WHERE {counted} GROUP BY agent
        ) WHERE place IS NOT NULL
    """,
    "postgresql": """
        INSERT INTO boards (challenge_id, frozen, agent, tenant, place, submitted_at, attempt,
                            value, score, tries)
        SELECT :id, FALSE, agent, :tenant,
               best[1], best[2], CAST(best[3] AS bigint), best[4], best[5], tries
        FROM (
            SELECT agent,
                   min(ARRAY[{place}, submitted_at, attempt, {value}, score]) AS best,
                   count(*) FILTER (WHERE error IS NULL) AS tries
            FROM attempt_scores WHERE {counted}
            GROUP BY agent
        ) AS found
        WHERE best[1] IS NOT NULL
        ORDER BY best[1], best[2], best[3]
    """,
}
