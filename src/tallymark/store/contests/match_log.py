"""The log of rated matches, and the ratings and counts that are made anew from it.

`ratings` moves both match by match, and comes to the same. An entry is never changed: a result that
rescoring changed is added again, and counts in the place of the first entry; a result of NULL makes
that match void.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, delete, func, insert, literal, null, select

from tallymark.ratings import Counts, EloRating, Match, elo
from tallymark.store.contests.attempt_tables import attempt_scores, attempts, is_own_score
from tallymark.store.contests.contest_tables import (
    challenges,
    matches,
    rating_pairs,
    ratings,
)
from tallymark.store.database_dialects import dialect_insert, insert_many, lock_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Connection, Select

    from tallymark.store.contests.challenges import StoredChallenge

_ADDED = [each.name for each in matches.c if each.name != "seq"]


def read_matches(
    connection: Connection, tenant: str, *where: ColumnElement[bool]
) -> Iterator[Match]:
    """The matches of a tenant as they now count, in the order in which they were first added."""
    query, result = _select_effective(tenant, *where)
    columns = (matches.c.agent, challenges.c.name, matches.c.tier, result)
    query = query.add_columns(*columns, matches.c.verified, matches.c.memoryless)
    query = query.where(result.is_not(None)).order_by(matches.c.seq)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for _, *row in rows:
            yield Match(*row)


def catch_up(connection: Connection, kept: StoredChallenge, at: float) -> int:
    """Adds what a challenge's scores say and the log does not; how many entries that took.

    Whoever is concerned is rated anew. The caller holds the challenge's lock.
    """
    last = connection.scalar(select(func.coalesce(func.max(matches.c.seq), 0)))
    solo = kept.challenge.kind == "solo"
    for query in (_select_changed(kept, at), _select_unlogged(kept, at)) if solo else ():
        connection.execute(insert(matches).from_select(_ADDED, query))
    new = matches.alias()
    is_new = (new.c.challenge_id == kept.id) & (new.c.seq > last)
    added = int(connection.scalar(select(func.count(new.c.seq)).where(is_new)) or 0)
    if added:
        rate_anew(connection, kept.tenant, select(new.c.agent).where(is_new))
    return added


def select_everyone(tenant: str) -> Select[Any]:
    """All agents of a tenant that are in the log."""
    entries = matches.alias()
    return select(entries.c.agent).where(entries.c.tenant == tenant)


def rate_anew(connection: Connection, tenant: str, agents: Select[Any]) -> None:
    """Makes ratings and counts of these agents from the log alone."""
    concerned = sorted(connection.scalars(agents.distinct()))
    if not concerned:
        return
    _lock_agents(connection, tenant, concerned, agents)
    counts = Counts()

    def count_all() -> Iterator[Match]:
        for match in read_matches(connection, tenant, matches.c.agent.in_(agents)):
            counts.add(match)
            yield match

    found = elo.replay(count_all())
    rows = _rating_rows(tenant, concerned, found)
    statement = dialect_insert(connection, ratings)
    changes = {name: statement.excluded[name] for name in asdict(EloRating())}
    keys = ["tenant", "agent"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes), rows)
    pairs = (rating_pairs.c.tenant == tenant) & rating_pairs.c.agent.in_(agents)
    connection.execute(delete(rating_pairs).where(pairs))
    query = select(challenges.c.name, challenges.c.id).where(challenges.c.tenant == tenant)
    ids = dict(connection.execute(query).all())
    names = ("tenant", "agent", "challenge_id", "wins", "draws", "losses")
    values = ((tenant, agent, ids[name], *cell) for (agent, name), cell in counts.cells())
    insert_many(connection, rating_pairs, names, values)


def _select_effective(tenant: str, *where: ColumnElement[bool]) -> tuple[Select[Any], Any]:
    """First entries, each joined with its last correction, and the result that counts."""
    mine = (matches.c.tenant == tenant, *where)
    latest = (
        select(matches.c.corrects, func.max(matches.c.seq).label("seq"))
        .where(matches.c.corrects.is_not(None), *mine)
        .group_by(matches.c.corrects)
        .subquery()
    )
    correction = matches.alias()
    query = (
        select(matches.c.seq)
        .join(challenges, challenges.c.id == matches.c.challenge_id)
        .outerjoin(latest, latest.c.corrects == matches.c.seq)
        .outerjoin(correction, correction.c.seq == latest.c.seq)
        .where(matches.c.corrects.is_(None), *mine)
    )
    return query, case((latest.c.seq.is_(None), matches.c.result), else_=correction.c.result)


_NOW = case((attempt_scores.c.error.is_(None), attempt_scores.c.result))
"""The result that an attempt's score says; NULL when it failed."""


def _select_changed(kept: StoredChallenge, at: float) -> Select[Any]:
    query, then = _select_effective(kept.tenant, matches.c.challenge_id == kept.id)
    new = {"corrects": matches.c.seq, "at": literal(at), "result": _NOW}
    return (
        query.join(attempts, attempts.c.key == matches.c.attempt)
        .join(attempt_scores, is_own_score)
        .with_only_columns(*(new.get(name, matches.c[name]) for name in _ADDED))
        .where(_NOW.is_distinct_from(then))
        .order_by(matches.c.seq)
    )


def _select_unlogged(kept: StoredChallenge, at: float) -> Select[Any]:
    logged = select(matches.c.seq).where(matches.c.attempt == attempts.c.key).exists()
    new = {"attempt": attempts.c.key, "corrects": null(), "at": literal(at)}
    new |= {"tier": literal(kept.challenge.difficulty), "result": _NOW}
    return (
        select(*(new[name] if name in new else attempts.c[name] for name in _ADDED))
        .join(attempt_scores, attempt_scores.c.attempt == attempts.c.key)
        .where(attempt_scores.c.challenge_id == kept.id, _NOW.is_not(None), ~logged)
        .order_by(attempts.c.key)
    )


def _lock_agents(
    connection: Connection, tenant: str, concerned: list[str], agents: Select[Any]
) -> None:
    """Keeps everybody else from rating these agents until the end of the transaction."""
    rows = _rating_rows(tenant, concerned, {})
    connection.execute(dialect_insert(connection, ratings).on_conflict_do_nothing(), rows)
    mine = (ratings.c.tenant == tenant) & ratings.c.agent.in_(agents)
    # By name, as whoever else holds several: so they cannot wait for each other in a circle.
    connection.execute(
        lock_rows(select(ratings.c.agent).where(mine).order_by(ratings.c.agent))
    ).all()


def _rating_rows(
    tenant: str, agents: list[str], found: dict[str, EloRating]
) -> list[dict[str, Any]]:
    newcomer = EloRating()
    return [
        {"tenant": tenant, "agent": agent, **asdict(found.get(agent, newcomer))} for agent in agents
    ]
