"""Boards: one row per agent with its best attempt, moved when a better one is scored.

Reading the top, one agent's place and its neighbours is quick however large they are.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import bindparam, case, func, select, tuple_

from tallymark.challenges.strategies import STRATEGIES, Standing
from tallymark.errors import InvalidInput
from tallymark.store.column_types import make_storable
from tallymark.store.contests import plain_boards, rank_blocks
from tallymark.store.contests.attempt_tables import attempt_id, attempts
from tallymark.store.contests.challenges import explain_unknown_challenge
from tallymark.store.contests.contest_tables import agents, challenges, disqualified
from tallymark.store.contests.contest_tables import boards as table
from tallymark.store.contests.disqualifications import is_admitted
from tallymark.store.contests.rank_blocks import FROZEN, Board
from tallymark.store.database import TenantRows
from tallymark.store.quick_statements import QuickSelect, write_insert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement, CompoundSelect, Select

    from tallymark.store.contests.batch_memory import BatchMemory, Entrant
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.rank_blocks import Spot
    from tallymark.store.quick_statements import QuickStatements
    from tallymark.store.read_snapshots import ReadSnapshot

    _Row: TypeAlias = tuple[Any, ...]
    """Its spot, then `_NAMES`, then how far its trajectory can be believed."""

# Built once: see `rank_blocks`.
_DISQUALIFIED = select(disqualified.c.agent).where(disqualified.c.tenant == bindparam("whose"))
_CHALLENGE = QuickSelect(
    select(
        challenges.c.id,
        case(
            (challenges.c.frozen_at.is_not(None) & bindparam("is_public"), FROZEN),
            else_=challenges.c.edition,
        ),
        challenges.c.one_per,
        _DISQUALIFIED.exists(),
    ).where(challenges.c.tenant == bindparam("whose"), challenges.c.name == bindparam("called"))
)
_NAMES = ("agent", "value", "score", "tries")
_SPOT, _HERE = rank_blocks.spot(table), rank_blocks.spot_param("at")
_ORDER = rank_blocks.spot_columns(table)
# Of the rows that are shown alone: it never changes, and orders nothing.
_LEVEL = select(attempts.c.trajectory_level).where(attempts.c.key == table.c.attempt)
_ROWS: Select[Any] = select(
    *_ORDER, *(table.c[name] for name in _NAMES), _LEVEL.scalar_subquery()
).where(rank_blocks.on_board(table))
_ABSENT = select(*_ORDER, table.c.agent).where(
    rank_blocks.on_board(table), table.c.agent.in_(_DISQUALIFIED)
)
_MOST: Any = bindparam("most")


def _select_better() -> Select[Any]:
    """Of the same owner as a row's agent, one that stands before it and may compete."""
    mine, others, better = agents.alias(), agents.alias(), table.alias()
    return select(better.c.agent).where(
        *(mine.c.tenant == table.c.tenant, mine.c.handle == table.c.agent),
        *(others.c.tenant == mine.c.tenant, others.c.owner == mine.c.owner),
        # Neither handle nor place is a bare column: by those SQLite would begin with all others of
        # the board, where it ought to begin with the few of the owner.
        *(rank_blocks.on_board(better), better.c.agent == others.c.handle.concat("")),
        tuple_(better.c.place + 0.0, better.c.submitted_at, better.c.attempt) < _SPOT,
        is_admitted(better.c.tenant, better.c.agent),
    )


def _select_left_out() -> CompoundSelect[Any]:
    """Who is not on a board of one agent per owner, in order: the reader's `absent` of it."""
    owned = (agents.c.tenant == bindparam("whose"), agents.c.owner.is_not(None))
    several = select(agents.c.owner).where(*owned).group_by(agents.c.owner)
    nth = func.row_number().over(partition_by=agents.c.owner, order_by=_ORDER).label("nth")
    theirs = (
        select(*_ORDER, table.c.agent, nth)
        .where(agents.c.tenant == bindparam("whose"))
        .where(agents.c.owner.in_(several.having(func.count() > 1)))
        .where(rank_blocks.on_board(table), table.c.agent == agents.c.handle.concat(""))
        .where(table.c.agent.not_in(_DISQUALIFIED))
    ).subquery()
    names = ("place", "submitted_at", "attempt", "agent")
    shadowed = select(*(theirs.c[name] for name in names)).where(theirs.c.nth > 1)
    return shadowed.union_all(_ABSENT)


_BEST = ~_select_better().exists() & is_admitted(table.c.tenant, table.c.agent)
_LEFT_OUT, _OUT = QuickSelect(_select_left_out()), QuickSelect(_ABSENT)


class _Page(NamedTuple):
    """A query for rows of a board, and the same for one that shows the best of each owner."""

    of_all: QuickSelect
    of_owners: QuickSelect

    @classmethod
    def of(cls, *where: ColumnElement[bool], order: tuple[Any, ...] = _ORDER) -> _Page:
        query = _ROWS.where(*where).order_by(*order).limit(_MOST)
        return cls(QuickSelect(query), QuickSelect(query.where(_BEST)))


_PAGE = _Page.of(_SPOT >= _HERE)
_BEFORE = _Page.of(_SPOT < _HERE, order=rank_blocks.backward_order(table))
_BEHIND = _Page.of(_SPOT > _HERE)
_MINE = _Page.of(table.c.agent == bindparam("whose"))
_COLUMNS = tuple(each.name for each in table.c)
_SET_ROW = (
    f"{write_insert(table.name, _COLUMNS)} ON CONFLICT (challenge_id, edition, agent)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[4:])}"
)
_SET_TRIES = "UPDATE boards SET tries = ? WHERE challenge_id = ? AND edition = ? AND agent = ?"
_COUNT_TRIES = """
    SELECT count(*) FROM attempt_scores
    WHERE challenge_id = ? AND agent = ? AND error IS NULL AND attempt NOT IN (
        SELECT key FROM attempts WHERE challenge_id = ? AND agent = ? AND voided_at IS NOT NULL
    )
"""


class Boards(TenantRows):
    """What `store.boards` is. `public=False` shows the live board while the public's is frozen."""

    def top(
        self,
        name: str,
        *,
        limit: int = 100,
        offset: int = 0,
        public: bool = True,
    ) -> list[Standing]:
        """So many standings from the best down, after the first `offset`."""
        if limit < 1 or offset < 0:
            raise InvalidInput(
                f"a limit of {limit} after {offset} would show nothing",
                hint="give a limit of at least 1, and an offset of at least 0",
            )
        plain = plain_boards.LATER_PAGE if offset else plain_boards.FIRST_PAGE
        values = {"most": limit, "skipped": offset} if offset else {"most": limit}
        rows = self._ask_plain(plain, name, public, values)
        if not rows:
            rows = self._read_page(name, limit, offset, public)
        return [_make_standing(offset + nth, row) for nth, row in enumerate(rows, 1)]

    def _read_page(self, name: str, limit: int, offset: int, public: bool) -> list[_Row]:
        with self._database.snapshot() as snapshot:
            shown = self._find_board(snapshot, name, public)
            spot: Spot | None = rank_blocks.FIRST
            if offset:
                skipped = shown.count_skipped(offset)
                spot = rank_blocks.find_spot_after(snapshot, shown.board, skipped)
            if spot is None:
                return []
            return shown.read_page(_PAGE, spot, limit)

    def standing(self, name: str, agent: str, *, public: bool = True) -> Standing | None:
        """Where an agent stands; None when it is not on the board."""
        values = {"agent": make_storable(agent)}
        for *row, rank in self._ask_plain(plain_boards.PLACE, name, public, values):
            return _make_standing(int(rank), tuple(row))
        with self._database.snapshot() as snapshot:
            found = self._find_board(snapshot, name, public).find_agent(agent)
        return None if found is None else _make_standing(*found)

    def around(
        self,
        name: str,
        agent: str,
        *,
        each: int = 3,
        public: bool = True,
    ) -> list[Standing]:
        """An agent with up to so many before and behind it; empty when it is not on the board."""
        values = {"agent": make_storable(agent), "most": each}
        rows = self._ask_plain(plain_boards.NEIGHBOURS, name, public, values)
        if rows:
            rows.sort()  # by their spots, with which they begin, and of which no two are alike
            before = next(nth for nth, row in enumerate(rows) if row[3] == agent)
            first = int(rows[0][-1]) - before
            return [_make_standing(nth, row[:-1]) for nth, row in enumerate(rows, first)]
        return self._read_neighbours(name, agent, each, public)

    def _read_neighbours(self, name: str, agent: str, each: int, public: bool) -> list[Standing]:
        with self._database.snapshot() as snapshot:
            shown = self._find_board(snapshot, name, public)
            found = shown.find_agent(agent)
            if found is None:
                return []
            rank, row = found
            spot = _get_spot(row)
            before = shown.read_page(_BEFORE, spot, each)
            behind = shown.read_page(_BEHIND, spot, each)
        rows = [*reversed(before), row, *behind]
        return [_make_standing(nth, row) for nth, row in enumerate(rows, rank - len(before))]

    def places(self, agent: str, *, public: bool = True) -> dict[str, Standing]:
        """Where an agent stands on every board that it is on, by the challenge's name."""
        query = (
            select(challenges.c.name)
            .join(table, table.c.challenge_id == challenges.c.id)
            .where(challenges.c.tenant == self._tenant, table.c.agent == agent)
            .distinct()
            .order_by(challenges.c.name)
        )
        with self._database.read() as connection:
            names = list(connection.scalars(query))
        found = {name: self.standing(name, agent, public=public) for name in names}
        return {name: each for name, each in found.items() if each is not None}

    def size(self, name: str, *, public: bool = True) -> int:
        """How many agents are on the board."""
        for (size,) in self._ask_plain(plain_boards.SIZE, name, public, {}):
            return int(size)
        with self._database.snapshot() as snapshot:
            return self._find_board(snapshot, name, public).size

    def _ask_plain(
        self,
        query: QuickSelect,
        name: str,
        public: bool,
        values: Mapping[str, Any],
    ) -> list[_Row]:
        """What is asked of a plain board; no rows where it is not one."""
        which = {"whose": self._tenant, "called": make_storable(name), "is_public": public}
        with self._database.statement() as statements:
            return statements.select(query, {**which, **values})

    def _find_board(self, snapshot: ReadSnapshot, name: str, public: bool) -> _ShownBoard:
        name = make_storable(name)
        key = ("board", self._tenant, name, public)
        return snapshot.recall(key, lambda: self._read_board(snapshot, name, public))

    def _read_board(self, snapshot: ReadSnapshot, name: str, public: bool) -> _ShownBoard:
        rows = snapshot.select(
            _CHALLENGE, {"whose": self._tenant, "called": name, "is_public": public}
        )
        if not rows:
            raise explain_unknown_challenge(snapshot.connection, self._tenant, name)
        ((challenge_id, edition, one_per, some_absent),) = rows
        board = Board(self._tenant, challenge_id, edition)
        of_owners = one_per == "owner"
        query = _LEFT_OUT if of_owners else _OUT if some_absent else None
        return _ShownBoard(snapshot, board, query, of_owners=of_owners)


@dataclass(frozen=True)
class _ShownBoard:
    """A board as it is read: without some whose rows it still has.

    Those are the disqualified, and where it shows one agent per owner, those that have a better
    one of the same owner. These can be very many, so pages are read without knowing all of them.
    """

    snapshot: ReadSnapshot
    board: Board
    left_out: QuickSelect | None
    """Asks for those who are not shown; None where everybody is."""
    of_owners: bool

    @cached_property
    def absent(self) -> dict[str, Spot]:
        """Those who are not shown, by name."""
        if self.left_out is None:
            return {}
        values = self.board.values() | {"whose": self.board.tenant}
        return {each[3]: _get_spot(each) for each in self.snapshot.select(self.left_out, values)}

    @cached_property
    def size(self) -> int:
        """How many agents are shown."""
        return rank_blocks.count_rows(self.snapshot, self.board) - len(self.absent)

    def read_page(self, page: _Page, spot: Spot, limit: int) -> list[_Row]:
        """So many rows from a spot on, or from it back."""
        values = self.board.values(at=spot)
        if self.of_owners:
            return self.snapshot.select(page.of_owners, values | {"most": limit})
        values |= {"most": limit + len(self.absent)}
        rows = self.snapshot.select(page.of_all, values)
        return [each for each in rows if each[3] not in self.absent][:limit]

    def count_skipped(self, offset: int) -> int:
        """How many rows lie before the one that comes after so many that are shown."""
        spots = sorted(self.absent.values())

        def count_shown_before(nth: int) -> int:
            return rank_blocks.count_rows_before(self.snapshot, self.board, spots[nth]) - nth

        return offset + bisect_right(range(len(spots)), offset, key=count_shown_before)

    def find_agent(self, agent: str) -> tuple[int, _Row] | None:
        """An agent's rank and row."""
        page = _MINE.of_owners if self.of_owners else _MINE.of_all
        rows = self.snapshot.select(
            page, self.board.values() | {"whose": make_storable(agent), "most": 1}
        )
        if not rows or agent in self.absent:
            return None
        (row,) = rows
        spot = _get_spot(row)
        before = rank_blocks.count_rows_before(self.snapshot, self.board, spot)
        return 1 + before - sum(each < spot for each in self.absent.values()), row


def _get_spot(row: _Row) -> Spot:
    return (row[0], row[1], row[2])


def _make_standing(rank: int, row: _Row) -> Standing:
    _, submitted_at, attempt, agent, value, score, tries, level = row
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
            board = memory.challenges[challenge_id].live_board
            counted.append((entrant.tries, *board.key, agent))
    statements.run_many(_SET_TRIES, counted)
    for challenge_id, entrants in moved.items():
        kept = memory.challenges[challenge_id]
        rows = [_make_board_row(kept, *each) for each in entrants]
        statements.run_many(_SET_ROW, rows)
        # The rows move before the counts do: a block is split by where its rows are.
        left = [each.stored_spot for _, each in entrants if each.stored_spot is not None]
        come = [each.spot for _, each in entrants if each.spot is not None]
        rank_blocks.move_rows(statements, kept.live_board, left, come)


def _make_board_row(kept: StoredChallenge, agent: str, entrant: Entrant) -> tuple[Any, ...]:
    place, submitted_at, attempt = entrant.spot or rank_blocks.FIRST
    where = (*kept.live_board.key, agent, kept.tenant, place, submitted_at, attempt)
    return (*where, entrant.value, entrant.score, entrant.tries)


def count_tries(statements: QuickStatements, kept: StoredChallenge, agent: str) -> int:
    """How many stored attempts of an agent were scored, and are not void."""
    return int(statements.read(_COUNT_TRIES, kept.id, agent, kept.id, agent)[0][0])
