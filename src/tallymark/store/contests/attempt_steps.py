"""What is done to an attempt, step by step: in the memory of a batch, and gathered for writing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import NEXT_STATES
from tallymark.store.column_types import json_text, make_storable
from tallymark.store.contests import (
    attempt_entry,
    attempt_rows,
    boards,
    pauses,
    score_rows,
    whole_boards,
)
from tallymark.store.contests.audit_log import HIDDEN
from tallymark.store.contests.batch_memory import AttemptRow
from tallymark.store.contests.matches import EndedAttempt

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, State
    from tallymark.store.actors import Actor
    from tallymark.store.contests.attempt_items import Enter, Report, Verdict, Wait
    from tallymark.store.contests.batch_memory import BatchMemory, Entrant
    from tallymark.store.contests.batch_rows import BatchRows
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.quick_statements import QuickStatements


class AttemptSteps:
    """Those of one batch."""

    def __init__(self, statements: QuickStatements, memory: BatchMemory, rows: BatchRows) -> None:
        self._statements = statements
        self._connection = statements.connection
        self.memory = memory
        self.rows = rows

    def enter(
        self,
        kept: StoredChallenge,
        entrant: Entrant,
        item: Enter | Report,
        seed: int,
        *,
        memoryless: bool,
    ) -> AttemptRow:
        """The agent's next attempt, entered now, and written down."""
        entrant.last_number += 1
        entrant.entered.append(item.at)
        if entrant.first_number is None:
            entrant.first_number = entrant.last_number
        expires_at = attempt_entry.find_deadline(kept.challenge, item.at)
        key, version_id = self.rows.next_key(kept.tenant), self.memory.version_id(kept)
        who = (key, kept.tenant, kept.id, version_id, item.agent, entrant.last_number)
        times = (item.at, expires_at, None, None)
        values = (*who, "entered", seed, *times, False, memoryless, "none", None, None)
        row = AttemptRow(values, fresh=True)
        self.memory.rows[key] = self.rows.changed[key] = row
        self.rows.log(row, item.at, "entered", actor=item.actor, before=None, after="entered")
        return row

    def move(  # noqa: PLR0913 (what the log says of it)
        self,
        row: AttemptRow,
        to: State,
        at: float,
        event: str,
        actor: Actor | None = None,
        *,
        by_system: bool = False,
        note: dict[str, Any] | None = None,
    ) -> None:
        """Moves an attempt to another state, and writes it down."""
        if to not in NEXT_STATES[row.state]:
            raise ValueError(f"an attempt that is {row.state} cannot become {to}")
        moved: Any = {"before": row.state, "after": to, "actor": actor, "by_system": by_system}
        entrant = self.memory.entrants.get((row.challenge_id, row.agent))
        if row.state == "entered" and entrant is not None:
            entrant.open_key = None
        row.state = to
        self.rows.changed[row.key] = row
        self.rows.log(row, at, event, note=note, **moved)

    def expire(self, row: AttemptRow, at: float) -> None:
        """Ends an open attempt whose time is over, which is a loss."""
        # Its time was over then, whenever that is noticed.
        row.match_at = row.expires_at
        self.move(row, "expired", at, "expired", by_system=True)
        self.end_match(row, "loss")

    def end_scored(
        self,
        kept: StoredChallenge,
        entrant: Entrant,
        row: AttemptRow,
        verdict: Verdict,
        at: float,
    ) -> None:
        """Score, history, board, match, rating and log change together or not at all."""
        outcome = verdict.outcome
        if kept.frozen_at is None and kept.is_frozen(at):
            # Before the board moves: the public keeps it as it was at the freeze.
            self.rows.write()
            whole_boards.freeze_if_due(self._connection, kept, at)
            self.memory.challenges[kept.id] = kept = replace(kept, frozen_at=at)
        note: dict[str, Any] = {"score": outcome.score}
        if outcome.error is not None:
            note = {"error": outcome.error}
        if verdict.evaluation.reason is not None:
            note[HIDDEN] = make_storable(verdict.evaluation.reason)
        state: State = "scored" if outcome.error is None else "failed"
        row.scored_at, row.verified = at, verdict.verified
        row.trajectory_level = outcome.trajectory_level
        self.move(row, state, at, state, by_system=True, note=note)
        self._stop_waiting(row)
        if kept.challenge.scoring.plugin is not None and pauses.is_deadly(outcome):
            self.rows.write_log()
            pauses.count_deadly(self._connection, kept, row.agent, outcome, at)
        score = self._keep_score(kept, row, verdict, at)
        if row.voided_at is not None:
            return
        if outcome.error is None:
            entrant.scored += 1
            entrant.tries, entrant.counted = entrant.tries + 1, True
        if outcome.ranks:
            if entrant.spot is None and entrant.last_number > 1:
                stored = boards.count_tries(self._statements, kept, row.agent)
                entrant.tries = stored + entrant.scored
            boards.stand(kept, entrant, score)
        self.end_match(row, outcome.result if state == "scored" else "loss")

    def _keep_score(
        self, kept: StoredChallenge, row: AttemptRow, verdict: Verdict, at: float
    ) -> dict[str, Any]:
        outcome = verdict.outcome
        origin = score_rows.origin_text(outcome)
        score = score_rows.score_row(
            outcome,
            challenge_id=kept.id,
            agent=row.agent,
            attempt=row.key,
            tenant=kept.tenant,
            scoring=self._find_scoring(kept, origin, at),
            submitted_at=row.submitted_at,
            number=row.number,
        )
        names = ("scoring", "agent", "attempt", "tenant", "score", "result", "error")
        history = (*(score[name] for name in names), at)
        self.rows.keep_score(score_rows.take_score(score), history)
        details = json_text(outcome.details) if outcome.details else None
        self.rows.keep_verdict(row, json_text(verdict.evaluation), details)
        level = outcome.trajectory_level
        row.outcome = score_rows.to_outcome(score, details, level, origin)
        return score

    def _find_scoring(self, kept: StoredChallenge, origin: str | None, at: float) -> int:
        """The row that says by which rule attempts are scored; the last one if it still holds."""
        known = self.memory.scorings
        if kept.id not in known:
            query = "SELECT id, why, origin FROM scorings WHERE challenge_id = ?"
            for found in self._statements.read(f"{query} ORDER BY id DESC LIMIT 1", kept.id):
                known[kept.id] = (found[0], found[1], found[2])
        key, why, last = known.get(kept.id, (0, "", None))
        if (why, last) != ("finish", origin):
            key = score_rows.add_scoring(self._connection, kept, "finish", origin, at)
            known[kept.id] = (key, "finish", origin)
        return key

    def end_match(self, row: AttemptRow, result: str | None) -> None:
        if row.match_at is None or row.voided_at is not None:
            return
        kept = self.memory.challenges[row.challenge_id]
        first = self.memory.entrants[row.challenge_id, row.agent].first_number == row.number
        who = (row.tenant, row.agent, row.challenge_id, kept.challenge.name, row.version_id)
        facts: Any = (row.key, row.match_at, result, row.verified, row.memoryless, first)
        self.rows.ended.append(EndedAttempt(*who, *facts))

    def keep_waiting(self, row: AttemptRow, why: Wait) -> None:
        """Writes down why an attempt is not scored yet."""
        if row.fresh:
            self.rows.write()
        self._stop_waiting(row)
        values = (row.key, row.tenant, why.at, why.reason)
        self._statements.run("INSERT INTO attempt_waits VALUES (?, ?, ?, ?)", *values)
        row.waiting = why.reason
        self.memory.entrants[row.challenge_id, row.agent].stored_count = None
        note = {"reason": why.reason} | ({} if why.hidden is None else {HIDDEN: why.hidden})
        nowhere: Any = {"before": None, "after": None, "actor": None}
        self.rows.log(row, why.at, "waiting", by_system=True, note=note, **nowhere)

    def _stop_waiting(self, row: AttemptRow) -> None:
        """It has ended, or waits for another reason."""
        if row.waiting is not None:
            self._statements.run("DELETE FROM attempt_waits WHERE attempt = ?", row.key)
            row.waiting = None
            # What waits may be free of a quota.
            self.memory.entrants[row.challenge_id, row.agent].stored_count = None

    def tell(self, row: AttemptRow) -> Attempt:
        kept = self.memory.challenges[row.challenge_id]
        return row.to_attempt(kept.challenge.name, self.memory.version_of(row))

    def read_attempt(self, tenant: str, key: int) -> Attempt:
        """The attempt as it is now: in memory, unless its outcome was stored before."""
        row = self.memory.rows.get(key)
        if row is not None and (row.outcome is not None or row.state not in {"scored", "failed"}):
            return self.tell(row)
        return attempt_rows.read_attempt(self._connection, tenant, key)
