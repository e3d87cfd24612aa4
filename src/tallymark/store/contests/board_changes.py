"""Live updates: changes at a challenge after a log entry, for everyone who watches its board.

An update has the current state, not the steps to it: the present place of each agent that moved.
So it does no harm to send it twice, or together with later changes. While the public board is
frozen, the public gets nothing that would reveal a score: see docs/decisions/0035-live.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import func, select

from tallymark.store.contests.audit_log import PLAYED
from tallymark.store.contests.board_rows import SPOT, count_rows, count_rows_before
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.frozen_attempts import TELLING
from tallymark.store.contests.tables import (
    attempt_id,
    attempts,
    boards,
    contest_audit,
    disqualified,
)
from tallymark.store.database import TenantRows
from tallymark.store.dialects import repeatable_read

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from tallymark.store.contests.board_rows import Board, Spot
    from tallymark.store.contests.challenges import StoredChallenge

MOST_AGENTS = 200
"""If more agents change at once, only their number and the top of the board are sent."""
TOP = 100
_MOST_ENTRIES = 2000
_MOVING = frozenset({"scored", "failed", "rescored", "voided", "unvoided"})
"""Events of attempts that may move their agents."""
_TELLING = TELLING | {"loaded", "resumed", "waiting"}
"""Events that the public does not hear of while its board is frozen."""
_ACTS = frozenset({"published", "closed", "reopened", "frozen", "unfrozen", "rescored", "loaded"})
"""Acts on a whole challenge that everyone may know, by name alone."""
_HARMLESS = frozenset({"closed", "reopened", "paused", "data failed"})
_log = contest_audit.c


class PlaceNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent's current place."""

    agent: str
    rank: int
    score: float | None
    value: float | None
    attempt: str
    tries: int
    was: int | None = None
    """The rank that it had before, where that is known."""


class AttemptNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt whose state changed."""

    attempt: str
    agent: str
    number: int
    state: str
    score: float | None = None
    void: bool = False


class BoardChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some changes of a challenge, sent together."""

    seq: int
    challenge: str
    agents: int
    """Number of agents on the board."""
    frozen: bool = False
    changed: tuple[PlaceNow, ...] = ()
    """Take these out of the list, then put each at its rank, the best first."""
    gone: tuple[str, ...] = ()
    """Agents that left the board."""
    many: int = 0
    """Number of changed agents if they are too many to list: load the board again."""
    top: tuple[PlaceNow, ...] | None = None
    """The first of the board, where all of it may have changed."""
    attempts: tuple[AttemptNow, ...] = ()
    acts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Newest:
    """Version of a challenge's state: a different value means that something changed."""

    challenge_id: int
    seq: int
    absent: tuple[int, float | None]
    """Number of disqualified agents, and the time of the last disqualification."""
    public: bool = False
    """True if the challenge is public."""


@dataclass(frozen=True, slots=True)
class ViewedChange:
    """A change as one view shows it; None if it shows nothing new."""

    told: BoardChange | None
    top: tuple[PlaceNow, ...]
    """The first of the board that this side sees."""


class BoardChanges(TenantRows):
    """Changes of boards, for live updates."""

    def newest(self, name: str) -> Newest:
        with self._database.read() as connection:
            kept = find_challenge(repeatable_read(connection), self._tenant, name)
            return _read_newest(connection, kept)

    def after(
        self, name: str, seq: int, *, absent_changed: bool = False
    ) -> tuple[Newest, ViewedChange, ViewedChange]:
        """Change after a log entry: for the public, and for organisers.

        The two are the same while the board is not frozen.
        """
        with self._database.read() as connection:
            kept = find_challenge(repeatable_read(connection), self._tenant, name)
            newest = _read_newest(connection, kept)
            entries = _read_entries(connection, kept, seq, newest.seq)
            live = _Side(connection, kept, frozen=False).tell(newest, entries, absent_changed)
            played = kept.challenge.kind == "versus" and kept.freezes_at is not None
            if kept.frozen_at is None and not played:
                return newest, live, live
            frozen = kept.frozen_at is not None
            public = _Side(connection, kept, frozen=frozen, as_frozen=True).tell(
                newest, entries, absent_changed
            )
        return newest, public, live


def _read_newest(connection: Connection, kept: StoredChallenge) -> Newest:
    last = select(func.max(_log.seq)).where(_log.challenge_id == kept.id).scalar_subquery()
    out = select(last, func.count(), func.max(disqualified.c.at)).where(
        disqualified.c.tenant == kept.tenant
    )
    row = connection.execute(out).one()
    public = kept.challenge.visibility == "public"
    return Newest(kept.id, int(row[0] or 0), (row[1], row[2]), public)


def _read_entries(
    connection: Connection, kept: StoredChallenge, after: int, last: int
) -> Sequence[Row[Any]]:
    columns = ("number", "state", "agent", "voided_at", "scored_at")
    query = (
        select(
            _log.event, _log.attempt, _log.note, _log.at, *(attempts.c[name] for name in columns)
        )
        .outerjoin(attempts, attempts.c.key == _log.attempt)
        .where(_log.challenge_id == kept.id, _log.seq > after, _log.seq <= last)
        .order_by(_log.seq)
        .limit(_MOST_ENTRIES + 1)
    )
    return connection.execute(query).all()


class _Side:
    """The view of one side, the public or the organisers."""

    def __init__(
        self,
        connection: Connection,
        kept: StoredChallenge,
        *,
        frozen: bool,
        as_frozen: bool = False,
    ) -> None:
        self._connection = connection
        self._kept = kept
        self._frozen = frozen
        self._played_until = kept.freezes_at if as_frozen else None
        self._board = kept.get_board(as_frozen=frozen)
        mine = disqualified.c.tenant == kept.tenant
        query = select(boards.c.agent, *SPOT).where(
            self._board.rows(), boards.c.agent.in_(select(disqualified.c.agent).where(mine))
        )
        self._absent: dict[str, Spot] = {
            row[0]: (row[1], row[2], row[3]) for row in connection.execute(query)
        }

    def tell(
        self, newest: Newest, entries: Sequence[Row[Any]], absent_changed: bool
    ) -> ViewedChange:
        entries = [each for each in entries if not self._is_hidden(each)]
        acts = tuple(dict.fromkeys(each.event for each in entries if each.attempt is None))
        moved = (
            {}
            if self._frozen
            else dict.fromkeys(
                each.agent for each in entries if each.event in _MOVING and each.agent is not None
            )
        )
        whole = absent_changed or not set(acts) <= _HARMLESS or len(entries) > _MOST_ENTRIES
        top = self._read_top()
        if not entries and not absent_changed:
            return ViewedChange(None, top)
        size = count_rows(self._connection, self._board) - len(self._absent)
        change = BoardChange(
            seq=newest.seq,
            challenge=self._kept.challenge.name,
            agents=size,
            frozen=self._frozen,
            acts=tuple(each for each in acts if each in _ACTS),
        )
        if whole or len(moved) > MOST_AGENTS:
            many = size if whole else len(moved)
            told = msgspec.structs.replace(change, many=max(1, many), top=top)
            return ViewedChange(told, top)
        places = self._find_places(list(moved))
        gone = tuple(agent for agent in moved if agent not in places)
        changed = tuple(sorted(places.values(), key=lambda each: each.rank))
        facts = {"changed": changed, "gone": gone, "attempts": self._list_attempts(entries)}
        return ViewedChange(msgspec.structs.replace(change, **facts), top)

    def _is_hidden(self, entry: Row[Any]) -> bool:
        """Return whether an entry is hidden from the public, whose board is frozen."""
        if entry.event in PLAYED:  # what is played has no copy of the board, only moments
            return self._played_until is not None and entry.at >= self._played_until
        return self._frozen and entry.event in _TELLING

    def _list_attempts(self, entries: Sequence[Row[Any]]) -> tuple[AttemptNow, ...]:
        """The last state of each attempt; a score only if it was just given and may be shown."""
        found: dict[int, AttemptNow] = {}
        scores: dict[int, float | None] = {}
        for each in entries:
            if each.attempt is None or each.agent in self._absent:
                continue
            if each.event == "scored":
                scores[each.attempt] = (each.note or {}).get("score")
            state, void, frozen_at = each.state, each.voided_at, self._kept.frozen_at
            if self._frozen and frozen_at is not None:  # same rule as in `frozen_attempts`
                state = "submitted" if (each.scored_at or 0.0) >= frozen_at else state
                void = None if (void or 0.0) >= frozen_at else void
            found[each.attempt] = AttemptNow(
                attempt=attempt_id(each.attempt),
                agent=each.agent,
                number=each.number,
                state=state,
                score=scores.get(each.attempt) if state == "scored" else None,
                void=void is not None,
            )
        return tuple(found.values())[-MOST_AGENTS:]

    def _read_top(self) -> tuple[PlaceNow, ...]:
        query = _select_places(self._board).order_by(*SPOT)
        rows = self._connection.execute(query.limit(TOP + len(self._absent)))
        shown = [row for row in rows if row.agent not in self._absent][:TOP]
        return tuple(_make_place(rank, row) for rank, row in enumerate(shown, 1))

    def _find_places(self, agents: Collection[str]) -> dict[str, PlaceNow]:
        if not agents:
            return {}
        query = _select_places(self._board).where(boards.c.agent.in_(agents))
        rows: dict[Spot, Row[Any]] = {
            row[:3]: row for row in self._connection.execute(query) if row.agent not in self._absent
        }
        before = count_rows_before(self._connection, self._board, rows)
        absent = sorted(self._absent.values())
        return {
            row.agent: _make_place(before[at] - bisect_left(absent, at) + 1, row)
            for at, row in rows.items()
        }


def _select_places(board: Board) -> Any:
    names = ("agent", "score", "value", "tries")
    columns = (boards.c[name] for name in names)
    return select(*SPOT, *columns).where(board.rows())


def _make_place(rank: int, row: Row[Any]) -> PlaceNow:
    return PlaceNow(
        agent=row.agent,
        rank=rank,
        score=row.score,
        value=row.value,
        attempt=attempt_id(row.attempt),
        tries=row.tries,
    )
