"""How many rows of a board lie between which spots, so that a rank is a short sum.

A block is known by its lower bound and reaches up to the next one's. Bounds are whole spots, ties
broken, so a block can be split wherever it grows: neither equal scores nor ever better ones make a
large block. See docs/decisions/0010-boards.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import delete, func, insert, select, text, tuple_, update

from tallymark.store.contest_tables import board_blocks as table
from tallymark.store.contest_tables import boards

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select, Table

Spot: TypeAlias = tuple[float, float, int]
"""Where a row stands: place, submitted_at, attempt. No two rows of a board share a spot."""
FIRST: Spot = (-math.inf, 0.0, 0)
"""Before every row: the lower bound of every board's first block."""
MOST = 512
"""A block of more rows is split; one of less than an eighth is merged where that fits."""


@dataclass(frozen=True, slots=True)
class Board:
    """The live board of a challenge, or the copy that the public sees once it is frozen."""

    tenant: str
    challenge_id: int
    frozen: bool = False

    def rows(self, of: Table) -> ColumnElement[bool]:
        """What a table holds of this board."""
        mine = (of.c.challenge_id == self.challenge_id) & (of.c.frozen == self.frozen)
        return mine & (of.c.tenant == self.tenant)


@dataclass(frozen=True, slots=True)
class _Block:
    bound: Spot
    size: int


def columns(of: Table) -> tuple[Any, Any, Any]:
    """The columns that make a spot."""
    return of.c.place, of.c.submitted_at, of.c.attempt


def spot(of: Table) -> Any:
    """The spot of a table's row, to be compared with others."""
    return tuple_(*columns(of))


def add(connection: Connection, board: Board, at: Spot) -> None:
    """Counts a row that has come to this spot."""
    block = _holding(connection, board, at)
    if block is None:
        _put(connection, board, _Block(FIRST, 1))
    elif block.size < MOST:
        _resize(connection, board, block, block.size + 1)
    else:
        _split(connection, board, block)


def remove(connection: Connection, board: Board, at: Spot) -> None:
    """Counts a row that has left this spot."""
    block = _holding(connection, board, at)
    if block is None:
        raise LookupError(at)
    left = _Block(block.bound, block.size - 1)
    _resize(connection, board, block, left.size)
    if left.size < MOST // 8:
        _merge(connection, board, left)


def rows_before(connection: Connection, board: Board, at: Spot) -> int:
    """How many rows of the board come before this spot."""
    block = _holding(connection, board, at) or _Block(FIRST, 0)
    sizes = select(func.coalesce(func.sum(table.c.size), 0))
    earlier = sizes.where(board.rows(table), spot(table) < block.bound).scalar_subquery()
    inside = (
        select(func.count())
        .where(board.rows(boards), spot(boards) >= block.bound, spot(boards) < at)
        .scalar_subquery()
    )
    return int(connection.scalar(select(earlier + inside)) or 0)


def bound_at(connection: Connection, board: Board, offset: int) -> tuple[Spot, int]:
    """The bound of the block that the row after so many is in, and how many precede that bound."""
    ahead = func.sum(table.c.size).over(order_by=columns(table)) - table.c.size
    sums = select(*columns(table), ahead.label("ahead")).where(board.rows(table)).subquery()
    query = select(sums).where(sums.c.ahead <= offset).order_by(sums.c.ahead.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return (FIRST, 0) if row is None else ((row[0], row[1], row[2]), int(row.ahead))


def total(connection: Connection, board: Board) -> int:
    """How many rows the board has."""
    return int(connection.scalar(select(func.sum(table.c.size)).where(board.rows(table))) or 0)


def rebuild(connection: Connection, board: Board) -> None:
    """Cuts the board into blocks anew, each half full."""
    connection.execute(delete(table).where(board.rows(table)))
    values = {"id": board.challenge_id, "frozen": board.frozen, "half": MOST // 2}
    connection.execute(_REBUILD, values | {"first": FIRST[0]})


_REBUILD = text("""
    INSERT INTO board_blocks (challenge_id, frozen, place, submitted_at, attempt, tenant, size)
    SELECT challenge_id, frozen,
           CASE nth WHEN 1 THEN :first ELSE place END,
           CASE nth WHEN 1 THEN 0 ELSE submitted_at END,
           CASE nth WHEN 1 THEN 0 ELSE attempt END,
           tenant,
           CASE WHEN total - nth < :half THEN total - nth + 1 ELSE :half END
    FROM (
        SELECT b.*,
               row_number() OVER (ORDER BY place, submitted_at, attempt) AS nth,
               (SELECT count(*) FROM boards WHERE challenge_id = :id AND frozen = :frozen) AS total
        FROM boards b WHERE challenge_id = :id AND frozen = :frozen
    ) AS numbered
    WHERE (nth - 1) % :half = 0
""")


def _holding(connection: Connection, board: Board, at: Spot) -> _Block | None:
    """The block that a spot lies in; None when the board is empty."""
    query = _blocks(board).where(spot(table) <= at)
    return _one(connection, query.order_by(*(each.desc() for each in columns(table))))


def _split(connection: Connection, board: Board, block: _Block) -> None:
    """Cuts a full block to which a row has just come: its upper half becomes a block."""
    half = MOST // 2
    query = select(*columns(boards)).where(board.rows(boards), spot(boards) >= block.bound)
    middle = connection.execute(query.order_by(*columns(boards)).offset(half).limit(1)).one()
    _resize(connection, board, block, half)
    _put(connection, board, _Block((middle[0], middle[1], middle[2]), block.size + 1 - half))


def _merge(connection: Connection, board: Board, block: _Block) -> None:
    """Joins a small block with a neighbour, if both together leave room to grow."""
    earlier = _blocks(board).where(spot(table) < block.bound)
    later = _blocks(board).where(spot(table) > block.bound)
    previous = _one(connection, earlier.order_by(*(each.desc() for each in columns(table))))
    following = _one(connection, later.order_by(*columns(table)))
    for first, second in ((previous, block), (block, following)):
        if first is not None and second is not None and first.size + second.size <= MOST // 2:
            connection.execute(delete(table).where(_is(board, second)))
            _resize(connection, board, first, first.size + second.size)
            return


def _blocks(board: Board) -> Select[Any]:
    return select(*columns(table), table.c.size).where(board.rows(table))


def _one(connection: Connection, query: Select[Any]) -> _Block | None:
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else _Block((row[0], row[1], row[2]), row[3])


def _is(board: Board, block: _Block) -> ColumnElement[bool]:
    same: ColumnElement[bool] = spot(table) == block.bound
    return board.rows(table) & same


def _resize(connection: Connection, board: Board, block: _Block, size: int) -> None:
    connection.execute(update(table).where(_is(board, block)).values(size=size))


def _put(connection: Connection, board: Board, block: _Block) -> None:
    place, submitted_at, attempt = block.bound
    connection.execute(
        insert(table).values(
            challenge_id=board.challenge_id,
            frozen=board.frozen,
            place=place,
            submitted_at=submitted_at,
            attempt=attempt,
            tenant=board.tenant,
            size=block.size,
        )
    )
