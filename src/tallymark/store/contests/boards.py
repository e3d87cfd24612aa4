"""Boards: one row per agent with its best attempt, moved when a better one is scored.

Reading the top, one agent's place and its neighbours is quick however large they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from tallymark.challenges.strategies import STRATEGIES, Standing
from tallymark.errors import InvalidInput
from tallymark.store.contests import rank_blocks
from tallymark.store.contests.attempt_tables import attempt_id, attempts
from tallymark.store.contests.challenges import explain_unknown_challenge
from tallymark.store.contests.contest_tables import boards as table
from tallymark.store.contests.contest_tables import challenges, disqualified
from tallymark.store.contests.rank_blocks import Board
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import read_one_moment
from tallymark.store.quick_statements import write_insert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row, Select

    from tallymark.store.contests.batch_memory import BatchMemory, Entrant
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.rank_blocks import Spot
    from tallymark.store.quick_statements import QuickStatements

# Built once: see `rank_blocks`.
_DISQUALIFIED = select(disqualified.c.agent).where(disqualified.c.tenant == bindparam("whose"))
_CHALLENGE = select(
    challenges.c.id, challenges.c.frozen_at, _DISQUALIFIED.exists().label("some_absent")
).where(challenges.c.tenant == bindparam("whose"), challenges.c.name == bindparam("called"))
_NAMES = ("agent", "value", "score", "tries")
_SPOT, _HERE = rank_blocks.spot(table), rank_blocks.spot_param("at")
_ORDER = rank_blocks.spot_columns(table)
# Of the rows that are shown alone: it never changes, and orders nothing.
_LEVEL = select(attempts.c.trajectory_level).where(attempts.c.key == table.c.attempt)
_ROWS: Select[Any] = select(
    *_ORDER, *(table.c[name] for name in _NAMES), _LEVEL.scalar_subquery()
).where(rank_blocks.on_board(table))
_MINE = _ROWS.where(table.c.agent == bindparam("whose"))
_ABSENT = select(table.c.agent, *_ORDER).where(
    rank_blocks.on_board(table), table.c.agent.in_(_DISQUALIFIED)
)
_MOST: Any = bindparam("most")
_PAGE = _ROWS.where(_SPOT >= _HERE).order_by(*_ORDER).limit(_MOST)
_BEFORE = _ROWS.where(_SPOT < _HERE).order_by(*rank_blocks.backward_order(table)).limit(_MOST)
_BEHIND = _ROWS.where(_SPOT > _HERE).order_by(*_ORDER).limit(_MOST)
_COLUMNS = tuple(each.name for each in table.c)
_SET_ROW = (
    f"{write_insert(table.name, _COLUMNS)} ON CONFLICT (challenge_id, frozen, agent)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[4:])}"
)
_SET_TRIES = "UPDATE boards SET tries = ? WHERE challenge_id = ? AND frozen = FALSE AND agent = ?"
_COUNT_TRIES = """
    SELECT count(*) FROM attempt_scores
    WHERE challenge_id = ? AND agent = ? AND error IS NULL AND attempt NOT IN (
        SELECT key FROM attempts WHERE challenge_id = ? AND agent = ? AND voided_at IS NOT NULL
    )
"""


class Boards(TenantRows):
    """What `store.boards` is. `public=False` shows the live board while the public's is frozen."""

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
            shown = self._find_board(connection, name, public)
            spot: Spot | None = rank_blocks.FIRST
            if offset:
                skipped = shown.count_skipped(connection, offset)
                spot = rank_blocks.find_spot_after(connection, shown.board, skipped)
            if spot is None:
                return []
            rows = shown.read_page(connection, _PAGE, spot, limit)
        return [_make_standing(offset + nth, row) for nth, row in enumerate(rows, 1)]

    def standing(self, name: str, agent: str, *, public: bool = True) -> Standing | None:
        """Where an agent stands; None when it is not on the board."""
        with self._database.read() as connection:
            shown = self._find_board(connection, name, public)
            found = _find_agent(connection, shown, agent)
        return None if found is None else _make_standing(*found)

    def around(
        self, name: str, agent: str, *, each: int = 3, public: bool = True
    ) -> list[Standing]:
        """An agent with up to so many before and behind it; empty when it is not on the board."""
        with self._database.read() as connection:
            shown = self._find_board(connection, name, public)
            found = _find_agent(connection, shown, agent)
            if found is None:
                return []
            rank, row = found
            spot = _get_spot(row)
            before = shown.read_page(connection, _BEFORE, spot, each)
            behind = shown.read_page(connection, _BEHIND, spot, each)
        rows = [*reversed(before), row, *behind]
        return [_make_standing(nth, row) for nth, row in enumerate(rows, rank - len(before))]

    def size(self, name: str, *, public: bool = True) -> int:
        """How many agents are on the board."""
        with self._database.read() as connection:
            shown = self._find_board(connection, name, public)
            return rank_blocks.count_rows(connection, shown.board) - len(shown.absent)

    def _find_board(self, connection: Connection, name: str, public: bool) -> _ShownBoard:
        values = {"whose": self._tenant, "called": name}
        # A rank and the rows around it come from several queries, and must be of one moment.
        row = read_one_moment(connection).execute(_CHALLENGE, values).one_or_none()
        if row is None:
            raise explain_unknown_challenge(connection, self._tenant, name)
        board = Board(self._tenant, row.id, frozen=public and row.frozen_at is not None)
        if not row.some_absent:
            return _ShownBoard(board, {})
        found = connection.execute(_ABSENT, board.values() | {"whose": self._tenant})
        return _ShownBoard(board, {each.agent: _get_spot(each) for each in found})


@dataclass(frozen=True, slots=True)
class _ShownBoard:
    """A board as it is read: without those who are disqualified, whose rows it still has."""

    board: Board
    absent: dict[str, Spot]

    def read_page(
        self, connection: Connection, page: Select[Any], spot: Spot, limit: int
    ) -> list[Row[Any]]:
        """So many rows from a spot on, or from it back."""
        values = self.board.values(at=spot) | {"most": limit + len(self.absent)}
        rows = [each for each in connection.execute(page, values) if each.agent not in self.absent]
        return rows[:limit]

    def count_skipped(self, connection: Connection, offset: int) -> int:
        """How many rows lie before the one that comes after so many that are shown."""
        for spot in sorted(self.absent.values()):
            if rank_blocks.count_rows_before(connection, self.board, spot) <= offset:
                offset += 1
        return offset


def _find_agent(
    connection: Connection, shown: _ShownBoard, agent: str
) -> tuple[int, Row[Any]] | None:
    """An agent's rank and row."""
    row = connection.execute(_MINE, shown.board.values() | {"whose": agent}).one_or_none()
    if row is None or agent in shown.absent:
        return None
    spot = _get_spot(row)
    before = rank_blocks.count_rows_before(connection, shown.board, spot)
    return 1 + before - sum(each < spot for each in shown.absent.values()), row


def _get_spot(row: Row[Any]) -> Spot:
    return (row.place, row.submitted_at, row.attempt)


def _make_standing(rank: int, row: Row[Any]) -> Standing:
    _, submitted_at, attempt, agent, value, score, tries, level = tuple(row)
    return Standing(
        rank=rank,
        agent=agent,
        attempt=attempt_id(attempt),
        value=value,
        score=score,
        submitted_at=submitted_at,
        tries=tries,
        trajectory_level=level,
    )


def stand(kept: StoredChallenge, entrant: Entrant, score: Mapping[str, Any]) -> None:
    """Lets an attempt that ranks take its agent's place if it is the better one.

    `score` is its row of `attempt_scores`.
    """
    strategy = STRATEGIES[kept.challenge.scoring.strategy]
    value = score[strategy.column]
    spot = (strategy.place(value), score["submitted_at"], score["attempt"])
    if entrant.spot is None or spot < entrant.spot:
        entrant.spot, entrant.value, entrant.score = spot, value, score["score"]


def write_entrants(statements: QuickStatements, memory: BatchMemory) -> None:
    """Writes where agents stand by now, and counts them there."""
    moved: dict[int, list[tuple[str, Entrant]]] = {}
    counted = []
    for (challenge_id, agent), entrant in memory.entrants.items():
        if entrant.moved:
            moved.setdefault(challenge_id, []).append((agent, entrant))
        elif entrant.counted:
            counted.append((entrant.tries, challenge_id, agent))
    statements.run_many(_SET_TRIES, counted)
    for challenge_id, entrants in moved.items():
        kept = memory.challenges[challenge_id]
        rows = [_make_board_row(kept, *each) for each in entrants]
        statements.run_many(_SET_ROW, rows)
        # The rows move before the counts do: a block is split by where its rows are.
        left = [each.stored_spot for _, each in entrants if each.stored_spot is not None]
        come = [each.spot for _, each in entrants if each.spot is not None]
        rank_blocks.move_rows(statements, Board(kept.tenant, kept.id), left, come)


def _make_board_row(kept: StoredChallenge, agent: str, entrant: Entrant) -> tuple[Any, ...]:
    place, submitted_at, attempt = entrant.spot or rank_blocks.FIRST
    where = (kept.id, False, agent, kept.tenant, place, submitted_at, attempt)
    return (*where, entrant.value, entrant.score, entrant.tries)


def count_tries(statements: QuickStatements, kept: StoredChallenge, agent: str) -> int:
    """How many stored attempts of an agent were scored, and are not void."""
    return int(statements.read(_COUNT_TRIES, kept.id, agent, kept.id, agent)[0][0])
