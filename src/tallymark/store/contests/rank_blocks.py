"""How many rows of a board lie between which spots, so that a rank is a short sum.

A block is known by its lower bound and reaches up to the next one's. Bounds are whole spots, ties
broken, so a block can be split wherever it grows: neither equal scores nor ever better ones make a
large block. Statements are built once: building one takes longer than SQLite needs to run it. See
docs/decisions/0010-boards.md.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import bindparam, delete, func, insert, select, text, tuple_, update

from tallymark.store.contests.contest_tables import board_blocks as table
from tallymark.store.contests.contest_tables import boards
from tallymark.store.quick_statements import QuickSelect, QuickStatements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Table
    from sqlalchemy.sql.selectable import NamedFromClause

Spot: TypeAlias = tuple[float, float, int]
"""Where a row stands: place, submitted_at, attempt. No two rows of a board share a spot."""
FIRST: Spot = (-math.inf, 0.0, 0)
"""Before every row: the lower bound of every board's first block."""
LAST: Spot = (math.inf, math.inf, 2**63 - 1)
"""Behind every row."""
MOST_ROWS = 512
"""A block of more rows is split; one of less than an eighth is merged where that fits."""


FROZEN = 0
"""The edition of the copy that the public sees of a frozen board."""


@dataclass(frozen=True, slots=True)
class Board:
    """An edition of a challenge's board: see `StoredChallenge`, which knows the one that counts."""

    tenant: str
    challenge_id: int
    edition: int

    @property
    def key(self) -> tuple[int, int]:
        """The first columns of the board's tables."""
        return self.challenge_id, self.edition

    def rows(self, of: Table) -> ColumnElement[bool]:
        """What a table holds of this board."""
        return (of.c.challenge_id == self.challenge_id) & (of.c.edition == self.edition)

    def values(self, **spots: Spot) -> dict[str, Any]:
        """The parameters of a statement about this board and these spots."""
        values: dict[str, Any] = {"board": self.challenge_id, "of_edition": self.edition}
        for name, (place, submitted_at, attempt) in spots.items():
            values |= {f"{name}_0": place, f"{name}_1": submitted_at, f"{name}_2": attempt}
        return values


@dataclass(frozen=True, slots=True)
class _Block:
    bound: Spot
    size: int


def on_board(rows: Table | NamedFromClause[Any]) -> ColumnElement[bool]:
    """The rows of the board that the parameters name: see `Board.values`."""
    return (rows.c.challenge_id == bindparam("board")) & (rows.c.edition == bindparam("of_edition"))


def spot_columns(rows: Table | NamedFromClause[Any]) -> tuple[Any, Any, Any]:
    """The columns that make a spot."""
    return rows.c.place, rows.c.submitted_at, rows.c.attempt


def backward_order(rows: Table) -> tuple[Any, ...]:
    """The order from the last spot to the first."""
    return tuple(each.desc() for each in spot_columns(rows))


def spot(rows: Table | NamedFromClause[Any]) -> Any:
    """The spot of a table's row, to be compared with others."""
    return tuple_(*spot_columns(rows))


def spot_param(name: str) -> Any:
    """A spot that is given as a parameter: see `Board.values`."""
    return tuple_(
        bindparam(f"{name}_0", type_=table.c.place.type),
        bindparam(f"{name}_1", type_=table.c.submitted_at.type),
        bindparam(f"{name}_2", type_=table.c.attempt.type),
    )


_ALL = select(*spot_columns(table), table.c.size).where(on_board(table))
_UPWARD, _DOWNWARD = spot_columns(table), backward_order(table)
_UP_TO = _ALL.where(spot(table) <= spot_param("at")).order_by(*_DOWNWARD).limit(1)
_HOLDING = QuickSelect(_UP_TO)
_PREVIOUS = QuickSelect(_ALL.where(spot(table) < spot_param("at")).order_by(*_DOWNWARD).limit(1))
_FOLLOWING = QuickSelect(_ALL.where(spot(table) > spot_param("at")).order_by(*_UPWARD).limit(1))
_SIZES = QuickSelect(select(table.c.size).where(on_board(table)).order_by(*_UPWARD))
_SUM = select(func.coalesce(func.sum(table.c.size), 0)).where(on_board(table))
_TOTAL = QuickSelect(_SUM)
_BOUND = _UP_TO.subquery("holding")
_EARLIER = _SUM.where(spot(table) < spot(_BOUND)).correlate(_BOUND).scalar_subquery()
_INSIDE = (
    select(func.count())
    .where(on_board(boards), spot(boards) >= spot(_BOUND), spot(boards) < spot_param("at"))
    .correlate(_BOUND)
    .scalar_subquery()
)
_BEFORE = QuickSelect(select(_EARLIER + _INSIDE).select_from(_BOUND))
_NTH_BOUND: Any = (
    select(*spot_columns(table))
    .where(on_board(table))
    .order_by(*_UPWARD)
    .offset(bindparam("block"))
    .limit(1)
    .scalar_subquery()
)
_AHEAD, _AHEAD_OF_BLOCK = (
    QuickSelect(
        select(*spot_columns(boards))
        .where(on_board(boards), spot(boards) >= bound)
        .order_by(*spot_columns(boards))
        .offset(bindparam("nth"))
        .limit(1)
    )
    for bound in (spot_param("at"), _NTH_BOUND)
)
_WHERE = "WHERE challenge_id = ? AND edition = ?"
_BLOCKS = f"""
    SELECT place, submitted_at, attempt, size FROM board_blocks
    {_WHERE} AND (place, submitted_at, attempt) <= (?, ?, ?)
      AND (place, submitted_at, attempt) >= (
          SELECT place, submitted_at, attempt FROM board_blocks
          {_WHERE} AND (place, submitted_at, attempt) <= (?, ?, ?)
          ORDER BY place DESC, submitted_at DESC, attempt DESC LIMIT 1
      )
    ORDER BY place, submitted_at, attempt
"""  # noqa: S608  our own words
_SET_SIZE = (
    f"UPDATE board_blocks SET size = ? {_WHERE}"  # noqa: S608
    " AND place = ? AND submitted_at = ? AND attempt = ?"
)
_IS = on_board(table) & (spot(table) == spot_param("at"))
_RESIZE = update(table).where(_IS).values(size=bindparam("new_size"))
_DELETE = delete(table).where(_IS)
_CUT = text("""
    INSERT INTO board_blocks
        (challenge_id, edition, tenant, place, submitted_at, attempt, size)
    SELECT :board, :of_edition, :whose,
           CASE WHEN nth = 0 THEN :first_0 ELSE place END,
           CASE WHEN nth = 0 THEN :first_1 ELSE submitted_at END,
           CASE WHEN nth = 0 THEN :first_2 ELSE attempt END,
           CASE WHEN nth + :half > :total THEN :total - nth ELSE :half END
    FROM (
        SELECT place, submitted_at, attempt,
               row_number() OVER (ORDER BY place, submitted_at, attempt) - 1 AS nth
        FROM boards WHERE challenge_id = :board AND edition = :of_edition
    ) AS numbered
    WHERE nth % :half = 0
""")


def move_rows(
    statements: QuickStatements, board: Board, left: Sequence[Spot], come: Sequence[Spot]
) -> None:
    """Counts rows that have left these spots, and come to those. The board has them there."""
    if not (left or come):
        return
    blocks = _read_blocks(statements, board, min(*left, *come, LAST), max(*left, *come, FIRST))
    if not blocks:
        blocks = [_Block(FIRST, 0)]
        _insert_block(statements.connection, board, blocks[0])
    bounds = [each.bound for each in blocks]
    sizes = [each.size for each in blocks]
    for at in left:
        sizes[bisect_right(bounds, at) - 1] -= 1
    for at in come:
        sizes[bisect_right(bounds, at) - 1] += 1
    if min(sizes) < 0:
        raise LookupError(left)
    now = [_Block(bound, size) for bound, size in zip(bounds, sizes, strict=True)]
    changed = [each for old, each in zip(blocks, now, strict=True) if each != old]
    statements.run_many(_SET_SIZE, [(each.size, *board.key, *each.bound) for each in changed])
    for block in changed:
        if block.size > MOST_ROWS:
            _split(statements, board, block)
    # Small because rows have left: one that is growing is let grow.
    shrunk = (new for old, new in zip(blocks, now, strict=True) if new.size < old.size)
    for block in shrunk:
        if block.size < MOST_ROWS // 8:
            _merge(statements, board, block)


def _read_blocks(
    statements: QuickStatements, board: Board, first: Spot, last: Spot
) -> list[_Block]:
    """From the block that holds the first spot to that which holds the last."""
    rows = statements.read(_BLOCKS, *board.key, *last, *board.key, *first)
    return [_Block((row[0], row[1], row[2]), row[3]) for row in rows]


def count_rows_before(statements: QuickStatements, board: Board, at: Spot) -> int:
    """How many rows of the board come before this spot."""
    rows = statements.select(_BEFORE, board.values(at=at))
    return int(rows[0][0]) if rows else 0


def find_spot_after(statements: QuickStatements, board: Board, offset: int) -> Spot | None:
    """The spot of the row that so many precede; None when the board is shorter."""
    ahead = 0
    # A hundred or two sizes for 100,000 agents: adding them up here takes little.
    for nth, (size,) in enumerate(statements.select(_SIZES, board.values())):
        if ahead + size > offset:
            values = board.values() | {"block": nth, "nth": offset - ahead}
            (row,) = statements.select(_AHEAD_OF_BLOCK, values)
            return row[0], row[1], row[2]
        ahead += size
    return None


def count_rows(statements: QuickStatements, board: Board) -> int:
    """How many rows the board has."""
    ((total,),) = statements.select(_TOTAL, board.values())
    return int(total)


def cut(connection: Connection, board: Board, total: int) -> None:
    """Cuts a new board, which has so many rows, into blocks, each half full."""
    sizes = {"half": MOST_ROWS // 2, "total": total}
    connection.execute(_CUT, board.values(first=FIRST) | {"whose": board.tenant} | sizes)


def _split(statements: QuickStatements, board: Board, block: _Block) -> None:
    """Cuts a block of too many rows: half of what one may have stays, the rest are others."""
    half = MOST_ROWS // 2
    bound, size = block.bound, block.size
    while size > MOST_ROWS:
        middle = _find_spot_ahead(statements, board, bound, half)
        if middle is None:
            raise LookupError(block)
        _resize(statements.connection, board, _Block(bound, size), half)
        bound, size = middle, size - half
        _insert_block(statements.connection, board, _Block(bound, size))


def _merge(statements: QuickStatements, board: Board, block: _Block) -> None:
    """Joins a small block with a neighbour, if both together leave room to grow."""
    there = _find_block(statements, _HOLDING, board, block.bound)
    if there is None or there.bound != block.bound:
        return  # it was joined with another meanwhile
    block = there
    previous = _find_block(statements, _PREVIOUS, board, block.bound)
    following = _find_block(statements, _FOLLOWING, board, block.bound)
    for first, second in ((previous, block), (block, following)):
        if first is not None and second is not None and first.size + second.size <= MOST_ROWS // 2:
            statements.connection.execute(_DELETE, board.values(at=second.bound))
            _resize(statements.connection, board, first, first.size + second.size)
            return


def _find_block(
    statements: QuickStatements, query: QuickSelect, board: Board, at: Spot
) -> _Block | None:
    rows = statements.select(query, board.values(at=at))
    return _Block((rows[0][0], rows[0][1], rows[0][2]), rows[0][3]) if rows else None


def _find_spot_ahead(statements: QuickStatements, board: Board, at: Spot, nth: int) -> Spot | None:
    """The spot of the row so many after the first at or behind this spot."""
    rows = statements.select(_AHEAD, board.values(at=at) | {"nth": nth})
    return (rows[0][0], rows[0][1], rows[0][2]) if rows else None


def _resize(connection: Connection, board: Board, block: _Block, size: int) -> None:
    connection.execute(_RESIZE, board.values(at=block.bound) | {"new_size": size})


def _insert_block(connection: Connection, board: Board, block: _Block) -> None:
    place, submitted_at, attempt = block.bound
    row = {"challenge_id": board.challenge_id, "edition": board.edition, "tenant": board.tenant}
    row |= {"place": place, "submitted_at": submitted_at, "attempt": attempt, "size": block.size}
    connection.execute(insert(table), row)
