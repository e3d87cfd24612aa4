"""Ratings in the database: Elo and counts per pair, moved by every match, and read.

`match_log` can make them anew from all matches: that comes to the same.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, insert, select, update

from tallymark.challenges.challenge import Tier
from tallymark.ratings import EloRating, Pair, elo
from tallymark.ratings.match_results import worth
from tallymark.store.contests import match_log
from tallymark.store.contests.contest_tables import (
    challenge_versions,
    challenges,
    matches,
    rating_pairs,
)
from tallymark.store.contests.contest_tables import ratings as table
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import insert_once, lock_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Row

    from tallymark.ratings import EloChange, Match

_FIELDS = tuple(asdict(EloRating()))
_COUNTS = {1.0: "wins", 0.5: "draws", 0.0: "losses"}


class Ratings(TenantRows):
    """What `store.ratings` is."""

    def elo(self, *, limit: int | None = None, offset: int = 0) -> list[tuple[str, EloRating]]:
        """Agents with their ratings, highest first, equal ones by name."""
        columns = (table.c[name] for name in _FIELDS)
        query = (
            select(table.c.agent, *columns)
            .where(table.c.tenant == self._tenant, table.c.matches > 0)
            .order_by(table.c.rating.desc(), table.c.agent)
            .limit(limit)
            .offset(offset)
        )
        with self._database.read() as connection:
            return [(agent, EloRating(*row)) for agent, *row in connection.execute(query)]

    def of(self, agent: str) -> EloRating:
        """One agent's rating; that of a newcomer if it has played no match."""
        query = select(*(table.c[name] for name in _FIELDS))
        query = query.where(table.c.tenant == self._tenant, table.c.agent == agent)
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return EloRating() if row is None else EloRating(*row)

    def pairs(self) -> list[Pair]:
        """How every agent fared at every challenge it tried: what `ratings.fit` works from."""
        counts = rating_pairs.c
        query = (
            select(counts.agent, challenges.c.name, counts.wins, counts.draws, counts.losses)
            .join(challenges, challenges.c.id == counts.challenge_id)
            .where(counts.tenant == self._tenant)
            .order_by(counts.agent, challenges.c.name)
        )
        with self._database.read() as connection:
            return [Pair(*row) for row in connection.execute(query)]

    def matches(self) -> Iterator[Match]:
        """The log, one by one, in the order in which the attempts ended."""
        with self._database.read() as connection:
            yield from match_log.read_matches(connection, self._tenant)

    def changes(self, agent: str) -> list[tuple[Match, EloChange]]:
        """An agent's matches, each with what it did to the rating."""
        with self._database.read() as connection:
            mine = match_log.read_matches(connection, self._tenant, matches.c.agent == agent)
            return list(elo.history(mine))

    def rebuild(self) -> None:
        """Makes all ratings and counts anew from the log."""
        everyone = match_log.select_everyone(self._tenant)
        self._database.write(lambda c: match_log.rate_anew(c, self._tenant, everyone))


class _PlayedVersion(msgspec.Struct):
    """What the log needs of the version of a challenge that an attempt was made at."""

    difficulty: Tier = "contender"
    kind: str = "solo"


def record_match(
    connection: Connection, attempt: Row[Any], result: str, *, verified: bool, at: float
) -> None:
    """Adds the match of an attempt that just ended, and rates its agent. `attempt` is its row."""
    version = challenge_versions.c.id == attempt.version_id
    query = select(challenge_versions.c.definition).where(version)
    played = msgspec.json.decode(connection.execute(query).scalar_one(), type=_PlayedVersion)
    if played.kind != "solo":
        return
    mine = {"tenant": attempt.tenant, "agent": attempt.agent}
    # A newcomer has no row that could be locked.
    insert_once(connection, table, mine | asdict(EloRating()))
    is_mine = and_(*(table.c[name] == mine[name] for name in mine))
    # From here on the agent's matches are rated one at a time, in the order of the log.
    rating = connection.execute(lock_rows(select(table).where(is_mine))).one()
    first = _count_result(connection, attempt, result)
    change = elo.update(
        rating.rating,
        played.difficulty,
        result,
        matches=rating.matches,
        verified=verified,
        memoryless=attempt.memoryless,
        first_attempt=first,
    )
    counts = (table.c.matches, table.c[_COUNTS[worth(result)]])
    more = {each.name: each + 1 for each in counts}
    connection.execute(update(table).where(is_mine).values(rating=change.after, **more))
    match = {"challenge_id": attempt.challenge_id, "attempt": attempt.key, "result": result}
    match |= {"at": at, "tier": played.difficulty, "memoryless": attempt.memoryless}
    connection.execute(insert(matches).values(mine | match | {"verified": verified}))


def _count_result(connection: Connection, attempt: Row[Any], result: str) -> bool:
    """Counts a result at a challenge; True for the agent's first."""
    pair = {"tenant": attempt.tenant, "agent": attempt.agent, "challenge_id": attempt.challenge_id}
    first = insert_once(connection, rating_pairs, pair | dict.fromkeys(_COUNTS.values(), 0))
    column = rating_pairs.c[_COUNTS[worth(result)]]
    mine = and_(*(rating_pairs.c[name] == value for name, value in pair.items()))
    connection.execute(update(rating_pairs).where(mine).values({column: column + 1}))
    return first
