"""An agent's matches: a fold over its attempts, in the order in which they ended.

Nothing is logged, so late verdicts, voids and rescoring come to what would have been from the
start: see docs/decisions/0020-matches-derived.md. `ratings` and `rating_pairs` keep the outcome.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, case, delete, func, select, tuple_, update

from tallymark.challenges.challenge import MatchTerms
from tallymark.ratings import Counts, EloRating, Match, elo
from tallymark.ratings.match_results import worth
from tallymark.store.contests.attempt_tables import attempt_scores, attempts, is_own_score
from tallymark.store.contests.contest_tables import (
    challenge_versions,
    challenges,
    rating_pairs,
    ratings,
)
from tallymark.store.database_dialects import dialect_insert, insert_many, lock_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import ColumnElement, Connection, Row, Select

_ENDED = ("scored", "failed", "expired", "withdrawn")
_AT_ONCE = 500
"""So many agents are folded by one query."""
_FIELDS = tuple(asdict(EloRating()))
_COUNTS = {1.0: "wins", 0.5: "draws", 0.0: "losses"}
_decode_terms = msgspec.json.Decoder(MatchTerms).decode

RESULT: ColumnElement[Any] = case(
    (attempts.c.state == "scored", attempt_scores.c.result), else_="loss"
)
"""What an attempt that has ended came to: without a score it is lost, or no score would be better
than a bad one."""


def read_matches(
    connection: Connection,
    tenant: str,
    *where: ColumnElement[bool],
    result: ColumnElement[Any] = RESULT,
) -> Iterator[Match]:
    """Matches in the order in which they ended; `where` chooses agents, or hides attempts."""
    terms = _TermsByVersion(connection)
    won: set[tuple[str, str]] = set()
    query = _select_ended(tenant, result, *where)
    query = query.order_by(attempts.c.match_at, attempts.c.key)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for row in rows:
            pair = (row.agent, row.name)
            match = _make_match(row, terms[row.version_id], has_won=pair in won)
            if match is not None:
                if match.result == "win":
                    won.add(pair)
                yield match


def follow(connection: Connection, attempt: Row[Any]) -> None:
    """Rates an agent after an attempt of it has ended. `attempt` is its row, of whichever state.

    For the newest attempt that is one step; any other folds the agent again.
    """
    tenant, agent = attempt.tenant, attempt.agent
    # From here on the agent is rated by one at a time, who sees all that others did before.
    _lock_agents(connection, tenant, [agent])
    row = connection.execute(
        _select_ended(tenant, RESULT, attempts.c.key == attempt.key)
    ).one_or_none()
    if row is None:
        return
    if connection.scalar(_select_newer(row)) is not None:
        _fold(connection, tenant, [agent])
        return
    pair = {"tenant": tenant, "agent": agent, "challenge_id": row.challenge_id}
    mine = and_(*(rating_pairs.c[name] == value for name, value in pair.items()))
    has_won = bool(connection.scalar(select(rating_pairs.c.wins).where(mine)))
    match = _make_match(row, _TermsByVersion(connection)[row.version_id], has_won=has_won)
    if match is not None:
        _count_match(connection, pair, match)
        _move_rating(connection, tenant, match)


def fold_agents(connection: Connection, tenant: str, agents: Iterable[str]) -> None:
    """Makes ratings and counts of these agents anew from their attempts."""
    # By name, as whoever else holds several: so they cannot wait for each other in a circle.
    names = iter(sorted(set(agents)))
    while some := list(islice(names, _AT_ONCE)):
        _lock_agents(connection, tenant, some)
        _fold(connection, tenant, some)


def fold_everyone(connection: Connection, tenant: str) -> None:
    """Makes all ratings and counts of a tenant anew."""
    rated = select(ratings.c.agent).where(ratings.c.tenant == tenant)
    is_match = (attempts.c.tenant == tenant, attempts.c.match_at.is_not(None))
    played = select(attempts.c.agent).where(*is_match)
    fold_agents(connection, tenant, connection.scalars(rated.union(played)).all())


class _TermsByVersion(dict[int, MatchTerms]):
    """What the versions of challenges say of matches, each read when it is first met."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, version: int) -> MatchTerms:
        query = select(challenge_versions.c.definition).where(challenge_versions.c.id == version)
        self[version] = _decode_terms(self._connection.execute(query).scalar_one())
        return self[version]


def _select_ended(
    tenant: str, result: ColumnElement[Any], *where: ColumnElement[bool]
) -> Select[Any]:
    """Attempts that have ended and were not made void, with all that makes matches of them."""
    other = attempts.alias()
    first = select(func.min(other.c.number)).where(
        other.c.challenge_id == attempts.c.challenge_id,
        other.c.agent == attempts.c.agent,
        other.c.voided_at.is_(None),
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
        .where(attempts.c.voided_at.is_(None), attempts.c.state.in_(_ENDED), *where)
    )


def _select_newer(row: Row[Any]) -> Select[Any]:
    """Any attempt of the same agent that ended later."""
    ended = tuple_(attempts.c.match_at, attempts.c.key)
    return (
        select(attempts.c.key)
        .where(attempts.c.tenant == row.tenant, attempts.c.agent == row.agent)
        .where(attempts.c.match_at >= row.match_at, ended > (row.match_at, row.key))
        .where(attempts.c.voided_at.is_(None), attempts.c.state.in_(_ENDED))
        .limit(1)
    )


def _make_match(row: Row[Any], terms: MatchTerms, *, has_won: bool) -> Match | None:
    """The match of an attempt; None where it is none, because it is a repeat or has no result."""
    counts = {"every": True, "until_won": not has_won, "first": row.first}[terms.rule]
    if terms.kind != "solo" or row.result is None or not counts:
        return None
    facts = (row.agent, row.name, terms.difficulty, row.result)
    return Match(*facts, row.verified, row.memoryless, first=bool(row.first))


def _count_match(connection: Connection, pair: dict[str, Any], match: Match) -> None:
    statement = dialect_insert(connection, rating_pairs)
    one = dict.fromkeys(_COUNTS.values(), 0) | {_COUNTS[worth(match.result)]: 1}
    more = {name: rating_pairs.c[name] + statement.excluded[name] for name in one}
    statement = statement.values(pair | one)
    connection.execute(statement.on_conflict_do_update(index_elements=list(pair), set_=more))


def _move_rating(connection: Connection, tenant: str, match: Match) -> None:
    mine = (ratings.c.tenant == tenant, ratings.c.agent == match.agent)
    query = select(*(ratings.c[name] for name in _FIELDS)).where(*mine)
    before = EloRating(*connection.execute(query).one())
    after = elo.rate(before, match)
    connection.execute(update(ratings).where(*mine).values(asdict(after)))


def _fold(connection: Connection, tenant: str, agents: list[str]) -> None:
    """The caller has locked these agents."""
    counts = Counts()

    def count_all() -> Iterator[Match]:
        for match in read_matches(connection, tenant, attempts.c.agent.in_(agents)):
            counts.add(match)
            yield match

    found = elo.replay(count_all())
    newcomer = EloRating()
    rows = [
        {"tenant": tenant, "agent": each} | asdict(found.get(each, newcomer)) for each in agents
    ]
    statement = dialect_insert(connection, ratings)
    changes = {name: statement.excluded[name] for name in _FIELDS}
    keys = ["tenant", "agent"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes), rows)
    pairs = (rating_pairs.c.tenant == tenant) & rating_pairs.c.agent.in_(agents)
    connection.execute(delete(rating_pairs).where(pairs))
    query = select(challenges.c.name, challenges.c.id).where(challenges.c.tenant == tenant)
    ids = dict(connection.execute(query).all())
    names = ("tenant", "agent", "challenge_id", "wins", "draws", "losses")
    values = ((tenant, agent, ids[name], *cell) for (agent, name), cell in counts.cells())
    insert_many(connection, rating_pairs, names, values)


def _lock_agents(connection: Connection, tenant: str, agents: list[str]) -> None:
    """Keeps everybody else from rating these agents until the end of the transaction."""
    newcomer = asdict(EloRating())
    rows = [{"tenant": tenant, "agent": each} | newcomer for each in agents]
    # A newcomer has no row that could be locked.
    connection.execute(dialect_insert(connection, ratings).on_conflict_do_nothing(), rows)
    mine = (ratings.c.tenant == tenant) & ratings.c.agent.in_(agents)
    connection.execute(
        lock_rows(select(ratings.c.agent).where(mine).order_by(ratings.c.agent))
    ).all()
