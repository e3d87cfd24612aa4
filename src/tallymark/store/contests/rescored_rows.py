"""Writing outcomes that were recomputed in Python, all at once.

They are staged in a temporary table, so that each table is changed by one statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    MetaData,
    Table,
    Text,
    and_,
    case,
    exists,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    text,
    update,
)

from tallymark.challenges.rescoring import Undefined
from tallymark.errors import WorkFailed
from tallymark.store.contests import attempt_rows
from tallymark.store.contests.attempt_rows import attempt_key
from tallymark.store.contests.tables import (
    attempt_details,
    attempt_scores,
    attempts,
    contest_audit,
    score_history,
)
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    count_inserted,
    insert_many,
    json_text,
)
from tallymark.store.row_numbers import take_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt, Evaluation
    from tallymark.challenges.rescore_plan import Rescored
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.formula_scores import ScoringStamp

_KEY = ("challenge_id", "agent", "submitted_at", "attempt")
_OTHERS = (*_KEY, "tenant", "scoring", "number")
_FACTS = tuple(each.name for each in attempt_scores.c if each.name not in _OTHERS)
_TEXTS = ("details", "evaluation")
STAGED_COLUMNS = (*_KEY, *_FACTS, *_TEXTS)

staged = Table(
    "rescored_attempts",
    MetaData(),
    Column("challenge_id", RowKey, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("submitted_at", FiniteFloat, nullable=False),
    Column("attempt", RowKey, primary_key=True, autoincrement=False),
    *(Column(name, attempt_scores.c[name].type) for name in _FACTS),
    *(Column(name, Text) for name in _TEXTS),
    prefixes=["TEMPORARY"],
)
_same_score = and_(*(attempt_scores.c[name] == staged.c[name] for name in _KEY))
_same_details = attempt_details.c.attempt == staged.c.attempt
_state = case((staged.c.error.is_(None), "scored"), else_="failed")
_another_state = (attempts.c.key == staged.c.attempt) & (attempts.c.state != _state)


@dataclass(slots=True)
class ComputedOutcomes:
    """Outcomes computed in Python: rows to be staged, and the attempts without a score."""

    most: int
    """Maximal number of stored reasons."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    undefined: int = 0
    reasons: list[Undefined] = field(default_factory=list)
    had_score: int = 0
    """Number of attempts that had a score before."""

    def add(
        self,
        challenge_id: int,
        page: Sequence[tuple[Attempt, Evaluation]],
        rescored: Sequence[Rescored],
    ) -> None:
        """Take in the new outcomes of some attempts."""
        for (attempt, _), each in zip(page, rescored, strict=True):
            self.rows.append(_staged_row(challenge_id, attempt, each))
            self.had_score += attempt.outcome is not None and attempt.outcome.error is None
            error = each[1].error
            if error is not None:
                self.undefined += 1
                if len(self.reasons) < self.most:
                    which = {"attempt": attempt.id, "agent": attempt.agent}
                    # Rescoring is done by the organiser, who may see the reason.
                    self.reasons.append(Undefined(**which, reason=each[0].reason or error))

    def copy(self) -> ComputedOutcomes:
        return replace(self, rows=self.rows.copy(), reasons=self.reasons.copy())

    def require_some_score(self) -> None:
        """Raise WorkFailed if no attempt that had a score would have one."""
        if self.had_score and self.undefined == len(self.rows):
            first = self.reasons[0].reason if self.reasons else "no reason was given"
            raise WorkFailed(
                f"none of the {len(self.rows):,} attempts has a score by this rule, so nothing is"
                f" changed; the first: {first}"
            )

    def keys(self) -> set[int]:
        place = STAGED_COLUMNS.index("attempt")
        return {row[place] for row in self.rows}


def _staged_row(challenge_id: int, attempt: Attempt, rescored: Rescored) -> tuple[Any, ...]:
    """Staged row of an attempt, in the order of `STAGED_COLUMNS`."""
    evaluation, outcome = rescored
    facts = {
        "challenge_id": challenge_id,
        "agent": attempt.agent,
        "submitted_at": attempt.submitted_at,
        "attempt": attempt_key(attempt.id),
    }
    values = attempt_rows.score_row(outcome, **facts)
    values["details"] = json_text(outcome.details) if outcome.details else None
    values["evaluation"] = json_text(evaluation)
    return tuple(values[name] for name in STAGED_COLUMNS)


def stage_outcomes(connection: Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Make the temporary table, and fills it."""
    staged.create(connection)
    insert_many(connection, staged, STAGED_COLUMNS, rows)
    # Without it, either database would take the few staged rows for very many.
    connection.execute(text(f"ANALYZE {staged.name}"))


def find_agents_with_other_results(connection: Connection) -> list[str]:
    """Agents whose matches the staged outcomes change; call it before writing them."""
    before, after = (
        case((each.c.error.is_(None), each.c.result), else_="loss")
        for each in (attempt_scores, staged)
    )
    query = select(staged.c.agent).where(_same_score, before.is_distinct_from(after))
    return list(connection.scalars(query.distinct()))


def write_staged(connection: Connection, kept: StoredChallenge, given: ScoringStamp) -> int:
    """Apply the staged outcomes and drop them; return the number of changed scores."""
    changed = _remember_scores(connection, given)
    _move_attempts(connection, kept, given.at)
    facts = {name: staged.c[name] for name in _FACTS}
    connection.execute(
        update(attempt_scores).where(_same_score).values(facts | {"scoring": given.scoring})
    )
    _write_details(connection, kept)
    staged.drop(connection)
    return changed


def _remember_scores(connection: Connection, given: ScoringStamp) -> int:
    """Add scores, results and errors that differ from the previous ones to the history."""
    compared = ("score", "result", "error")
    another = or_(*(staged.c[name].is_distinct_from(attempt_scores.c[name]) for name in compared))
    names = ("agent", "attempt", *compared)
    query = select(
        literal(given.scoring),
        literal(given.at),
        attempt_scores.c.tenant,
        *(staged.c[name] for name in names),
    ).where(_same_score, another)
    into = ("scoring", "at", "tenant", *names)
    return count_inserted(connection, insert(score_history).from_select(into, query))


def _move_attempts(connection: Connection, kept: StoredChallenge, at: float) -> None:
    """Update and log attempts that failed and now have a score, or the reverse."""
    count = connection.scalar(select(func.count()).where(_another_state)) or 0
    if not count:
        return
    before = take_numbers(connection, contest_audit.name, kept.tenant, count)[0] - 1
    entry: dict[str, Any] = {
        "seq": before + func.row_number().over(order_by=attempts.c.key),
        "tenant": literal(kept.tenant),
        "challenge_id": literal(kept.id),
        "attempt": attempts.c.key,
        "at": literal(at),
        "actor": literal("system"),
        "event": literal("rescored"),
        "before": attempts.c.state,
        "after": _state,
        "note": literal("null", Text),  # what the column's type makes of None
    }
    moving = select(*entry.values()).where(_another_state).order_by(attempts.c.key)
    connection.execute(insert(contest_audit).from_select(list(entry), moving))
    connection.execute(update(attempts).where(_another_state).values(state=_state))


def _write_details(connection: Connection, kept: StoredChallenge) -> None:
    texts = {name: staged.c[name] for name in _TEXTS}
    connection.execute(update(attempt_details).where(_same_details).values(texts))
    known = exists().where(_same_details).correlate(staged)
    missing = select(
        staged.c.attempt, literal(kept.tenant), staged.c.details, staged.c.evaluation, null()
    ).where(~known)
    names = ("attempt", "tenant", *_TEXTS, "submission")
    connection.execute(insert(attempt_details).from_select(names, missing))
