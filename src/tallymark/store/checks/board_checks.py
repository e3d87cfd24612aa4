"""Boards, live and frozen, and ratings, computed again from the attempts and the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import exists, func, select

from tallymark.challenges.challenge import Challenge
from tallymark.challenges.strategies import STRATEGIES, Strategy
from tallymark.ratings import Counts, EloRating, elo
from tallymark.store.contests import matches
from tallymark.store.contests.attempt_rows import read_history
from tallymark.store.contests.tables import (
    attempt_scores,
    attempts,
    boards,
    challenge_versions,
    challenges,
    contest_audit,
    is_own_score,
    rating_pairs,
    ratings,
    scorings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection, Row

    from tallymark.ratings import Match
    from tallymark.store.checks.findings import Findings
    from tallymark.store.contests.board_rows import Board
    from tallymark.store.contests.challenges import StoredChallenge


KIND = "boards"
_log = contest_audit.c


class _Freeze(NamedTuple):
    """Strategy and tries at the time of the copy, by the log; None if the log lacks them."""

    strategy: Strategy | None
    tries: Counter[str] | None
    rescored: bool
    """True if scores were given again since, so that an attempt's numbers may have changed."""


def check_frozen_rows(
    connection: Connection,
    kept: StoredChallenge,
    rows: dict[str, dict[str, Any]],
    findings: Findings,
) -> None:
    """Check each row by its attempt, the order by the strategy then, tries by the log."""
    freeze = _read_freeze(connection, kept)
    for agent, row in rows.items():
        findings.note_checked("frozen boards")
        subject = f"{agent} on the frozen board of {kept.challenge.name}"
        found = _find_attempt(connection, row["attempt"], freeze.strategy)
        facts = (
            (None, None, None)
            if found is None
            else (found.challenge_id, found.agent, found.submitted_at)
        )
        should = {"attempt": (kept.id, agent, row["submitted_at"])}
        findings.compare(KIND, kept.tenant, subject, {"attempt": facts}, should)
        if found is not None:
            _check_score(connection, kept, subject, row, found, findings)
        findings.compare(KIND, kept.tenant, subject, row, _compute_row(freeze, agent, row, found))


def _find_attempt(connection: Connection, key: int, strategy: Strategy | None) -> Row[Any] | None:
    column = attempt_scores.c["score" if strategy is None else strategy.column]
    query = select(attempts, column.label("measured")).outerjoin(attempt_scores, is_own_score)
    return connection.execute(query.where(attempts.c.key == key)).first()


def _check_score(
    connection: Connection,
    kept: StoredChallenge,
    subject: str,
    row: dict[str, Any],
    found: Row[Any],
    findings: Findings,
) -> None:
    """Require a score that the attempt had at the freeze."""
    until = kept.frozen_at or 0.0
    had = [each.score for each in read_history(connection, found) if each.at <= until]
    if row["score"] not in had:
        should = had[-1] if had else None
        findings.add(KIND, kept.tenant, subject, "score", row["score"], should)


def _compute_row(
    freeze: _Freeze, agent: str, row: dict[str, Any], found: Row[Any] | None
) -> dict[str, Any]:
    """The fields of a row that can be recomputed."""
    should: dict[str, Any] = {}
    if freeze.tries is not None:
        should["tries"] = freeze.tries[agent]
    if freeze.strategy is None:
        return should
    value = row["value"]
    if freeze.strategy.column == "score":
        value = row["score"]
    elif found is not None and not freeze.rescored:
        value = None if found.measured is None else float(found.measured)
    return should | {"value": value, "place": freeze.strategy.place(value)}


def _read_freeze(connection: Connection, kept: StoredChallenge) -> _Freeze:
    query = select(scorings.c.id).where(scorings.c.challenge_id == kept.id)
    since = (scorings.c.why.in_(("formula", "rescore")), scorings.c.at >= (kept.frozen_at or 0.0))
    rescored = connection.scalar(query.where(*since).limit(1)) is not None
    # By numbers of the log, not by time: a verdict may have waited while the board was frozen.
    seq = _find_seq(connection, kept)
    if seq is None:
        return _Freeze(None, None, rescored)
    strategy = _find_strategy(connection, kept, seq)
    return _Freeze(strategy, _count_tries(connection, kept, seq), rescored)


def _find_seq(connection: Connection, kept: StoredChallenge) -> int | None:
    """Log entry with which the board was copied: freezing it by hand later writes another."""
    mine = (_log.challenge_id == kept.id, _log.attempt.is_(None))
    moved = select(func.max(_log.seq)).where(*mine, _log.event == "unfrozen")
    last = connection.scalar(moved) or 0
    first = select(func.min(_log.seq)).where(*mine, _log.event == "frozen", _log.seq > last)
    found: int | None = connection.scalar(first)
    return found


def _find_strategy(connection: Connection, kept: StoredChallenge, seq: int) -> Strategy | None:
    """Strategy of the version in force at a log entry."""
    counted = (
        select(_log.after)
        .where(_log.challenge_id == kept.id, _log.attempt.is_(None))
        .where(_log.event == "published", _log.seq < seq)
        .order_by(_log.seq.desc())
        .limit(1)
    )
    query = select(challenge_versions.c.definition).where(
        challenge_versions.c.challenge_id == kept.id,
        challenge_versions.c.version == counted.scalar_subquery(),
    )
    definition = connection.scalar(query)
    if definition is None:
        return None
    return STRATEGIES[msgspec.json.decode(definition, type=Challenge).scoring.strategy]


def _count_tries(connection: Connection, kept: StoredChallenge, seq: int) -> Counter[str] | None:
    """Scored attempts that were not void, by agent; None if some were loaded without a log."""
    mine = _log.challenge_id == kept.id
    if connection.scalar(select(exists().where(mine, _log.event == "loaded"))):
        return None
    query = (
        select(_log.attempt, attempts.c.agent, _log.event, _log.after)
        .join(attempts, attempts.c.key == _log.attempt)
        .where(mine, _log.seq < seq)
        .order_by(_log.attempt, _log.seq)
    )
    tries = Counter[str]()
    with connection.execute(query, execution_options={"yield_per": 1000}) as found:
        for (_, agent), entries in groupby(found, key=lambda row: (row.attempt, row.agent)):
            tries[agent] += _is_try(entries)
    return tries


def _is_try(entries: Iterable[Row[*tuple[Any, ...]]]) -> bool:
    state, void = None, False
    for each in entries:
        if each.event in {"voided", "unvoided"}:
            void = each.event == "voided"
        elif each.after is not None:
            state = each.after
    return state == "scored" and not void


_FIELDS = ("place", "submitted_at", "attempt", "value", "score", "tries")
_PAIR = ("wins", "draws", "losses")


def check_boards(connection: Connection, kept: StoredChallenge, findings: Findings) -> None:
    """Check the live board against all scores, and the public's copy against the freeze."""
    name = kept.challenge.name
    rows = _read_rows(connection, kept.live_board)
    should = dict(_compute_rows(connection, kept))
    for agent in sorted(rows.keys() | should.keys()):
        findings.note_checked("boards")
        stored, computed = rows.get(agent, {}), should.get(agent, {})
        if not (stored and computed):
            what = (bool(stored), bool(computed))
            findings.add("boards", kept.tenant, f"{agent} at {name}", "a row on the board", *what)
            continue
        findings.compare("boards", kept.tenant, f"{agent} on the board of {name}", stored, computed)
    frozen = _read_rows(connection, kept.frozen_board)
    if frozen and kept.frozen_at is None:
        findings.add("boards", kept.tenant, name, "rows of a frozen board", len(frozen), 0)
    if kept.frozen_at is not None:
        check_frozen_rows(connection, kept, frozen, findings)


def _read_rows(connection: Connection, board: Board) -> dict[str, dict[str, Any]]:
    query = select(boards.c.agent, *(boards.c[name] for name in _FIELDS)).where(board.rows())
    return {
        agent: dict(zip(_FIELDS, values, strict=True))
        for agent, *values in connection.execute(query)
    }


def _compute_rows(
    connection: Connection, kept: StoredChallenge
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each agent with its best attempt, row by row where `board_rows` uses SQL."""
    strategy = STRATEGIES[kept.challenge.scoring.strategy]
    mine = attempts.c.challenge_id == kept.id
    void = set(
        connection.scalars(select(attempts.c.key).where(mine, attempts.c.voided_at.is_not(None)))
    )
    scores = attempt_scores.c
    query = select(attempt_scores).where(scores.challenge_id == kept.id)
    query = query.order_by(scores.agent, scores.submitted_at, scores.attempt)
    with connection.execute(query, execution_options={"yield_per": 1000}) as found:
        for agent, rows in groupby(found, key=lambda row: row.agent):
            best: dict[str, Any] | None = None
            tries = 0
            for row in rows:
                if row.attempt in void:
                    continue
                tries += row.error is None
                placed = _place_row(row, strategy) if row.ranks else None
                if placed is not None and (best is None or placed["place"] < best["place"]):
                    best = placed
            if best is not None:
                yield agent, best | {"tries": tries}


def _place_row(row: Row[Any], strategy: Strategy) -> dict[str, Any]:
    number = getattr(row, strategy.column)
    value = None if number is None else float(number)
    return {
        "place": strategy.place(value),
        "submitted_at": row.submitted_at,
        "attempt": row.attempt,
        "value": value,
        "score": row.score,
    }


def check_ratings(connection: Connection, tenant: str, findings: Findings) -> None:
    """Recompute ratings and counts from all matches in the order in which they ended."""
    counts = Counts()

    def count_all() -> Iterator[Match]:
        for match in matches.read_matches(connection, tenant):
            findings.note_checked("matches")
            counts.add(match)
            yield match

    should = {agent: asdict(each) for agent, each in elo.replay(count_all()).items()}
    fields = tuple(asdict(EloRating()))
    query = select(ratings.c.agent, *(ratings.c[name] for name in fields))
    stored = {
        agent: dict(zip(fields, values, strict=True))
        for agent, *values in connection.execute(query.where(ratings.c.tenant == tenant))
    }
    newcomer = asdict(EloRating())
    for agent in sorted(stored.keys() | should.keys()):
        findings.note_checked("ratings")
        # Agents without a match need not have a row.
        pair = stored.get(agent, newcomer), should.get(agent, newcomer)
        findings.compare("ratings", tenant, f"the rating of {agent}", *pair)
    pairs = {pair: dict(zip(_PAIR, cell, strict=True)) for pair, cell in counts.cells()}
    kept = _read_pairs(connection, tenant)
    nothing = dict.fromkeys(_PAIR, 0)
    for agent, name in sorted(kept.keys() | pairs.keys()):
        findings.note_checked("pairs of agent and challenge")
        cells = kept.get((agent, name), nothing), pairs.get((agent, name), nothing)
        findings.compare("ratings", tenant, f"{agent} at {name}", *cells)


def _read_pairs(connection: Connection, tenant: str) -> dict[tuple[str, str], dict[str, int]]:
    table = rating_pairs.c
    query = (
        select(table.agent, challenges.c.name, *(table[name] for name in _PAIR))
        .join(challenges, challenges.c.id == table.challenge_id)
        .where(table.tenant == tenant)
    )
    return {
        (agent, name): dict(zip(_PAIR, cell, strict=True))
        for agent, name, *cell in connection.execute(query)
    }
