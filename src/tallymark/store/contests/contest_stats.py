"""Counts, sums and lists shown with boards and profiles, each read by one query."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import BigInteger, cast, func, or_, select, tuple_

from tallymark.dimensions.breakdown import Result
from tallymark.ratings import elo
from tallymark.store.contests import frozen_attempts, matches
from tallymark.store.contests.agents import is_admitted
from tallymark.store.contests.attempt_rows import (
    attempt_key,
    is_shown_to,
    read_history,
    select_attempts,
    to_attempt,
)
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.ratings import is_elsewhere
from tallymark.store.contests.tables import (
    agents,
    attempt_id,
    attempt_scores,
    attempts,
    boards,
    challenges,
    is_own_score,
    is_unfinished,
    score_history,
    scorings,
)
from tallymark.store.database import TenantRows
from tallymark.store.dialects import repeatable_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy import ColumnElement, Connection, Select

    from tallymark.challenges.attempt import Attempt
    from tallymark.ratings import EloChange, Match
    from tallymark.store.contests.frozen_attempts import RescoredSince


_A_DAY = 86_400
_WAITS = (is_unfinished, attempts.c.state == "submitted")


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, with or without a rating."""

    handle: str
    name: str
    since: float
    owner: str | None = None


class AttemptNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of an attempt that a board row shows in addition to the score."""

    dimensions: dict[str, float]
    """Raw scores by key, not weighed."""
    result: Result | None
    elapsed_ms: int | None
    number: int
    verified: bool
    submitted_at: float
    level: str
    """Trajectory level: none, claimed, consistent, witnessed or metered."""
    by_earlier_rule: bool = False
    """Rescored after its board was frozen: its earlier dimensions are not stored."""


class ContestStats(TenantRows):
    """Statistics of contests. `as_frozen` hides what happened after a freeze."""

    def count_waiting(self) -> list[tuple[str, int, float]]:
        """Count the attempts that wait for a score by challenge, with the time of the oldest."""
        columns = (func.count(), func.min(attempts.c.submitted_at))
        query = (
            select(challenges.c.name, *columns)
            .join(challenges, challenges.c.id == attempts.c.challenge_id)
            .where(attempts.c.tenant == self._tenant, *_WAITS)
            .group_by(challenges.c.name)
            .order_by(challenges.c.name)
        )
        with self._database.read() as connection:
            return [(name, count, at or 0.0) for name, count, at in connection.execute(query)]

    def count_attempts(self, name: str) -> int:
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, name)
            query = select(func.count()).where(attempts.c.challenge_id == kept.id)
            return connection.scalar(query) or 0

    def waiting(
        self, challenge: str | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[Attempt]:
        """Attempts that wait for a score, at one challenge or all, oldest first."""
        query = select_attempts(self._tenant).where(*_WAITS).order_by(attempts.c.key)
        with self._database.read() as connection:
            if challenge is not None:
                kept = find_challenge(connection, self._tenant, challenge)
                query = query.where(attempts.c.challenge_id == kept.id)
            return [
                to_attempt(row) for row in connection.execute(query.limit(limit).offset(offset))
            ]

    def agents(
        self, *, text: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[AgentRow]:
        """Agents by handle; `text` is part of the handle or the name."""
        columns = (agents.c.handle, agents.c.name, agents.c.created_at, agents.c.owner)
        query = select(*columns).where(*self._list_conditions(text)).order_by(agents.c.handle)
        with self._database.read() as connection:
            rows = connection.execute(query.limit(limit).offset(offset)).all()
        return [
            AgentRow(handle=row.handle, name=row.name, since=row.created_at, owner=row.owner)
            for row in rows
        ]

    def _list_conditions(self, text: str | None) -> list[ColumnElement[bool]]:
        found = [agents.c.tenant == self._tenant, is_admitted(self._tenant, agents.c.handle)]
        if text:
            places = (agents.c.handle, agents.c.name)
            found.append(or_(*(place.icontains(text, autoescape=True) for place in places)))
        return found

    def values(self, name: str, *, as_frozen: bool = True) -> list[float]:
        """Values by which the board is ordered, of all agents that have one."""
        with self._database.read() as connection:
            kept = find_challenge(repeatable_read(connection), self._tenant, name)
            query = select(boards.c.value).where(
                kept.get_board(as_frozen=as_frozen).rows(boards),
                boards.c.value.is_not(None),
                is_admitted(self._tenant, boards.c.agent),
            )
            return list(connection.scalars(query))

    def lines_of(
        self, name: str, handles: Iterable[str], *, as_frozen: bool = True
    ) -> dict[str, tuple[float | None, int]]:
        """Values and tries of these agents, if they are on the board."""
        with self._database.read() as connection:
            kept = find_challenge(repeatable_read(connection), self._tenant, name)
            query = select(boards.c.agent, boards.c.value, boards.c.tries).where(
                kept.get_board(as_frozen=as_frozen).rows(boards), boards.c.agent.in_(list(handles))
            )
            return {row.agent: (row.value, row.tries) for row in connection.execute(query)}

    def scores(self, name: str, *, most: int) -> dict[str, list[float]]:
        """Score of all ranked attempts by agent, as they are now: not for a frozen board.

        Empty if there are more than `most`.
        """
        scores = attempt_scores.c
        with self._database.snapshot() as snapshot:
            connection = snapshot.connection
            kept = find_challenge(connection, self._tenant, name)
            query = (
                select(scores.agent, scores.score)
                .join(attempts, is_own_score)
                .where(scores.challenge_id == kept.id, scores.score.is_not(None))
                .where(scores.ranks, attempts.c.voided_at.is_(None))
            )
            found: dict[str, list[float]] = {}
            rows = connection.execute(query.limit(most + 1)).all()
        if len(rows) > most:
            return {}
        for agent, score in rows:
            found.setdefault(agent, []).append(score)
        return found

    def days(self, name: str, *, as_frozen: bool = True) -> dict[int, int]:
        """Number of attempts submitted per day, days counted from 1970 in UTC."""
        day: Any = cast(func.floor(attempts.c.submitted_at / _A_DAY), BigInteger)
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, name)
            query = select(day, func.count()).where(
                attempts.c.challenge_id == kept.id, attempts.c.submitted_at.is_not(None)
            )
            if as_frozen and kept.frozen_at is not None:
                query = query.where(attempts.c.submitted_at < kept.frozen_at)
            rows = connection.execute(query.group_by(day).order_by(day)).all()
        return {int(row[0]): int(row[1]) for row in rows}

    def numbers(self, identifiers: Iterable[str], *, as_frozen: bool) -> dict[str, AttemptNumbers]:
        """Numbers of attempts for board rows, by id."""
        keys = [attempt_key(each) for each in identifiers]
        names = ("key", "challenge_id", "number", "verified", "submitted_at", "trajectory_level")
        columns = (attempts.c[name] for name in names)
        scores = attempt_scores.c
        query = (
            select(*columns, scores.dimensions, scores.result, scores.elapsed_ms)
            .add_columns(challenges.c.frozen_at)
            .join(attempt_scores, is_own_score)
            .join(challenges, challenges.c.id == attempts.c.challenge_id)
            .where(attempts.c.tenant == self._tenant, attempts.c.key.in_(keys))
        )
        with self._database.snapshot() as snapshot:
            connection = snapshot.connection
            rows = connection.execute(query).all()
            frozen = as_frozen and any(row.frozen_at is not None for row in rows)
            rescored = frozen_attempts.read_rescored(connection, self._tenant) if frozen else {}
            earlier = _read_earlier_results(connection, rescored, keys) if rescored else {}
        return {
            attempt_id(row.key): AttemptNumbers(
                dimensions=msgspec.json.decode(row.dimensions)
                if row.dimensions and row.challenge_id not in rescored
                else {},
                result=earlier.get(row.key) if row.challenge_id in rescored else row.result,
                by_earlier_rule=row.challenge_id in rescored,
                elapsed_ms=row.elapsed_ms,
                number=row.number,
                verified=bool(row.verified),
                submitted_at=row.submitted_at,
                level=row.trajectory_level,
            )
            for row in rows
        }

    def attempts_of(
        self, agent: str, *, limit: int = 50, offset: int = 0, as_frozen: bool = True
    ) -> list[Attempt]:
        """An agent's ended attempts at all challenges, latest first."""
        query = (
            select_attempts(self._tenant)
            .where(attempts.c.agent == agent, attempts.c.match_at.is_not(None))
            .order_by(attempts.c.match_at.desc(), attempts.c.key.desc())
            .limit(limit)
            .offset(offset)
        )
        return self._read_attempts(query, as_frozen)

    def open_attempts_of(self, agent: str) -> list[Attempt]:
        """An agent's open attempts, the next to expire first."""
        query = (
            select_attempts(self._tenant)
            .where(is_unfinished, attempts.c.agent == agent, attempts.c.state == "entered")
            .order_by(attempts.c.expires_at)
        )
        return self._read_attempts(query, as_frozen=False)

    def newest_attempts(
        self,
        *,
        agent: str | None = None,
        limit: int = 10,
        as_frozen: bool = True,
        at: Collection[str] | None = None,
        open_of: str | None = None,
    ) -> list[Attempt]:
        """Attempts entered last, at any challenge or those named in `at`.

        With `agent`, those of one agent; `open_of` as in `Attempts.of`.
        """
        query = select_attempts(self._tenant).order_by(attempts.c.key.desc()).limit(limit)
        if agent is not None:
            query = query.where(attempts.c.agent == agent)
        if at is not None:
            query = query.where(challenges.c.name.in_(at))
        if open_of is not None:
            query = query.where(is_shown_to(open_of))
        return self._read_attempts(query, as_frozen)

    def _read_attempts(self, query: Select[Any], as_frozen: bool) -> list[Attempt]:
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            frozen = as_frozen and any(row.frozen_at is not None for row in rows)
            later = frozen_attempts.LaterActs({})
            if frozen:
                later = frozen_attempts.read_later_acts(connection, self._tenant)
            return [
                frozen_attempts.hide_later(
                    to_attempt(row),
                    row.frozen_at if as_frozen else None,
                    partial(read_history, connection, row),
                    later,
                )
                for row in rows
            ]

    def change_by(
        self, attempt: Attempt, only: Collection[str] | None = None
    ) -> tuple[Match, EloChange] | None:
        """Change of an agent's rating by an attempt; None if it was no match.

        With `only`, of the rating that follows from these challenges.
        """
        key = attempt_key(attempt.id)
        own = select(attempts.c.match_at).where(
            attempts.c.tenant == self._tenant, attempts.c.key == key
        )
        ended = tuple_(attempts.c.match_at, attempts.c.key)
        mine = [attempts.c.agent == attempt.agent, is_admitted(self._tenant, attempts.c.agent)]
        if only is not None:
            mine.append(~is_elsewhere(self._tenant, only))
        with self._database.read() as connection:
            at = connection.scalar(own)
            if at is None:
                return None
            before, upto = (
                list(matches.read_matches(connection, self._tenant, *mine, condition))
                for condition in (ended < (at, key), ended <= (at, key))
            )
        if len(upto) == len(before):
            return None
        return list(elo.history(upto))[-1]


def _read_earlier_results(
    connection: Connection, rescored: Mapping[int, RescoredSince], keys: Collection[int | None]
) -> dict[int, Result | None]:
    """Results of attempts before their boards were frozen."""
    columns = (scorings.c.challenge_id, score_history.c.attempt, score_history.c.at)
    query = (
        select(*columns, score_history.c.result)
        .join(scorings, scorings.c.id == score_history.c.scoring)
        .where(scorings.c.challenge_id.in_(rescored), score_history.c.attempt.in_(keys))
        .order_by(score_history.c.scoring)
    )
    return {
        attempt: result
        for challenge_id, attempt, at, result in connection.execute(query)
        if at < rescored[challenge_id].frozen_at
    }
