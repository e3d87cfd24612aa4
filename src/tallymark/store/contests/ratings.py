"""Ratings in the database, as they are read: Elo, and counts per pair.

`matches` keeps them up to date, and can make them anew from the attempts: that comes to the same.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import select

from tallymark.ratings import EloRating, Pair, elo
from tallymark.store.contests import matches
from tallymark.store.contests.attempt_tables import attempts
from tallymark.store.contests.contest_tables import challenges, rating_pairs
from tallymark.store.contests.contest_tables import ratings as table
from tallymark.store.database import TenantRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.ratings import EloChange, Match

_FIELDS = tuple(asdict(EloRating()))


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
        """All matches, one by one, in the order in which the attempts ended."""
        with self._database.read() as connection:
            yield from matches.read_matches(connection, self._tenant)

    def changes(self, agent: str) -> list[tuple[Match, EloChange]]:
        """An agent's matches, each with what it did to the rating."""
        with self._database.read() as connection:
            mine = matches.read_matches(connection, self._tenant, attempts.c.agent == agent)
            return list(elo.history(mine))

    def rebuild(self) -> None:
        """Makes all ratings and counts anew from the attempts."""
        self._database.write(lambda c: matches.fold_everyone(c, self._tenant))
