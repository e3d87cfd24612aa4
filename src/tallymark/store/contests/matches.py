"""An agent's matches: a fold over its attempts, in the order in which they ended.

Nothing is logged, so late verdicts, voids and rescoring lead to the same ratings as if they had
been there from the start: see docs/decisions/0020-matches-derived.md. `ratings` and `rating_pairs`
store the outcome.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import case, delete, func, select

from tallymark.challenges.challenge import MatchTerms
from tallymark.ratings import Counts, EloRating, Match, elo
from tallymark.ratings.matches import worth
from tallymark.store.contests.tables import (
    attempt_scores,
    attempts,
    challenges,
    is_own_score,
    rating_pairs,
    ratings,
)
from tallymark.store.dialects import insert_many
from tallymark.store.quick_statements import ManyQuery, QuickStatements, write_insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select

_ENDED = ("scored", "failed", "expired", "withdrawn")
_AT_ONCE = 500
"""Number of agents folded by one query."""
_FIELDS = tuple(asdict(EloRating()))
_take_fields = attrgetter(*_FIELDS)
_COUNTS = {1.0: 0, 0.5: 1, 0.0: 2}
"""By what a match is worth, which count of a pair it adds to."""
_decode_terms = msgspec.json.Decoder(MatchTerms).decode

_AGENT = (("tenant", "text"), ("agent", "text"))
_SO_FAR = f"""
    SELECT pair.wins, newest.match_at, newest.key,
           {", ".join(f"ratings.{name}" for name in _FIELDS)}
    FROM (
        SELECT CAST(? AS TEXT) AS tenant, CAST(? AS TEXT) AS agent,
               CAST(? AS BIGINT) AS challenge_id
    ) AS given
    LEFT JOIN attempts AS newest ON newest.key = (
        SELECT own.key FROM attempts AS own
        WHERE own.tenant = given.tenant AND own.agent = given.agent
          AND own.match_at IS NOT NULL AND own.voided_at IS NULL AND own.state IN {_ENDED}
        ORDER BY own.match_at DESC, own.key DESC LIMIT 1
    )
    LEFT JOIN ratings ON ratings.tenant = given.tenant AND ratings.agent = given.agent
    LEFT JOIN rating_pairs AS pair ON pair.tenant = given.tenant AND pair.agent = given.agent
         AND pair.challenge_id = given.challenge_id
"""  # noqa: S608  our own words
_LOCK = ManyQuery(
    """
    SELECT tenant, agent FROM ratings WHERE (tenant, agent) IN (SELECT tenant, agent FROM {given})
    ORDER BY tenant, agent FOR NO KEY UPDATE
    """,
    _AGENT,
)
_INSERT_RATING = write_insert("ratings", ("tenant", "agent", *_FIELDS))
_SET_RATING = (
    f"{_INSERT_RATING} ON CONFLICT (tenant, agent)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _FIELDS)}"
)
_PAIR = ("wins", "draws", "losses")
_ADD_PAIR = (
    write_insert("rating_pairs", ("tenant", "agent", "challenge_id", *_PAIR))
    + " ON CONFLICT (tenant, agent, challenge_id) DO UPDATE SET "
    + ", ".join(f"{name} = rating_pairs.{name} + excluded.{name}" for name in _PAIR)
)

_DEFINITION = "SELECT definition FROM challenge_versions WHERE id = ?"
RESULT: ColumnElement[Any] = case(
    (attempts.c.state == "scored", attempt_scores.c.result), else_="loss"
)
"""Result of an attempt that has ended: without a score it is a loss, otherwise no score would be
better than a bad one."""


def is_valid_now(table: FromClause) -> ColumnElement[bool]:
    """Condition: attempts that are not void."""
    valid: ColumnElement[bool] = table.c.voided_at.is_(None)
    return valid


def read_matches(
    connection: Connection,
    tenant: str,
    *where: ColumnElement[bool],
    result: ColumnElement[Any] = RESULT,
    is_valid: Callable[[FromClause], ColumnElement[bool]] = is_valid_now,
) -> Iterator[Match]:
    """Matches in the order in which they ended; `where` chooses agents, or hides attempts."""
    terms = _TermsByVersion(connection)
    won: set[tuple[str, str]] = set()
    query = _select_ended(tenant, result, is_valid, *where)
    query = query.order_by(attempts.c.match_at, attempts.c.key)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for row in rows:
            pair = (row.agent, row.name)
            match = _make_match(row, terms[row.version_id], has_won=pair in won)
            if match is not None:
                if match.result == "win":
                    won.add(pair)
                yield match


class EndedAttempt(NamedTuple):
    """An attempt that has just ended and is not void, with all that makes a match of it."""

    tenant: str
    agent: str
    challenge_id: int
    name: str
    """Name of the challenge."""
    version_id: int
    key: int
    match_at: float
    result: str | None
    verified: bool
    memoryless: bool
    first: bool


class RatedAgent:
    """An agent's rating after an attempt, to be written."""

    def __init__(self, ended: EndedAttempt, rating: EloRating, points: float | None) -> None:
        """`points` is what the attempt is worth as a match; None if it is none."""
        self._ended = ended
        self._rating = rating
        self._points = points
        self.is_late = False
        """An attempt that ended later was known: the agent is folded again."""

    def write(self, statements: QuickStatements) -> None:
        """Store it, after the attempt was stored as ended."""
        tenant, agent, challenge_id, *_ = self._ended
        if self.is_late:
            _fold(statements.connection, tenant, [agent])
            return
        statements.run(_SET_RATING, tenant, agent, *_take_fields(self._rating))
        if self._points is not None:
            cell = [0, 0, 0]
            cell[_COUNTS[self._points]] = 1
            statements.run(_ADD_PAIR, tenant, agent, challenge_id, *cell)


def rate_ended(statements: QuickStatements, ended: EndedAttempt, terms: MatchTerms) -> RatedAgent:
    """Rate an agent, which the caller has locked, after an attempt not stored as ended yet.

    For the agent's newest attempt that is one step; any other folds the agent again.
    """
    ((wins, match_at, key, *rating),) = statements.read(_SO_FAR, *ended[:3])
    known = EloRating() if rating[0] is None else EloRating(*rating)
    rated = RatedAgent(ended, known, None)
    if match_at is not None and (ended.match_at, ended.key) < (match_at, key):
        rated.is_late = True
        return rated
    match = _make_match(ended, terms, has_won=bool(wins))
    if match is None:
        return rated
    return RatedAgent(ended, elo.rate(known, match), worth(match.result))


def lock_known(statements: QuickStatements, agents: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """Lock the ratings of these agents in their order; return the agents that have one.

    Only for PostgreSQL: SQLite's writers are alone already.
    """
    return {(tenant, agent) for tenant, agent in statements.read_many(_LOCK, agents)}


def lock_ratings(statements: QuickStatements, agents: list[tuple[str, str]]) -> None:
    """Lock the ratings of these agents until the end of the transaction."""
    newcomer = _take_fields(EloRating())
    rows = [(*agent, *newcomer) for agent in agents]
    # A newcomer has no row that could be locked.
    statements.run_many(f"{_INSERT_RATING} ON CONFLICT DO NOTHING", rows)
    if statements.is_postgres:
        lock_known(statements, agents)


def fold_agents(connection: Connection, tenant: str, agents: Iterable[str]) -> None:
    """Recompute ratings and counts of these agents from their attempts."""
    # In the order of names, as everywhere, to prevent deadlocks.
    names = iter(sorted(set(agents)))
    while some := list(islice(names, _AT_ONCE)):
        lock_ratings(QuickStatements(connection), [(tenant, agent) for agent in some])
        _fold(connection, tenant, some)


def fold_everyone(connection: Connection, tenant: str) -> None:
    """Recompute all ratings and counts of a tenant."""
    rated = select(ratings.c.agent).where(ratings.c.tenant == tenant)
    is_match = (attempts.c.tenant == tenant, attempts.c.match_at.is_not(None))
    played = select(attempts.c.agent).where(*is_match)
    fold_agents(connection, tenant, connection.scalars(rated.union(played)).all())


class _TermsByVersion(dict[int, MatchTerms]):
    """Match terms of challenge versions, each read when it is first needed."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._statements = QuickStatements(connection)

    def __missing__(self, version: int) -> MatchTerms:
        ((definition,),) = self._statements.read(_DEFINITION, version)
        self[version] = _decode_terms(definition)
        return self[version]


def _select_ended(
    tenant: str,
    result: ColumnElement[Any],
    is_valid: Callable[[FromClause], ColumnElement[bool]],
    *where: ColumnElement[bool],
) -> Select[Any]:
    """Attempts that have ended and were not made void, with all that makes matches of them."""
    other = attempts.alias()
    first = select(func.min(other.c.number)).where(
        other.c.challenge_id == attempts.c.challenge_id,
        other.c.agent == attempts.c.agent,
        is_valid(other),
    )
    names = ("key", "tenant", "agent", "challenge_id", "version_id", "match_at")
    return (
        select(
            *(attempts.c[name] for name in (*names, "verified", "memoryless")),
            challenges.c.name,
            result.label("result"),
            (attempts.c.number == first.scalar_subquery()).label("first"),
        )
        .join(challenges, challenges.c.id == attempts.c.challenge_id)
        .outerjoin(attempt_scores, is_own_score)
        .where(attempts.c.tenant == tenant, attempts.c.match_at.is_not(None))
        .where(is_valid(attempts), attempts.c.state.in_(_ENDED), *where)
    )


def _make_match(row: Row[Any] | EndedAttempt, terms: MatchTerms, *, has_won: bool) -> Match | None:
    """The match of an attempt; None where it is none, because it is a repeat or has no result."""
    counts = {"every": True, "until_won": not has_won, "first": row.first}[terms.rule]
    if terms.kind != "solo" or row.result is None or not counts:
        return None
    facts = (row.agent, row.name, terms.difficulty, row.result)
    return Match(*facts, row.verified, row.memoryless, first=bool(row.first))


def _fold(connection: Connection, tenant: str, agents: list[str]) -> None:
    """Recompute agents that the caller has locked."""
    counts = Counts()

    def count_all() -> Iterator[Match]:
        for match in read_matches(connection, tenant, attempts.c.agent.in_(agents)):
            counts.add(match)
            yield match

    found = elo.replay(count_all())
    newcomer = EloRating()
    rows = [(tenant, each, *_take_fields(found.get(each, newcomer))) for each in agents]
    QuickStatements(connection).run_many(_SET_RATING, rows)
    pairs = (rating_pairs.c.tenant == tenant) & rating_pairs.c.agent.in_(agents)
    connection.execute(delete(rating_pairs).where(pairs))
    query = select(challenges.c.name, challenges.c.id).where(challenges.c.tenant == tenant)
    ids = dict(connection.execute(query).all())
    names = ("tenant", "agent", "challenge_id", "wins", "draws", "losses")
    values = ((tenant, agent, ids[name], *cell) for (agent, name), cell in counts.cells())
    insert_many(connection, rating_pairs, names, values)
