"""Reading boards: the top, one agent's place, its neighbours; quick however large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tallymark.challenges.standing import Standing
from tallymark.errors import InvalidInput
from tallymark.store import blocks, board_rows
from tallymark.store.attempt_rows import attempt_id
from tallymark.store.blocks import Board
from tallymark.store.challenges import find
from tallymark.store.contest_tables import boards as table
from tallymark.store.rows import steady

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select

    from tallymark.store.blocks import Spot
    from tallymark.store.database import Database

_ORDER = blocks.columns(table)


class Boards:
    """What `store.boards` is. `public=False` shows the live board while the public's is frozen."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    def top(
        self, name: str, *, limit: int = 100, offset: int = 0, public: bool = True
    ) -> list[Standing]:
        """So many standings from the best down, after the first `offset`."""
        if limit < 1 or offset < 0:
            raise InvalidInput(
                f"a limit of {limit} after {offset} would show nothing",
                hint="give a limit of at least 1, and an offset of at least 0",
            )
        with self._database.read() as connection:
            board = self._board(connection, name, public)
            bound, ahead = blocks.bound_at(connection, board, offset) if offset else (None, 0)
            query = _rows(board).order_by(*_ORDER).limit(limit).offset(offset - ahead)
            if bound is not None:
                query = query.where(blocks.spot(table) >= bound)
            rows = connection.execute(query).all()
        return [_standing(offset + nth, row) for nth, row in enumerate(rows, 1)]

    def standing(self, name: str, agent: str, *, public: bool = True) -> Standing | None:
        """Where an agent stands; None when it is not on the board."""
        with self._database.read() as connection:
            board = self._board(connection, name, public)
            return _find(connection, board, agent)

    def around(
        self, name: str, agent: str, *, each: int = 3, public: bool = True
    ) -> list[Standing]:
        """An agent with up to so many before and behind it; empty when it is not on the board."""
        with self._database.read() as connection:
            board = self._board(connection, name, public)
            mine = _find(connection, board, agent)
            if mine is None:
                return []
            row = connection.execute(_rows(board).where(table.c.agent == agent)).one()
            spot, here = blocks.spot(table), _spot(row)
            upward = _rows(board).where(spot < here).order_by(*(c.desc() for c in _ORDER))
            downward = _rows(board).where(spot > here).order_by(*_ORDER)
            before = connection.execute(upward.limit(each)).all()
            behind = connection.execute(downward.limit(each)).all()
        first = mine.rank - len(before)
        rows = [*reversed(before), row, *behind]
        return [_standing(nth, row) for nth, row in enumerate(rows, first)]

    def size(self, name: str, *, public: bool = True) -> int:
        """How many agents are on the board."""
        with self._database.read() as connection:
            return blocks.total(connection, self._board(connection, name, public))

    def rebuild(self, connection: Connection, name: str, *, at: float) -> None:
        """Makes the live board anew from the scores, in the transaction that changed them.

        The scores may have changed before, but not the board: if the freeze is due, the public
        keeps the board as it was.
        """
        kept = find(connection, self._tenant, name, lock=True)
        board_rows.freeze_if_due(connection, kept, at)
        board_rows.rebuild(connection, kept)

    def _board(self, connection: Connection, name: str, public: bool) -> Board:
        kept = find(steady(connection), self._tenant, name)
        return Board(self._tenant, kept.id, frozen=public and kept.frozen_at is not None)


def _rows(board: Board) -> Select[Any]:
    names = ("agent", "value", "score", "tries")
    return select(*_ORDER, *(table.c[name] for name in names)).where(board.rows(table))


def _find(connection: Connection, board: Board, agent: str) -> Standing | None:
    row = connection.execute(_rows(board).where(table.c.agent == agent)).one_or_none()
    if row is None:
        return None
    return _standing(1 + blocks.rows_before(connection, board, _spot(row)), row)


def _spot(row: Row[Any]) -> Spot:
    return (row.place, row.submitted_at, row.attempt)


def _standing(rank: int, row: Row[Any]) -> Standing:
    return Standing(
        rank=rank,
        agent=row.agent,
        attempt=attempt_id(row.attempt),
        value=row.value,
        score=row.score,
        submitted_at=row.submitted_at,
        tries=row.tries,
    )
