"""Boards: one row per agent with its best attempt, moved when a better one is scored.

The top, an agent's place and its neighbours are read by the index that orders a board; a rank is a
count on it. See docs/decisions/0010-boards.md.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import exists, func, select, tuple_

from tallymark.challenges.strategies import STRATEGIES, Standing
from tallymark.errors import InvalidInput
from tallymark.store.contests.board_rows import (
    SPOT,
    Board,
    compare_spot,
    count_rows,
)
from tallymark.store.contests.challenges import explain_unknown_challenge, read_challenges
from tallymark.store.contests.tables import agents, attempt_id, attempts, challenges, disqualified
from tallymark.store.contests.tables import boards as table
from tallymark.store.database import TenantRows
from tallymark.store.dialects import make_storable
from tallymark.store.quick_statements import write_insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select, Subquery

    from tallymark.store.contests.board_rows import Spot
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.quick_statements import QuickStatements, ReadSnapshot

_Row: TypeAlias = tuple[Any, ...]
_spot: Any = tuple_(*SPOT)
_BACKWARD = tuple(each.desc() for each in SPOT)
_LEVEL = select(attempts.c.trajectory_level).where(attempts.c.key == table.c.attempt)
_ROW = (*SPOT, table.c.agent, table.c.value, table.c.score, table.c.tries)
_COLUMNS = tuple(each.name for each in table.c)
_SET_ROW = (
    f"{write_insert(table.name, _COLUMNS)} ON CONFLICT (challenge_id, frozen, agent)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[4:])}"
)
_SET_TRIES = (
    "UPDATE boards SET tries = tries + 1 WHERE challenge_id = ? AND frozen = FALSE AND agent = ?"
)
_AT_ONCE = 100
"""Boards per statement: SQLite takes 500 parts."""
_ADMITTED = """ AND agent NOT IN (SELECT gone.agent FROM disqualified_agents AS gone
    JOIN challenges ON challenges.tenant = gone.tenant WHERE challenges.id = {key})"""
_ROWS = "boards WHERE challenge_id = {key} AND frozen = {frozen}{admitted}"
# Each counted as by `count_rows`, and before a spot as by `count_rows_before`.
_SIZE = f"SELECT {{key}}, count(*) FROM {_ROWS} AND place >= ?"  # noqa: S608 (our numbers)
_BEFORE = f"""
    SELECT {{key}}, (SELECT count(*) FROM {_ROWS} AND place < ?)
        + (SELECT count(*) FROM {_ROWS} AND place = ? AND (submitted_at, attempt) < (?, ?))
"""  # noqa: S608 (as above)
_STANDING = """boards.place, boards.submitted_at, boards.attempt, boards.agent, boards.value,
    boards.score, boards.tries,
    (SELECT trajectory_level FROM attempts WHERE attempts.key = boards.attempt) AS level"""
_TOP = f"""
    SELECT * FROM (
        SELECT challenge_id, 0 AS part, {_STANDING} FROM {_ROWS}
        ORDER BY place, submitted_at, attempt LIMIT ?
    ) AS top
"""  # noqa: S608 (as above)
_AROUND = f"""
    SELECT * FROM (
        SELECT challenge_id, -1 AS part, {_STANDING} FROM {_ROWS}
            AND (place, submitted_at, attempt) < (?, ?, ?)
        ORDER BY place DESC, submitted_at DESC, attempt DESC LIMIT ?
    ) AS better UNION ALL SELECT * FROM (
        SELECT challenge_id, 1 AS part, {_STANDING} FROM {_ROWS}
            AND (place, submitted_at, attempt) > (?, ?, ?)
        ORDER BY place, submitted_at, attempt LIMIT ?
    ) AS worse
"""  # noqa: S608 (as above)
_GONE = "SELECT 1 FROM disqualified_agents WHERE tenant = ? LIMIT 1"
_MINE = f"""
    SELECT challenges.id, boards.frozen, {_STANDING}
    FROM challenges JOIN boards ON boards.challenge_id = challenges.id
        AND boards.frozen IN (FALSE, TRUE) AND boards.agent = ?
    WHERE challenges.tenant = ? AND NOT EXISTS (
        SELECT 1 FROM disqualified_agents AS gone
        WHERE gone.tenant = challenges.tenant AND gone.agent = boards.agent
    ) ORDER BY challenges.name
"""  # noqa: S608 (as above)
_PLACE_NOW = """
    SELECT place, submitted_at, attempt, tries FROM boards
    WHERE challenge_id = ? AND frozen = FALSE AND agent = ?
"""
_COUNT_TRIES = """
    SELECT count(*) FROM attempt_scores
    WHERE challenge_id = ? AND agent = ? AND error IS NULL AND attempt NOT IN (
        SELECT key FROM attempts WHERE challenge_id = ? AND agent = ? AND voided_at IS NOT NULL
    )
"""


class PlaceOnBoard(NamedTuple):
    """An agent's standing on a board, and the size of the board."""

    kept: StoredChallenge
    standing: Standing
    agents: int
    spot: Spot


class Boards(TenantRows):
    """Boards as they are shown. `as_frozen=False` shows the live board while the public's is
    frozen.
    """

    def top(
        self,
        name: str,
        *,
        limit: int = 100,
        offset: int = 0,
        as_frozen: bool = True,
    ) -> list[Standing]:
        """Standings from the best down, after the first `offset`."""
        if limit < 1 or offset < 0:
            raise InvalidInput(
                f"a limit of {limit} after {offset} would show nothing",
                hint="give a limit of at least 1, and an offset of at least 0",
            )
        with self._open(name, as_frozen) as board:
            rows = board.read_page(offset, limit)
        return [_make_standing(offset + nth, row) for nth, row in enumerate(rows, 1)]

    def standing(self, name: str, agent: str, *, as_frozen: bool = True) -> Standing | None:
        """An agent's standing; None if it is not on the board."""
        with self._open(name, as_frozen) as board:
            found = board.find_agent(agent)
            return None if found is None else _make_standing(*found)

    def around(
        self,
        name: str,
        agent: str,
        *,
        each: int = 3,
        as_frozen: bool = True,
    ) -> list[Standing]:
        """An agent with up to `each` before and behind it; empty if it is not on the board."""
        with self._open(name, as_frozen) as board:
            found = board.find_agent(agent)
            if found is None:
                return []
            rank, row = found
            spot = compare_spot(_find_spot(row))
            before = board.read(each, _spot < spot, order=_BACKWARD)
            behind = board.read(each, _spot > spot)
        rows = [*reversed(before), row, *behind]
        return [_make_standing(nth, row) for nth, row in enumerate(rows, rank - len(before))]

    def above(
        self, name: str, agent: str, *, as_frozen: bool = True
    ) -> tuple[Standing | None, Standing | None]:
        """An agent's standing, and the one directly above; None if there is none."""
        with self._open(name, as_frozen) as board:
            found = board.find_agent(agent)
            if found is None:
                return None, None
            rank, row = found
            before = None
            if rank > 1:
                (before,) = board.read(1, _spot < compare_spot(_find_spot(row)), order=_BACKWARD)
        above = None if before is None else _make_standing(rank - 1, before)
        return _make_standing(rank, row), above

    def places(self, agent: str, *, as_frozen: bool = True) -> list[PlaceOnBoard]:
        """An agent's places on all boards, by the challenge's name."""
        key = ("places", self._tenant, agent, as_frozen)
        with self._database.snapshot() as snapshot:
            return snapshot.recall(key, lambda: self._read_places(snapshot, agent, as_frozen))

    def _read_places(
        self, snapshot: ReadSnapshot, agent: str, as_frozen: bool
    ) -> list[PlaceOnBoard]:

        def give_spot(row: Sequence[Any]) -> tuple[Any, ...]:
            return (row[0], *row[:3])

        rows = snapshot.read(_MINE, make_storable(agent), self._tenant)
        kept = {each.id: each for each in read_challenges(snapshot, [row[0] for row in rows])}
        mine = {
            key: row
            for key, frozen, *row in rows
            if frozen == kept[key].get_board(as_frozen=as_frozen).frozen
        }
        plain = [kept[key] for key in mine if kept[key].challenge.one_per != "owner"]
        sizes = dict(self._read_each(_SIZE, plain, as_frozen, lambda _: (-math.inf,)))
        before = dict(self._read_each(_BEFORE, plain, as_frozen, lambda key: give_spot(mine[key])))
        found = []
        for key, row in mine.items():
            name = kept[key].challenge.name
            if key in sizes:
                standing, size = _make_standing(before[key] + 1, row), sizes[key]
                found.append(PlaceOnBoard(kept[key], standing, size, (row[0], row[1], row[2])))
            elif (shown := self.standing(name, agent, as_frozen=as_frozen)) is not None:
                size = self.size(name, as_frozen=as_frozen)
                found.append(PlaceOnBoard(kept[key], shown, size, (row[0], row[1], row[2])))
        return found

    def rivals(
        self, places: Sequence[PlaceOnBoard], near: int, *, as_frozen: bool = True
    ) -> dict[str, list[Standing]]:
        """Standings near the top and near the agent on each of these boards, by name."""
        found: dict[str, list[Standing]] = {}
        plain = {each.kept.id: each for each in places if each.kept.challenge.one_per != "owner"}
        far = [each for each in plain.values() if each.standing.rank > near]

        def give_spot(key: int) -> tuple[Any, ...]:
            return (*plain[key].spot, near // 2) * 2

        with self._database.snapshot():
            kept = [each.kept for each in plain.values()]
            rows = self._read_each(_TOP, kept, as_frozen, lambda _: (near,))
            rows += self._read_each(_AROUND, [each.kept for each in far], as_frozen, give_spot)
            ranks: dict[tuple[int, int], int] = {}
            rows.sort(key=lambda row: row[2:5])
            above = [row for row in rows if row[1] < 0]
            for key, part, *row in [*(row for row in rows if row[1] >= 0), *reversed(above)]:
                place = plain[key]
                rank = ranks.get((key, part), place.standing.rank if part else 0) + (part or 1)
                ranks[key, part] = rank
                found.setdefault(place.kept.challenge.name, []).append(_make_standing(rank, row))
            for each in places:
                if each.kept.id not in plain:
                    name = each.kept.challenge.name
                    found[name] = self.top(name, limit=near, as_frozen=as_frozen)
                    found[name] += self.around(
                        name, each.standing.agent, each=near // 2, as_frozen=as_frozen
                    )
        return found

    def _read_each(
        self,
        text: str,
        challenges: Sequence[StoredChallenge],
        as_frozen: bool,
        give: Callable[[int], tuple[Any, ...]],
    ) -> list[tuple[Any, ...]]:
        """Rows of a statement about each of these boards, many boards per query."""
        found: list[tuple[Any, ...]] = []
        with self._database.snapshot() as snapshot:
            gone = snapshot.recall(
                ("disqualified", self._tenant), lambda: snapshot.read(_GONE, self._tenant)
            )
            for first in range(0, len(challenges), _AT_ONCE):
                some = challenges[first : first + _AT_ONCE]
                boards = [each.get_board(as_frozen=as_frozen) for each in some]
                parts = [
                    text.format(
                        key=each.challenge_id,
                        frozen=each.frozen,
                        admitted=_ADMITTED.format(key=each.challenge_id) if gone else "",
                    )
                    for each in boards
                ]
                given = [value for each in some for value in give(each.id)]
                found += snapshot.read(" UNION ALL ".join(parts), *given)
        return found

    def size(self, name: str, *, as_frozen: bool = True) -> int:
        with self._open(name, as_frozen) as board:
            return board.count()

    def tops(
        self, challenges: Sequence[StoredChallenge], limit: int, *, as_frozen: bool = True
    ) -> dict[str, tuple[int, list[Standing]]]:
        """Size and first standings of each of these boards, by name."""
        plain = {each.id: each for each in challenges if each.challenge.one_per != "owner"}
        kept, lines = list(plain.values()), dict[int, list[Standing]]()
        with self._database.snapshot():
            sizes = self._read_each(_SIZE, kept, as_frozen, lambda _: (-math.inf,))
            rows = self._read_each(_TOP, kept, as_frozen, lambda _: (limit,))
            for key, _, *row in sorted(rows, key=lambda row: row[2:5]):
                mine = lines.setdefault(key, [])
                mine.append(_make_standing(len(mine) + 1, row))
            found = {plain[key].challenge.name: (size, lines.get(key, [])) for key, size in sizes}
            for name in (each.challenge.name for each in challenges if each.id not in plain):
                top = self.top(name, limit=limit, as_frozen=as_frozen)
                found[name] = (self.size(name, as_frozen=as_frozen), top)
        return found

    @contextmanager
    def _open(self, name: str, as_frozen: bool) -> Iterator[_ShownBoard]:
        """The board as it is shown, in one read transaction."""
        with self._database.snapshot() as snapshot:
            connection = snapshot.connection
            found = snapshot.recall(
                ("board", self._tenant, name), lambda: self._read_facts(connection, name)
            )
            key, frozen_at, one_per, some_absent = found
            board = Board(self._tenant, key, frozen=as_frozen and frozen_at is not None)
            left_out: Select[Any] | CompoundSelect[Any] | None = None
            if some_absent:
                left_out = _select_disqualified(board)
            if one_per == "owner":
                left_out = _select_shadowed(board).union_all(_select_disqualified(board))
            shown = None if left_out is None else left_out.subquery("left_out")
            yield _ShownBoard(connection, board, shown)

    def _read_facts(self, connection: Connection, name: str) -> tuple[Any, ...]:
        facts = (challenges.c.id, challenges.c.frozen_at, challenges.c.one_per)
        absent = exists().where(disqualified.c.tenant == self._tenant)
        mine = (challenges.c.tenant == self._tenant, challenges.c.name == make_storable(name))
        found = connection.execute(select(*facts, absent).where(*mine)).one_or_none()
        if found is None:
            raise explain_unknown_challenge(connection, self._tenant, name)
        return tuple(found)


def _select_disqualified(board: Board) -> Select[Any]:
    return select(*SPOT, table.c.agent).where(
        board.rows(), table.c.agent.in_(_list_disqualified(board))
    )


def _list_disqualified(board: Board) -> Select[Any]:
    return select(disqualified.c.agent).where(disqualified.c.tenant == board.tenant)


def _select_shadowed(board: Board) -> Select[Any]:
    """Agents that are behind another one of the same owner."""
    owned = (agents.c.tenant == board.tenant, agents.c.owner.is_not(None))
    several = select(agents.c.owner).where(*owned).group_by(agents.c.owner)
    nth = func.row_number().over(partition_by=agents.c.owner, order_by=SPOT).label("nth")
    theirs = (
        select(*SPOT, table.c.agent, nth)
        .where(agents.c.tenant == board.tenant)
        .where(agents.c.owner.in_(several.having(func.count() > 1)))
        # No bare column: by that SQLite would begin with the board, where it ought to begin with
        # the agents of owners.
        .where(board.rows(), table.c.agent == agents.c.handle.concat(""))
        .where(table.c.agent.not_in(_list_disqualified(board)))
    ).subquery()
    names = ("place", "submitted_at", "attempt", "agent")
    return select(*(theirs.c[name] for name in names)).where(theirs.c.nth > 1)


@dataclass(frozen=True)
class _ShownBoard:
    """A board without the agents that are not shown.

    Disqualified agents are left out, and on a board with one agent per owner those behind another
    one of the same owner.
    """

    connection: Connection
    board: Board
    left_out: Subquery | None
    """The spots and agents that are not shown; None if all are shown."""

    def count(self) -> int:
        """Number of agents shown."""
        size = count_rows(self.connection, self.board)
        if self.left_out is None:
            return size
        query = select(func.count()).select_from(self.left_out)
        return size - (self.connection.scalar(query) or 0)

    def read_page(self, offset: int, limit: int) -> list[_Row]:
        """Rows from the best down, after the first `offset`."""
        if not offset:
            return self.read(limit)
        # On the index alone: the rows that are skipped are not looked up in the table.
        query = select(*SPOT).where(self.board.rows(), *self._shown()).order_by(*SPOT)
        first = self.connection.execute(query.offset(offset).limit(1)).one_or_none()
        return [] if first is None else self.read(limit, _spot >= compare_spot(tuple(first)))

    def read(
        self, limit: int, *where: ColumnElement[bool], order: tuple[Any, ...] = SPOT
    ) -> list[_Row]:
        query = select(*_ROW, _LEVEL.scalar_subquery()).where(self.board.rows(), *where)
        shown = query.where(*self._shown()).order_by(*order).limit(limit)
        return [tuple(each) for each in self.connection.execute(shown)]

    def find_agent(self, agent: str) -> tuple[int, _Row] | None:
        """Rank and row of an agent that is shown."""
        query = select(*_ROW, _LEVEL.scalar_subquery(), _count_before(self.board)).where(
            self.board.rows(), table.c.agent == make_storable(agent), *self._shown()
        )
        found = self.connection.execute(query).one_or_none()
        if found is None:
            return None
        *_, before = found
        if self.left_out is not None:
            columns = (self.left_out.c[each.name] for each in SPOT)
            hidden = select(func.count()).where(tuple_(*columns) < compare_spot(_find_spot(found)))
            before -= self.connection.scalar(hidden) or 0
        return 1 + before, tuple(found)

    def _shown(self) -> list[ColumnElement[bool]]:
        if self.left_out is None:
            return []
        return [table.c.agent.not_in(select(self.left_out.c.agent))]


def _count_before(board: Board) -> Any:
    """Number of rows before the selected one.

    Ties are counted separately: a database compares single columns faster than rows.
    """
    better, tied = table.alias(), table.alias()
    counts = (
        select(func.count())
        .select_from(better)
        .where(board.rows(better), better.c.place >= -math.inf, better.c.place < table.c.place),
        select(func.count())
        .select_from(tied)
        .where(board.rows(tied), tied.c.place == table.c.place)
        .where(
            tuple_(tied.c.submitted_at, tied.c.attempt)
            < tuple_(table.c.submitted_at, table.c.attempt)
        ),
    )
    more, equal = (each.correlate(table).scalar_subquery() for each in counts)
    return more + equal


def _find_spot(row: Sequence[Any]) -> Spot:
    place, submitted_at, attempt = row[:3]
    return place, submitted_at, attempt


def _make_standing(rank: int, row: Sequence[Any]) -> Standing:
    _, submitted_at, attempt, agent, value, score, tries, level = row[:8]
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


def update_place(
    statements: QuickStatements, kept: StoredChallenge, agent: str, score: Mapping[str, Any]
) -> None:
    """Count a scored attempt; one that ranks takes its agent's place if it is the better one.

    `score` is its row of `attempt_scores`, which is stored already. A success without a score ranks
    too, behind all that have one, but is no try.
    """
    counted = int(score["error"] is None)
    strategy = STRATEGIES[kept.challenge.scoring.strategy]
    value = score[strategy.column]
    spot: Spot = (strategy.place(value), score["submitted_at"], score["attempt"])
    rows = statements.read(_PLACE_NOW, kept.id, agent)
    if not score["ranks"] or (rows and rows[0][:3] < spot):
        if counted:
            statements.run(_SET_TRIES, kept.id, agent)
        return
    tries = counted
    if rows:
        tries += rows[0][3]
    elif score["number"] > 1:
        tries = count_tries(statements, kept, agent)
    row = (kept.id, False, agent, kept.tenant, *spot, value, score["score"], tries)
    statements.run(_SET_ROW, *row)


def count_tries(statements: QuickStatements, kept: StoredChallenge, agent: str) -> int:
    """Number of an agent's stored attempts that were scored and are not void."""
    return int(statements.read(_COUNT_TRIES, kept.id, agent, kept.id, agent)[0][0])
