"""Ratings as they are read: Elo, and counts per pair of agent and challenge.

`matches` updates them, and can rebuild them from the attempts with the same result. Disqualified
agents are left out. While a board is frozen, the public sees the ratings that follow from its state
at the freeze. Readers who may see only some challenges get the ratings that follow from those.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, case, func, or_, select

from tallymark.ratings import Counts, EloRating, Pair, elo
from tallymark.store.contests import matches
from tallymark.store.contests.agents import is_admitted
from tallymark.store.contests.attempt_rows import attempt_key
from tallymark.store.contests.frozen_attempts import read_voids
from tallymark.store.contests.tables import (
    attempts,
    challenges,
    contest_audit,
    is_unfinished,
    rating_pairs,
    score_history,
    scorings,
)
from tallymark.store.contests.tables import ratings as table
from tallymark.store.database import TenantRows
from tallymark.store.dialects import make_storable, repeatable_read
from tallymark.store.quick_statements import ManyQuery

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, FromClause

    from tallymark.ratings import EloChange, Match

_FIELDS = tuple(asdict(EloRating()))
_CURRENT = ManyQuery(
    f"""
    SELECT once.frozen, given.agent,
           EXISTS (
               SELECT 1 FROM attempts
               WHERE attempts.tenant = given.tenant AND state IN ('entered', 'submitted')
               AND state = 'entered' AND expires_at < once.at AND attempts.agent = given.agent
               AND voided_at IS NULL
           ) OR EXISTS (
               SELECT 1 FROM attempts
               WHERE attempts.tenant = given.tenant AND state IN ('entered', 'submitted')
               AND state = 'submitted' AND match_at IS NOT NULL AND attempts.agent = given.agent
               AND voided_at IS NULL
           ),
           {", ".join(_FIELDS)}
    FROM {{given}}
    CROSS JOIN (
        SELECT CAST(? AS DOUBLE PRECISION) AS at, EXISTS (
            SELECT 1 FROM challenges WHERE tenant = ? AND frozen_at IS NOT NULL
        ) AS frozen
    ) AS once
    LEFT JOIN ratings ON ratings.tenant = given.tenant AND ratings.agent = given.agent
         AND NOT EXISTS (
             SELECT 1 FROM disqualified_agents AS gone
             WHERE gone.tenant = ratings.tenant AND gone.agent = ratings.agent
         )
    """,  # noqa: S608  our own words
    (("tenant", "text"), ("agent", "text")),
)


class CurrentRating(NamedTuple):
    elo: EloRating
    provisional: bool
    """The agent has attempts that wait to be scored or to expire."""


class Ratings(TenantRows):
    """Ratings as they are shown. `as_frozen=False` shows those that a frozen board hides."""

    _folded: tuple[Any, _PubliclyKnown | None] = (None, None)
    """Cache of the last ratings folded for `only` some challenges, with its key."""

    def elo(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        as_frozen: bool = True,
        only: Collection[str] | None = None,
    ) -> list[tuple[str, EloRating]]:
        """Agents with their ratings, highest first, equal ones by name.

        With `only`, ratings as if there were no other challenges than these.
        """
        columns = (table.c[name] for name in _FIELDS)
        query = (
            select(table.c.agent, *columns)
            .where(table.c.tenant == self._tenant, table.c.matches > 0)
            .where(is_admitted(self._tenant, table.c.agent))
            .order_by(table.c.rating.desc(), table.c.agent)
        )
        with self._database.read() as connection:
            known = self._read_known(connection, only) if as_frozen else None
            if known is None:
                rows = connection.execute(query.limit(limit).offset(offset))
                return [(agent, EloRating(*row)) for agent, *row in rows]
            found = {agent: EloRating(*row) for agent, *row in connection.execute(query)}
        kept = {agent: each for agent, each in found.items() if agent not in known.concerned}
        kept |= {agent: each for agent, each in known.elo.items() if each.matches}
        order = sorted(kept.items(), key=lambda pair: (-pair[1].rating, pair[0]))
        return order[offset:] if limit is None else order[offset : offset + limit]

    def _read_known(
        self, connection: Connection, only: Collection[str] | None
    ) -> _PubliclyKnown | None:
        """Cache the ratings of anonymous readers: folding many matches takes seconds."""
        if only is None:
            return _read_known(repeatable_read(connection), self._tenant)
        made_of = (frozenset(only), _read_newest(repeatable_read(connection), self._tenant))
        folded = self._folded
        if folded[0] != made_of:
            folded = self._folded = (made_of, _read_known(connection, self._tenant, only=only))
        return folded[1]

    def newest(self) -> tuple[tuple[int | None, ...], ...]:
        """Version of all ratings: while it is the same, only the passing of time changes them."""
        with self._database.read() as connection:
            return tuple(_read_newest(repeatable_read(connection), self._tenant))

    def of(self, agent: str, *, as_frozen: bool = True) -> EloRating:
        """An agent's rating; that of a newcomer if it has played no match."""
        return self.current(agent, -math.inf, as_frozen=as_frozen).elo

    def current(self, agent: str, at: float, *, as_frozen: bool = True) -> CurrentRating:
        """An agent's rating, and whether it is provisional at this time."""
        return self.current_of([agent], at, as_frozen=as_frozen)[agent]

    def current_of(
        self, agents: Sequence[str], at: float, *, as_frozen: bool = True
    ) -> dict[str, CurrentRating]:
        """Ratings of several agents, and whether they are provisional."""
        names = {make_storable(agent): agent for agent in agents}
        given = [(self._tenant, name) for name in names]
        with self._database.statement() as statements:
            rows = statements.read_many(_CURRENT, given, at, self._tenant)
        found = {
            names[name]: CurrentRating(
                EloRating() if fields[0] is None else EloRating(*fields), bool(provisional)
            )
            for _, name, provisional, *fields in rows
        }
        if as_frozen and rows and rows[0][0]:
            with self._database.read() as connection:
                known = _read_known(repeatable_read(connection), self._tenant, agents)
            if known is not None:
                for agent in found.keys() & known.concerned:
                    rating = known.elo.get(agent, EloRating())
                    found[agent] = found[agent]._replace(elo=rating)
        return found

    def pairs(self, *, as_frozen: bool = True) -> list[Pair]:
        """Results of every agent at every challenge it tried: the input of `ratings.fit`."""
        counts = rating_pairs.c
        query = (
            select(counts.agent, challenges.c.name, counts.wins, counts.draws, counts.losses)
            .join(challenges, challenges.c.id == counts.challenge_id)
            .where(counts.tenant == self._tenant, is_admitted(self._tenant, counts.agent))
            .order_by(counts.agent, challenges.c.name)
        )
        with self._database.read() as connection:
            known = _read_known(repeatable_read(connection), self._tenant) if as_frozen else None
            found = [Pair(*row) for row in connection.execute(query)]
        if known is None:
            return found
        kept = [each for each in found if each.agent not in known.concerned] + known.pairs
        return sorted(kept, key=lambda each: (each.agent, each.challenge))

    def provisional(self, at: float, only: Collection[str] | None = None) -> set[str]:
        """Agents with attempts, at `only` these, that wait to be scored or expired."""
        late = (attempts.c.state == "entered") & (attempts.c.expires_at < at)
        waiting = (attempts.c.state == "submitted") & attempts.c.match_at.is_not(None)
        mine = (attempts.c.tenant == self._tenant, attempts.c.voided_at.is_(None))
        query = select(attempts.c.agent).where(*mine, is_unfinished, late | waiting).distinct()
        if only is not None:
            query = query.where(~is_elsewhere(self._tenant, only))
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def matches(self) -> Iterator[Match]:
        """All matches, one by one, in the order in which the attempts ended."""
        admitted = is_admitted(self._tenant, attempts.c.agent)
        with self._database.read() as connection:
            yield from matches.read_matches(connection, self._tenant, admitted)

    def changes(self, agent: str) -> list[tuple[Match, EloChange]]:
        """An agent's matches, each with its change of the rating."""
        mine = (attempts.c.agent == agent, is_admitted(self._tenant, attempts.c.agent))
        with self._database.read() as connection:
            return list(elo.history(matches.read_matches(connection, self._tenant, *mine)))

    def rebuild(self) -> None:
        """Recompute all ratings and counts from the attempts."""
        self._database.write(lambda c: matches.fold_everyone(c, self._tenant))


@dataclass(frozen=True, slots=True)
class _PubliclyKnown:
    """Agents whose ratings differ for the public, and their public matches and ratings."""

    concerned: set[str]
    log: list[Match]
    elo: dict[str, EloRating]

    @property
    def pairs(self) -> list[Pair]:
        return list(Counts.of(self.log))


def _read_newest(connection: Connection, tenant: str) -> list[tuple[int | None, ...]]:
    """The last entries of the log on which ratings depend: those of challenges, and of agents."""
    log = contest_audit.c
    last = select(func.max(log.seq)).where(log.challenge_id == challenges.c.id).scalar_subquery()
    query = select(challenges.c.id, last).where(challenges.c.tenant == tenant)
    acts = select(log.seq).where(log.challenge_id == 0, log.tenant == tenant)
    newest = connection.scalar(acts.order_by(log.seq.desc()).limit(1))
    return [(0, newest), *map(tuple, connection.execute(query))]


def is_elsewhere(tenant: str, only: Collection[str]) -> ColumnElement[bool]:
    """Condition: an attempt at none of these challenges."""
    these = select(challenges.c.id).where(
        challenges.c.tenant == tenant, challenges.c.name.in_(only)
    )
    return attempts.c.challenge_id.not_in(these)


def _read_known(
    connection: Connection,
    tenant: str,
    agents: Sequence[str] | None = None,
    only: Collection[str] | None = None,
) -> _PubliclyKnown | None:
    """Public knowledge while boards are frozen, or of `only` these; None if it is complete.

    The connection's transaction must be a snapshot.
    """
    mine = (challenges.c.tenant == tenant, challenges.c.frozen_at.is_not(None))
    query = select(challenges.c.id, challenges.c.frozen_at).where(*mine)
    frozen = connection.execute(query).all()
    if not frozen and only is None:
        return None
    hidden = [_is_later(each.id, each.frozen_at) for each in frozen]
    if only is not None:
        hidden.append(is_elsewhere(tenant, only))
    unseen = or_(*hidden)
    rescored = [each for each in frozen if _was_rescored(connection, each.id, each.frozen_at)]
    voids = {attempt_key(each): then for each, then in read_voids(connection, tenant).items()}
    touched = or_(
        unseen,
        attempts.c.challenge_id.in_([each.id for each in rescored]),
        attempts.c.key.in_(voids),
    )
    who = select(attempts.c.agent).where(attempts.c.tenant == tenant, touched).distinct()
    who = who.where(attempts.c.match_at.is_not(None), is_admitted(tenant, attempts.c.agent))
    if agents is not None:
        who = who.where(attempts.c.agent.in_(list(map(make_storable, agents))))
    concerned = set(connection.scalars(who))
    before = [
        (attempts.c.challenge_id == each.id, _result_before(each.id, each.frozen_at))
        for each in rescored
    ]
    result = case(*before, else_=matches.RESULT) if before else matches.RESULT
    chosen = (attempts.c.agent.in_(who.scalar_subquery()), ~unseen)
    is_valid = partial(_was_valid, voids=voids)
    found = matches.read_matches(connection, tenant, *chosen, result=result, is_valid=is_valid)
    log = list(found)
    return _PubliclyKnown(concerned, log, elo.replay(log))


def _was_valid(table: FromClause, voids: Mapping[int | None, float | None]) -> ColumnElement[bool]:
    """Condition: an attempt that was not void at the freeze; see `read_voids`."""
    back = [key for key, then in voids.items() if then is None]
    gone = [key for key, then in voids.items() if then is not None]
    return and_(or_(matches.is_valid_now(table), table.c.key.in_(back)), table.c.key.not_in(gone))


def _is_later(challenge_id: int, frozen_at: float) -> ColumnElement[bool]:
    """Condition: an attempt whose outcome was not known at the freeze."""
    known_at = func.coalesce(attempts.c.scored_at, attempts.c.match_at)
    return and_(attempts.c.challenge_id == challenge_id, known_at >= frozen_at)


def _was_rescored(connection: Connection, challenge_id: int, frozen_at: float) -> bool:
    """Return whether a challenge was rescored after its freeze, also by a formula.

    An attempt without a value by the earlier formula was a loss.
    """
    later = (scorings.c.why.in_(("formula", "rescore")), scorings.c.at >= frozen_at)
    query = select(scorings.c.id).where(scorings.c.challenge_id == challenge_id, *later).limit(1)
    return connection.scalar(query) is not None


def _result_before(challenge_id: int, frozen_at: float) -> Any:
    """Result of an attempt by the rule at the freeze: see `matches.RESULT`."""
    result = case((score_history.c.error.is_(None), score_history.c.result), else_="loss")
    query = (
        select(result)
        .join(scorings, scorings.c.id == score_history.c.scoring)
        .where(scorings.c.challenge_id == challenge_id, score_history.c.at < frozen_at)
        .where(score_history.c.agent == attempts.c.agent)
        .where(score_history.c.attempt == attempts.c.key)
        .order_by(score_history.c.scoring.desc())
        .limit(1)
    )
    never_scored = attempts.c.state.in_(("expired", "withdrawn"))
    return case((never_scored, "loss"), else_=query.correlate(attempts).scalar_subquery())
