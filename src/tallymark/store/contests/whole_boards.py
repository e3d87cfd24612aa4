"""Whole boards: made anew from all scores, kept as they are for the public, and let go again.

The caller holds the challenge's lock. Nothing here touches a frozen board but `freeze_if_due`,
which makes it, and `unfreeze`, which removes it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, literal, select, text, update

from tallymark.challenges.strategies import STRATEGIES
from tallymark.store.contests import audit_log, rank_blocks, score_rules
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.contest_tables import board_blocks, boards, challenges
from tallymark.store.contests.rank_blocks import FROZEN, on_board
from tallymark.store.formula_sql import SqlFormula
from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.rank_blocks import Board

_VOIDED = "SELECT key FROM attempts WHERE challenge_id = :id AND voided_at IS NOT NULL"
_FIRST = select(func.min(boards.c.place)).where(on_board(boards))


def rebuild(connection: Connection, kept: StoredChallenge) -> None:
    """Makes the live board anew from all scores, without bringing them here.

    It is another edition then: who goes on with the challenge must find it again.
    """
    new = _begin_edition(connection, kept)
    rank_blocks.cut(connection, new.live_board, _insert_rows(connection, new))


def _begin_edition(connection: Connection, kept: StoredChallenge) -> StoredChallenge:
    """Takes the live board away; the next one has keys of its own.

    PostgreSQL would look at each row that has just gone before it puts another under the same key.
    """
    for table in (boards, board_blocks):
        connection.execute(delete(table).where(on_board(table)), kept.live_board.values())
    new = replace(kept, edition=kept.edition + 1)
    change = update(challenges).where(challenges.c.id == kept.id).values(edition=new.edition)
    connection.execute(change)
    return new


def rebuild_agent(connection: Connection, kept: StoredChallenge, agent: str) -> None:
    """Puts one agent where its scores now put it, or nowhere."""
    board = kept.live_board
    mine = board.rows(boards) & (boards.c.agent == agent)
    find = select(*rank_blocks.spot_columns(boards)).where(mine)
    old = connection.execute(find).one_or_none()
    connection.execute(delete(boards).where(mine))
    _insert_rows(connection, kept, agent)
    new = connection.execute(find).one_or_none()
    # The row moves before the counts do: a block is split by where its rows are.
    left, come = ([] if row is None else [(row[0], row[1], row[2])] for row in (old, new))
    rank_blocks.move_rows(QuickStatements(connection), board, left, come)


def has_voided(connection: Connection, kept: StoredChallenge) -> bool:
    """Whether an organiser made any attempt void."""
    return connection.scalar(text(f"{_VOIDED} LIMIT 1"), {"id": kept.id}) is not None


def _insert_rows(connection: Connection, kept: StoredChallenge, agent: str | None = None) -> int:
    """The rows of all agents, or of one; how many there are."""
    strategy = STRATEGIES[kept.challenge.scoring.strategy]
    now = score_rules.current_score(connection, kept)
    # A score may be a rule that is not written to the rows yet; every other number is a column.
    by_score = strategy.column == "score"
    value = "now" if by_score else "measured"
    sign = "-" if strategy.highest_first else ""
    # What does not rank has no place, but is read all the same: it counts as a try.
    place = f"CASE WHEN ranks THEN coalesce({sign}{value}, :last) END"
    return _insert(connection, kept, now, agent, column=strategy.column, value=value, place=place)


def rebuild_by_formula(connection: Connection, kept: StoredChallenge, formula: SqlFormula) -> bool:
    """The same where a formula gives all scores and the board is ordered by them.

    False when any attempt failed, or has no score by it; the board is then of no use. None may be
    void, which would not be seen.
    """
    # Such an attempt would come before all others, and so be seen.
    place = """
        CASE WHEN error IS NOT NULL THEN :alarm
             WHEN ranks THEN coalesce(-now, :alarm)
             WHEN now IS NULL THEN :alarm END
    """
    alarmed = SqlFormula(formula.text, formula.parameters | {"alarm": -math.inf})
    new = _begin_edition(connection, kept)
    rows = _insert(connection, new, alarmed, column="score", value="now", place=place)
    if connection.scalar(_FIRST, new.live_board.values()) == -math.inf:
        return False
    rank_blocks.cut(connection, new.live_board, rows)
    return True


def _insert(  # noqa: PLR0913 (parts of one statement, by keyword)
    connection: Connection,
    kept: StoredChallenge,
    score: SqlFormula,
    agent: str | None = None,
    *,
    column: str,
    value: str,
    place: str,
) -> int:
    """`now` in the value and the place is the score, and `measured` the column."""
    counted = "challenge_id = :id"
    values: dict[str, object] = {"id": kept.id, "tenant": kept.tenant, "edition": kept.edition}
    if agent is not None:
        counted += " AND agent = :agent"
        values["agent"] = agent
    # Asked first: of a million attempts, none is looked up in vain.
    if has_voided(connection, kept):
        counted += f" AND attempt NOT IN ({_VOIDED})"
    measured = f"CAST({column} AS double precision)"
    if connection.dialect.name == "sqlite":
        value, place = (
            part.replace("now", score.text).replace("measured", measured) for part in (value, place)
        )
    statement = _REBUILD[connection.dialect.name].format(
        score=score.text, counted=counted, measured=measured, value=value, place=place
    )
    values |= {"last": math.inf} if ":last" in statement else {}
    return connection.execute(text(statement), score.parameters | values).rowcount


def freeze_if_due(connection: Connection, kept: StoredChallenge, at: float) -> None:
    """Copies the board for the public before the first change at or after the freeze."""
    if kept.frozen_at is None and kept.is_frozen(at):
        copy_for_public(connection, kept)
        _set_frozen(connection, kept, at, "frozen")


def unfreeze(connection: Connection, kept: StoredChallenge, at: float) -> None:
    """Lets the public see the live board again."""
    if kept.frozen_at is not None:
        remove_copy(connection, kept)
        _set_frozen(connection, kept, at, "unfrozen")


def copy_for_public(connection: Connection, kept: StoredChallenge) -> None:
    """Keeps the board as it is."""
    for table in (boards, board_blocks):
        _copy(connection, table, kept.live_board)


def remove_copy(connection: Connection, kept: StoredChallenge) -> None:
    """Forgets the board as it was."""
    for table in (boards, board_blocks):
        connection.execute(delete(table).where(on_board(table)), kept.frozen_board.values())


def _set_frozen(connection: Connection, kept: StoredChallenge, at: float, event: str) -> None:
    change = {"frozen_at": at if event == "frozen" else None}
    connection.execute(update(challenges).where(challenges.c.id == kept.id).values(change))
    entry = AuditEntry(at=at, actor=SYSTEM, event=event)
    audit_log.write_entry(connection, kept.tenant, kept.id, None, entry)


def _copy(connection: Connection, table: Table, live: Board) -> None:
    names = [each.name for each in table.c]
    copied = [literal(FROZEN) if each.name == "edition" else each for each in table.c]
    query = select(*copied).where(on_board(table))
    connection.execute(insert(table).from_select(names, query), live.values())


# SQLite reads the attempts in the order in which ties are broken, agent by agent: the other columns
# of a `min` are those of the first row that has it. PostgreSQL has no such order: it compares
# lists that begin with the place and with what breaks ties, so that it need not sort attempts. It
# sorts what it found: rows that are inserted in the order of the board lie in it, so that those of
# a page are together, and one of the two indexes grows from leaf to leaf.
_REBUILD = {
    "sqlite": """
        INSERT INTO boards (challenge_id, edition, agent, tenant, place, submitted_at, attempt,
                            value, score, tries)
        SELECT * FROM (
            SELECT :id, :edition, agent, :tenant,
                   min({place}) AS place,
                   submitted_at, attempt, {value}, {score},
                   count(*) FILTER (WHERE error IS NULL)
            FROM attempt_scores WHERE {counted} GROUP BY agent
        ) WHERE place IS NOT NULL
    """,
    "postgresql": """
        INSERT INTO boards (challenge_id, edition, agent, tenant, place, submitted_at, attempt,
                            value, score, tries)
        SELECT :id, :edition, agent, :tenant,
               best[1], best[2], CAST(best[3] AS bigint), best[4], best[5], tries
        FROM (
            SELECT agent,
                   min(ARRAY[{place}, submitted_at, attempt, {value}, now]) AS best,
                   count(*) FILTER (WHERE error IS NULL) AS tries
            FROM (
                SELECT agent, ranks, submitted_at, attempt, error,
                       {measured} AS measured, {score} AS now
                FROM attempt_scores WHERE {counted} OFFSET 0
            ) AS scored
            GROUP BY agent
        ) AS found
        WHERE best[1] IS NOT NULL
        ORDER BY best[1], best[2], best[3]
    """,
}
