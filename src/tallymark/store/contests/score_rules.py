"""Rescorings by a formula whose scores are not written down attempt by attempt.

They follow from the rule and from numbers that do not change, to the bit, so that rescoring a
million attempts need not write a million rows: see docs/decisions/0012-rules-for-scores.md. Whoever
reads `attempt_scores.score` asks here what the score is by now; whoever changes the numbers calls
`settle` first, which writes down all that follows from the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import delete, insert, select, text
from sqlalchemy.exc import DBAPIError

from tallymark.challenges.challenge import Challenge
from tallymark.store.contests import formula_scores
from tallymark.store.contests.attempt_tables import score_rules, scorings
from tallymark.store.contests.contest_tables import challenge_versions
from tallymark.store.contests.formula_scores import ScoringStamp
from tallymark.store.formula_sql import SqlFormula

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, TextClause

    from tallymark.store.contests.challenges import StoredChallenge

_CHUNK = 500
# More than any challenge has attempts: a sum of these and of ones is taken apart by `divmod`.
_UNKNOWN = 2**31
# Most rows of a page are by the same rule.
_decode_challenge = lru_cache(maxsize=64)(msgspec.json.Decoder(Challenge).decode)


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """A rescoring of all attempts that were scored before it and have not failed."""

    given: ScoringStamp
    origin: str | None
    challenge: Challenge


class FormulaEffect(NamedTuple):
    """What scoring by a formula comes to."""

    without_score: list[int]
    """Attempts that have none by it, or had failed before."""
    attempts: int
    changed: int
    """Attempts that it gives another score than they have."""


def read_rules(connection: Connection, challenge_id: int) -> list[ScoreRule]:
    """The rules of a challenge, oldest first."""
    query = (
        select(scorings.c.id, scorings.c.at, scorings.c.origin, challenge_versions.c.definition)
        .join(score_rules, score_rules.c.scoring == scorings.c.id)
        .join(challenge_versions, challenge_versions.c.id == score_rules.c.version_id)
        .where(score_rules.c.challenge_id == challenge_id)
        .order_by(scorings.c.id)
    )
    return [
        ScoreRule(ScoringStamp(row.id, row.at), row.origin, _decode_challenge(row.definition))
        for row in connection.execute(query)
    ]


def add_rule(connection: Connection, kept: StoredChallenge, scoring: int, version: str) -> None:
    """From now on, the formula of a version gives the scores of all attempts scored before."""
    mine = challenge_versions.c.challenge_id == kept.id
    which = select(challenge_versions.c.id).where(mine, challenge_versions.c.version == version)
    row = {"challenge_id": kept.id, "tenant": kept.tenant, "scoring": scoring}
    row |= {"version_id": connection.execute(which).scalar_one()}
    connection.execute(insert(score_rules).values(row))


def current_score(connection: Connection, kept: StoredChallenge) -> SqlFormula:
    """SQL for an attempt's score as it is by now, over the columns of `attempt_scores`."""
    stored = SqlFormula("score", {})
    known = read_rules(connection, kept.id)
    if not known:
        return stored
    last = known[-1]
    sql = formula_scores.score_expression(connection, last.challenge, prefix="rule_")
    if sql is None:
        settle(connection, kept)
        return stored
    by_now = f"(CASE WHEN error IS NULL AND scoring < :rule THEN {sql.text} ELSE score END)"
    return SqlFormula(by_now, sql.parameters | {"rule": last.given.scoring})


def measure_effect(
    connection: Connection, kept: StoredChallenge, challenge: Challenge
) -> FormulaEffect | None:
    """What a challenge's formula would change; None where SQL cannot tell to the bit."""
    sql = formula_scores.score_expression(connection, challenge)
    if sql is None:
        return None
    now = current_score(connection, kept)
    values = {"id": kept.id} | sql.parameters
    try:
        # After an error PostgreSQL takes nothing more, unless a savepoint is gone back to.
        with connection.begin_nested():
            row = connection.execute(_compare(sql, now), values | now.parameters).one()
    except DBAPIError as error:
        if formula_scores.is_out_of_range(error):
            return None
        raise
    unknown, changed = divmod(int(row.compared or 0), _UNKNOWN)
    if not row.failed and not unknown:
        return FormulaEffect([], row.attempts, changed)
    without = f"""
        SELECT attempt FROM attempt_scores
        WHERE challenge_id = :id AND (error IS NOT NULL OR {sql.text} IS NULL)
    """  # noqa: S608  our own words and numbers
    keys = list(connection.scalars(text(without), values))
    # The others had no score, and now have one.
    return FormulaEffect(keys, row.attempts, changed + unknown - (len(keys) - row.failed))


def _compare(sql: SqlFormula, now: SqlFormula) -> TextClause:
    """Counts what changes, and in the same sum what cannot be compared: the formula is slow."""
    return text(f"""
        SELECT count(*) AS attempts, count(error) AS failed,
               sum(coalesce(CAST({sql.text} <> {now.text} AS integer), {_UNKNOWN}))
               FILTER (WHERE error IS NULL) AS compared
        FROM attempt_scores WHERE challenge_id = :id
    """)  # noqa: S608


def score_by_rule(definition: str, row: Row[Any]) -> float | None:
    """What a rule gives for a row with the columns of `attempt_scores`."""
    return formula_scores.score_of(_decode_challenge(definition), row)


def settle(connection: Connection, kept: StoredChallenge) -> None:
    """Writes down every score that follows from a rule, and takes the rules away."""
    for rule in read_rules(connection, kept.id):
        formula_scores.write_all(connection, kept, rule.challenge, rule.given)
    connection.execute(delete(score_rules).where(score_rules.c.challenge_id == kept.id))


def settle_some(connection: Connection, kept: StoredChallenge, keys: Sequence[int]) -> None:
    """Writes down the scores of these attempts."""
    for rule in read_rules(connection, kept.id):
        for start in range(0, len(keys), _CHUNK):
            some = keys[start : start + _CHUNK]
            formula_scores.write_in_python(connection, kept, rule.challenge, rule.given, some)
