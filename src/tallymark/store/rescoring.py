"""Rescoring in the database: scores, history, board, matches and the rule change together.

A preview does the very same and takes it back, so that it cannot be wrong. What is slow, running
a plugin or evaluating again, happens before the transaction; what was scored meanwhile is done
inside it. While it lasts, no attempt at the challenge is finished: one that was scored by the
older rule then is refused by `Attempts.finish`, and scored again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import func, select, tuple_

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.rescoring import Move, Place, Rescoring, evaluation_of, rule_of, terms
from tallymark.errors import WorkFailed
from tallymark.store import (
    audit,
    board_rows,
    formula_scores,
    match_log,
    rescored_rows,
    score_rows,
    score_rules,
)
from tallymark.store.attempt_rows import attempt_id, read, selected, to_attempt
from tallymark.store.attempt_tables import attempt_details, attempt_scores, attempts
from tallymark.store.audit import SYSTEM, AuditEntry
from tallymark.store.blocks import Board, columns
from tallymark.store.challenges import find, publish_version
from tallymark.store.contest_tables import boards
from tallymark.store.contest_tables import challenge_versions as versions
from tallymark.store.formula_scores import Given
from tallymark.store.rescored_rows import Computed
from tallymark.store.score_rules import Effect
from tallymark.store.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection, Select

    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.definition import Challenge
    from tallymark.challenges.rescoring import Plan
    from tallymark.store.challenges import Kept
    from tallymark.store.database import Database

_PAGE = 500
_SHOWN = 100
COUNTED = 100_000
"""Applying a formula to more attempts does not count which of them change; a preview does."""
_ROOM = {"cache_size": -256 * 1024, "mmap_size": 2**32}  # in KiB, since negative; in bytes
_decode = msgspec.json.Decoder(Evaluation).decode


class Rescorings:
    """What `store.rescorings` is."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    def preview(self, plan: Plan, *, at: float, most: int = _SHOWN) -> Rescoring:
        """What applying a plan would do, and who would move; nothing is changed."""
        computed = self._computed(plan, most)

        def work(connection: Connection) -> Rescoring:
            kept = find(connection, self._tenant, plan.old.name, lock=True)
            before = _board(connection, kept)
            undo = connection.begin_nested()
            done = self._apply(connection, plan, computed, at, counting=True)
            after = _board(connection, kept)
            moved = [agent for agent in after | before if _moved(before, after, agent)]
            new = {
                each: self._place(connection, plan.new, after.get(each)) for each in moved[:most]
            }
            undo.rollback()
            old = {each: self._place(connection, plan.old, before.get(each)) for each in new}
            moves = tuple(Move(agent=each, before=old[each], after=new[each]) for each in new)
            return msgspec.structs.replace(done, moved=len(moved), moves=moves)

        return self._database.write(work)

    def apply(self, plan: Plan, *, at: float, most: int = _SHOWN) -> Rescoring:
        """Scores every attempt by the new rule, which counts from then on."""
        computed = self._computed(plan, most)
        return self._database.write(lambda c: self._apply(c, plan, computed, at))

    def _computed(self, plan: Plan, most: int) -> Computed:
        """All outcomes, unless the database can compute them."""
        computed = Computed(most)
        if plan.need == "formula":
            return computed
        last = ("", 0)
        while True:
            with self._database.read() as connection:
                kept = find(connection, self._tenant, plan.old.name)
                # After the last one seen, not by offset: attempts finished meanwhile shift nothing.
                after = tuple_(attempts.c.agent, attempts.c.number) > last
                page = _page(connection, _scored(kept).where(after).limit(_PAGE))
            if not page:
                return computed
            computed.add(kept.id, page, plan.rescorer(page))
            last = (page[-1][0].agent, page[-1][0].number)

    def _apply(
        self,
        connection: Connection,
        plan: Plan,
        computed: Computed,
        at: float,
        *,
        counting: bool = False,
    ) -> Rescoring:
        kept = find(connection, self._tenant, plan.old.name, lock=True)
        if kept.challenge.version != plan.old.version:
            message = f"challenge {plan.old.name!r} was changed meanwhile"
            raise WorkFailed(message, hint="look at the preview again")
        computed = computed.copy()  # the transaction may be tried again
        with _room(connection):
            self._publish(connection, kept, plan, at)
            origin = json_text(plan.origin)
            given = Given(score_rows.new_scoring(connection, kept, "rescore", origin, at), at)
            now = find(connection, self._tenant, plan.new.name)
            quick = None if counting else _quick(connection, now, plan, given)
            count, changed = quick or _score(connection, now, plan, computed, given)
            # Formulas change scores and no results: only what was computed here can change matches.
            if computed.rows:
                match_log.catch_up(connection, now, at)
        done = Rescoring(
            challenge=plan.new.name,
            version=plan.new.version,
            rule=rule_of(plan.new.scoring),
            attempts=count,
            changed=changed,
            undefined=computed.undefined,
            reasons=tuple(computed.reasons),
        )
        note = {"rule": done.rule, "attempts": count, "changed": changed}
        entry = AuditEntry(
            at=at,
            actor=SYSTEM,
            event="rescored",
            before=plan.old.version,
            after=plan.new.version,
            note=note | {"undefined": done.undefined},
        )
        audit.write(connection, self._tenant, kept.id, None, entry)
        return done

    def _publish(self, connection: Connection, kept: Kept, plan: Plan, at: float) -> None:
        """The new rule counts from now on. A freeze that is due comes before anything moves."""
        packed = plan.packed
        if packed is None:
            mine = (versions.c.challenge_id == kept.id) & (versions.c.version == plan.old.version)
            packed = connection.execute(select(versions.c.packed).where(mine)).scalar_one()
        publish_version(connection, self._tenant, plan.new, packed, at)

    def _place(
        self, connection: Connection, challenge: Challenge, standing: _Standing | None
    ) -> Place | None:
        if standing is None:
            return None
        rank, key, score = standing
        why = terms(challenge, read(connection, self._tenant, key))
        return Place(rank=rank, attempt=attempt_id(key), score=score, terms=why)


_Standing = tuple[int, int, float | None]
"""An agent's rank, and the key and score of its best attempt."""


def _quick(connection: Connection, kept: Kept, plan: Plan, given: Given) -> tuple[int, None] | None:
    """One pass over very many attempts that all have a score; None where that cannot be.

    What changes is not counted, which would take another pass.
    """
    sqlite, strategy = connection.dialect.name == "sqlite", plan.new.scoring.strategy
    if not (plan.need == "formula" and sqlite and strategy == "custom"):
        return None
    count = _count(connection, kept)
    formula = formula_scores.expression(connection, plan.new)
    if count <= COUNTED or formula is None:
        return None
    undo = connection.begin_nested()
    if not board_rows.rebuild_by(connection, kept, formula):
        undo.rollback()
        return None
    undo.commit()
    score_rules.add(connection, kept, given.scoring, plan.new.version)
    return count, None


def _score(
    connection: Connection, kept: Kept, plan: Plan, computed: Computed, given: Given
) -> tuple[int, int]:
    """How many attempts were scored, and how many to another score; and the board by them."""
    if plan.need == "formula":
        keys, count, changed = _by_rule(connection, kept, plan.new, given)
    else:
        score_rules.settle(connection, kept)
        keys = _not_computed(connection, kept, computed)
        count, changed = len(computed.rows) + len(keys), 0
    for page in _pages(connection, kept, keys):
        computed.add(kept.id, page, plan.rescorer(page))
    if computed.rows:
        rescored_rows.stage(connection, computed.rows)
        changed += rescored_rows.write(connection, kept, given)
    board_rows.rebuild(connection, kept)
    return count, changed


def _by_rule(connection: Connection, kept: Kept, challenge: Challenge, given: Given) -> Effect:
    """Scores by a formula whatever has a score by it; the rest is left to the rescorer."""
    effect = score_rules.effect(connection, kept, challenge)
    if effect is None:
        score_rules.settle(connection, kept)
        changed = formula_scores.write_all(connection, kept, challenge, given)
        keys, count = _without_score(connection, kept)
        return Effect(keys, count, changed)
    score_rules.settle_some(connection, kept, effect.without_score)
    score_rules.add(connection, kept, given.scoring, challenge.version)
    return effect


def _without_score(connection: Connection, kept: Kept) -> tuple[list[int], int]:
    """Attempts that have no score, and how many there are in all."""
    scores = attempt_scores.c
    mine = scores.challenge_id == kept.id
    query = select(scores.attempt).where(mine, scores.error.is_not(None) | scores.score.is_(None))
    return list(connection.scalars(query)), _count(connection, kept)


def _count(connection: Connection, kept: Kept) -> int:
    mine = attempt_scores.c.challenge_id == kept.id
    query = select(func.count()).select_from(attempt_scores).where(mine)
    return connection.execute(query).scalar_one()


def _not_computed(connection: Connection, kept: Kept, computed: Computed) -> list[int]:
    """Attempts that were finished after their turn."""
    scores = attempt_scores.c
    query = select(scores.attempt).where(scores.challenge_id == kept.id)
    return sorted(set(connection.scalars(query)) - computed.keys())


def _scored(kept: Kept) -> Select[Any]:
    """All attempts that have an outcome, and their evaluations; agent by agent."""
    return (
        selected(kept.tenant)
        .add_columns(attempt_details.c.evaluation)
        .where(attempts.c.challenge_id == kept.id, attempt_scores.c.attempt.is_not(None))
        .order_by(attempts.c.agent, attempts.c.number)
    )


def _pages(
    connection: Connection, kept: Kept, keys: list[int]
) -> Iterator[list[tuple[Attempt, Evaluation]]]:
    for start in range(0, len(keys), _PAGE):
        some = attempts.c.key.in_(keys[start : start + _PAGE])
        yield _page(connection, _scored(kept).where(some))


def _page(connection: Connection, query: Select[Any]) -> list[tuple[Attempt, Evaluation]]:
    found = []
    for row in connection.execute(query):
        attempt = to_attempt(row)
        if row.evaluation is not None:
            found.append((attempt, _decode(row.evaluation)))
        elif attempt.outcome is not None:
            found.append((attempt, evaluation_of(attempt.outcome)))
    return found


def _board(connection: Connection, kept: Kept) -> dict[str, _Standing]:
    """The live board, best first."""
    query = select(boards.c.agent, boards.c.attempt, boards.c.score)
    mine = Board(kept.tenant, kept.id).rows(boards)
    rows = connection.execute(query.where(mine).order_by(*columns(boards)))
    return {agent: (rank, key, score) for rank, (agent, key, score) in enumerate(rows, 1)}


def _moved(before: dict[str, _Standing], after: dict[str, _Standing], agent: str) -> bool:
    old, new = before.get(agent), after.get(agent)
    return (old and old[0]) != (new and new[0])


@contextmanager
def _room(connection: Connection) -> Iterator[None]:
    """Memory for all that is touched: SQLite would read and write most pages several times."""
    if connection.dialect.name != "sqlite":
        yield
        return
    before = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in _ROOM}
    try:
        _set(connection, _ROOM)
        yield
    finally:
        _set(connection, before)


def _set(connection: Connection, pragmas: Mapping[str, int | None]) -> None:
    for name, value in pragmas.items():
        if value is not None:  # a build without memory maps has no size of them
            connection.exec_driver_sql(f"PRAGMA {name} = {value}")
