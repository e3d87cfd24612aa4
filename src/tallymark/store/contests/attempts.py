"""Attempts: entered, submitted or reported, scored exactly once; every change is written down.

Times come from the server's clock, as `at`. What breaks a rule is an `InvalidInput`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from sqlalchemy import select, update

from tallymark.challenges.agent_names import check_handle
from tallymark.errors import InvalidInput
from tallymark.store.column_types import make_storable
from tallymark.store.contests import (
    attempt_entry,
    attempt_rows,
    audit_log,
    disqualifications,
    frozen_attempts,
    matches,
)
from tallymark.store.contests.agents import register_agent, register_agents
from tallymark.store.contests.attempt_rows import move_attempt, read_attempt, to_attempt
from tallymark.store.contests.attempt_tables import attempts
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.challenges import (
    find_challenge,
    find_challenge_by_id,
    read_frozen_at,
)
from tallymark.store.contests.idempotency import IdempotentRequest
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import lock_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Connection, Row

    from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, Payload, State
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.score_rows import ScoreEntry

_DONE = ("submitted", "scored", "failed")


class Attempts(TenantRows):
    """What `store.attempts` is."""

    # The life of an attempt

    def enter(
        self,
        name: str,
        agent: str,
        *,
        at: float,
        seed: int,
        memoryless: bool = False,
        key: str | None = None,
    ) -> Attempt:
        """Starts an attempt, or gives back the one that the agent has open."""
        asked = ("enter", name, memoryless)
        request = None if key is None else IdempotentRequest(self._tenant, agent, key, *asked)

        def work(connection: Connection) -> Attempt | InvalidInput:
            if refusal := disqualifications.find_refusal(connection, self._tenant, agent):
                return refusal
            register_agent(connection, self._tenant, agent, at)
            kept = find_challenge(connection, self._tenant, name)
            # Before anything is looked up: of many entries at once, the others find the first's.
            lock_agent(connection, kept.id, agent)
            if request and (answered := request.find_answer(connection)) is not None:
                return read_attempt(connection, self._tenant, answered)
            row = attempt_entry.find_open_attempt(connection, kept, agent)
            if row is not None and attempt_rows.is_late(row, at):
                attempt_rows.expire(connection, row, at)
                row = None
            if row is None:
                if refusal := attempt_entry.find_refusal(connection, kept, agent, at):
                    return refusal
                facts = {"seed": seed, "memoryless": memoryless}
                row = attempt_entry.insert_attempt(connection, kept, agent, at, **facts)
            if request:
                request.keep_answer(connection, row.key, at)
            return read_attempt(connection, self._tenant, row.key)

        return self._write_or_refuse(work)

    def submit(
        self, identifier: str, agent: str, payload: Payload, *, at: float, key: str | None = None
    ) -> Attempt:
        """Takes an agent's answer, once; the same content again gives the same attempt back."""
        check_handle(agent)
        texts = attempt_rows.make_payload_row(payload)
        asked = ("submit", identifier, texts["digest"])
        request = None if key is None else IdempotentRequest(self._tenant, agent, key, *asked)

        def work(connection: Connection) -> Attempt | InvalidInput:
            row = self._find_own_row(connection, identifier, agent)
            if refusal := disqualifications.find_refusal(connection, self._tenant, agent):
                return refusal
            if request is None or request.find_answer(connection) is None:
                # Returned, not raised, or the expiry would be undone with the transaction.
                if attempt_rows.is_late(row, at) and attempt_rows.expire(connection, row, at):
                    return attempt_rows.explain_expiry(row)
                entry = AuditEntry(at=at, actor=agent, event="submitted")
                if row.state == "entered" and move_attempt(
                    connection, row, "submitted", entry, submitted_at=at, match_at=at
                ):
                    attempt_rows.insert_payload(connection, row, texts)
                elif refusal := self._refuse_other_content(connection, row.key, texts["digest"]):
                    return refusal
                if request:
                    request.keep_answer(connection, row.key, at)
            return read_attempt(connection, self._tenant, row.key)

        return self._write_or_refuse(work)

    def report(
        self,
        name: str,
        agent: str,
        payload: Payload,
        metrics: Metrics,
        *,
        at: float,
        key: str | None = None,
    ) -> Attempt:
        """Enters and submits at once, with the metrics of a system that is trusted."""
        texts = attempt_rows.make_payload_row(msgspec.structs.replace(payload, reported=metrics))
        # Under a key even without one: an answer lost on the way must not make two attempts.
        request = IdempotentRequest(
            self._tenant, agent, key or uuid4().hex, "report", name, texts["digest"]
        )

        def work(connection: Connection) -> Attempt | InvalidInput:
            if refusal := disqualifications.find_refusal(connection, self._tenant, agent):
                return refusal
            register_agent(connection, self._tenant, agent, at)
            kept = find_challenge(connection, self._tenant, name)
            lock_agent(connection, kept.id, agent)
            if (answered := request.find_answer(connection)) is not None:
                return read_attempt(connection, self._tenant, answered)
            if refusal := attempt_entry.find_refusal(connection, kept, agent, at):
                return refusal
            facts = {"state": "submitted", "submitted_at": at, "match_at": at}
            facts |= {"seed": 0, "memoryless": False}
            row = attempt_entry.insert_attempt(connection, kept, agent, at, **facts)
            attempt_rows.insert_payload(connection, row, texts)
            entry = AuditEntry(
                at=at, actor=agent, event="reported", before="entered", after="submitted"
            )
            audit_log.write_entry(connection, self._tenant, kept.id, row.key, entry)
            request.keep_answer(connection, row.key, at)
            return read_attempt(connection, self._tenant, row.key)

        return self._write_or_refuse(work)

    def withdraw(
        self, identifier: str, agent: str, at: float, *, reason: str | None = None
    ) -> Attempt:
        """Ends an agent's open attempt, which is a loss: giving up is no better than failing."""

        def work(connection: Connection) -> Attempt | InvalidInput:
            row = self._find_own_row(connection, identifier, agent)
            if attempt_rows.is_late(row, at) and attempt_rows.expire(connection, row, at):
                return attempt_rows.explain_expiry(row)
            note = None if reason is None else {"reason": make_storable(reason)}
            entry = AuditEntry(at=at, actor=agent, event="withdrawn", note=note)
            if row.state == "entered" and move_attempt(
                connection, row, "withdrawn", entry, match_at=at
            ):
                matches.follow(connection, row)
            attempt = read_attempt(connection, self._tenant, row.key)
            if attempt.state == "withdrawn":
                return attempt
            return InvalidInput(
                f"attempt {identifier} is {attempt.state}, and cannot be withdrawn",
                hint="only an open attempt can",
            )

        return self._write_or_refuse(work)

    def void(self, identifier: str, *, at: float, reason: str) -> Attempt:
        """Boards, ratings and quotas are as if the attempt had never been made."""
        return self._set_void(identifier, at, audit_log.make_act("voided", reason, at))

    def unvoid(self, identifier: str, *, at: float, reason: str) -> Attempt:
        """All is as if the attempt had never been made void."""
        return self._set_void(identifier, None, audit_log.make_act("unvoided", reason, at))

    def _set_void(self, identifier: str, voided_at: float | None, entry: AuditEntry) -> Attempt:
        from tallymark.store.contests import whole_boards  # noqa: PLC0415 (formulas load with it)

        def work(connection: Connection) -> Attempt:
            challenge_id = self._find_row(connection, identifier).challenge_id
            kept = find_challenge_by_id(connection, challenge_id, lock=True)
            row = self._find_row(connection, identifier)
            if row.state == "entered":
                raise InvalidInput(
                    f"attempt {identifier} is still open", hint="void it when it has ended"
                )
            if (row.voided_at is None) != (voided_at is None):
                whole_boards.freeze_if_due(connection, kept, entry.at)
                mine = attempts.c.key == row.key
                connection.execute(update(attempts).where(mine).values(voided_at=voided_at))
                audit_log.write_entry(connection, self._tenant, kept.id, row.key, entry)
                whole_boards.rebuild_agent(connection, kept, row.agent)
                matches.fold_agents(connection, self._tenant, [row.agent])
            return read_attempt(connection, self._tenant, row.key)

        return self._database.write(work)

    def expire(self, at: float, *, most: int | None = None) -> int:
        """Ends open attempts whose time is over, all or so many; how many there were."""
        late = select(attempts).where(
            attempts.c.tenant == self._tenant,
            attempts.c.state == "entered",
            attempts.c.expires_at < at,
        )
        with self._database.read() as connection:
            rows = connection.execute(late.order_by(attempts.c.expires_at).limit(most)).all()

        # A transaction for each; one that was submitted since it was read is left alone.
        def work(row: Row[Any]) -> Callable[[Connection], bool]:
            return lambda connection: attempt_rows.expire(connection, row, at)

        return sum(self._database.write(work(row)) for row in rows)

    def finish(
        self,
        identifier: str,
        evaluation: Evaluation,
        outcome: Outcome,
        *,
        at: float,
        verified: bool,
        ruling: StoredChallenge | None = None,
    ) -> bool:
        """Scores a submitted attempt, exactly once: False when that was already done.

        Score, history, board, match, rating and audit change together or not at all. With a
        `ruling` (`challenges.find`, read before scoring), an outcome by a rule that has changed
        since is refused with `RuleChanged`, and the attempt stays pending.
        """
        from tallymark.store.contests import score_rows  # noqa: PLC0415 (formulas load with it)

        how = score_rows.Finish(evaluation, outcome, at, verified, ruling)
        return self._database.write(
            lambda c: score_rows.finish(c, self._find_row(c, identifier), how)
        )

    def wait(self, identifier: str, reason: str, hidden: str | None = None, *, at: float) -> None:
        """Writes down what of ours keeps a submitted attempt from being scored.

        `hidden` is what only organisers may know of it, and stands in the audit alone.
        """
        said = make_storable(reason), None if hidden is None else make_storable(hidden)
        self._database.write(
            lambda c: attempt_rows.keep_waiting(c, self._find_row(c, identifier), *said, at)
        )

    def finish_by_held_rule(
        self,
        identifier: str,
        evaluation: Evaluation,
        score: Callable[[StoredChallenge], Outcome],
        *,
        at: float,
        verified: bool,
    ) -> bool:
        """As `finish`, scored while nobody can change the rule, and all others wait."""
        from tallymark.store.contests import score_rows  # noqa: PLC0415 (formulas load with it)

        def work(connection: Connection) -> bool:
            row = self._find_row(connection, identifier)
            ruling = find_challenge_by_id(connection, row.challenge_id, lock=True)
            how = score_rows.Finish(evaluation, score(ruling), at, verified, ruling)
            return score_rows.finish(connection, row, how)

        return self._database.write(work)

    # Reading

    def get(self, identifier: str, *, public: bool = False) -> Attempt:
        """One attempt; `public` as it was known when the board was frozen, if it is."""
        mine = attempts.c.key == attempt_rows.attempt_key(identifier)
        with self._database.read() as connection:
            query = attempt_rows.select_attempts(self._tenant).where(mine)
            row = connection.execute(query).one_or_none()
        if row is None:
            raise _explain_unknown(identifier)
        attempt = to_attempt(row)
        return self._hide_later(attempt, row.frozen_at) if public else attempt

    def get_own(self, identifier: str, agent: str) -> Attempt:
        """One attempt of an agent."""
        with self._database.read() as connection:
            key = self._find_own_row(connection, identifier, agent).key
            return read_attempt(connection, self._tenant, key)

    def of(
        self,
        name: str,
        *,
        agent: str | None = None,
        state: State | None = None,
        limit: int | None = 100,
        offset: int = 0,
        public: bool = False,
    ) -> list[Attempt]:
        """The attempts at a challenge, newest first; `public` as `get` says."""
        query = attempt_rows.select_attempts(self._tenant).order_by(attempts.c.key.desc())
        for column, wanted in ((attempts.c.agent, agent), (attempts.c.state, state)):
            if wanted is not None:
                query = query.where(column == wanted)
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, name)
            page = query.where(attempts.c.challenge_id == kept.id).limit(limit).offset(offset)
            found = [to_attempt(row) for row in connection.execute(page)]
        if not public:
            return found
        shown = (self._hide_later(each, kept.frozen_at) for each in found)
        return [each for each in shown if state in (None, each.state)]

    def pending(self) -> list[Attempt]:
        """Attempts that were submitted and not yet scored, oldest first."""
        query = attempt_rows.select_attempts(self._tenant).where(attempts.c.state == "submitted")
        with self._database.read() as connection:
            return [to_attempt(row) for row in connection.execute(query.order_by(attempts.c.key))]

    def has_earlier_twin(self, identifier: str) -> bool:
        """Whether the same steps were sent with an attempt that was submitted before this one."""
        key = attempt_rows.attempt_key(identifier)
        with self._database.read() as connection:
            return attempt_rows.has_earlier_twin(connection, self._tenant, key)

    def payload(self, identifier: str) -> Payload:
        """What was submitted."""
        key = attempt_rows.attempt_key(identifier)
        with self._database.read() as connection:
            payload = attempt_rows.read_payload(connection, self._tenant, key)
            if payload is None:
                self._find_row(connection, identifier)  # refuses what is no attempt at all
                raise InvalidInput(f"nothing was submitted with attempt {identifier}")
        return payload

    def evaluation(self, identifier: str) -> Evaluation | None:
        """What the evaluator found; None when the attempt was not evaluated here."""
        with self._database.read() as connection:
            key = self._find_row(connection, identifier).key
            return attempt_rows.read_evaluation(connection, key)

    def audit(self, identifier: str, *, public: bool = False) -> list[AuditEntry]:
        """Every change of an attempt, oldest first; `public` as `get` says."""
        with self._database.read() as connection:
            row = self._find_row(connection, identifier)
            found = audit_log.read_entries(connection, self._tenant, row.challenge_id, row.key)
            frozen_at = read_frozen_at(connection, row.challenge_id) if public else None
        return frozen_attempts.keep_earlier_entries(found, frozen_at)

    def history(self, identifier: str, *, public: bool = False) -> list[ScoreEntry]:
        """Every score that an attempt was given, oldest first; `public` as `get` says."""
        from tallymark.store.contests import score_rows  # noqa: PLC0415 (formulas load with it)

        with self._database.read() as connection:
            row = self._find_row(connection, identifier)
            found = score_rows.read_history(connection, row)
            frozen_at = read_frozen_at(connection, row.challenge_id) if public else None
        return frozen_attempts.keep_earlier_scores(found, frozen_at)

    def _hide_later(self, attempt: Attempt, frozen_at: float | None) -> Attempt:
        return frozen_attempts.hide_later(attempt, frozen_at, lambda: self.history(attempt.id))

    # In bulk

    def load(self, name: str, given: Iterable[Attempt], *, at: float, rated: bool = True) -> int:
        """Stores attempts that were scored elsewhere, in the order in which they were made.

        Ids and numbers are given anew; quotas and times are not checked. Without `rated` they
        are no matches.
        """
        from tallymark.store.contests.bulk_load import BulkLoad  # noqa: PLC0415 (as with these)

        made = list(given)  # the work may be done twice, and an iterator gives once
        # A key for this call: done again after a lost connection, it loads nothing twice.
        request = IdempotentRequest(self._tenant, SYSTEM, uuid4().hex, "load", name)

        def work(connection: Connection) -> int:
            if request.find_answer(connection) is None:
                # Before the challenge is locked, as everywhere: so nobody waits in a circle.
                register_agents(connection, self._tenant, {each.agent for each in made}, at)
                BulkLoad(connection, self._tenant, name, at).load(made, rated=rated)
                request.keep_answer(connection, 0, at)
            return len(made)

        return self._database.write(work)

    def _write_or_refuse(self, work: Callable[[Connection], Attempt | InvalidInput]) -> Attempt:
        """Does the work; a refusal is raised only after what led to it was stored."""
        done = self._database.write(work)
        if isinstance(done, InvalidInput):
            raise done
        return done

    def _find_row(self, connection: Connection, identifier: str) -> Row[Any]:
        row = self._read_row(connection, identifier)
        if row is None:
            raise _explain_unknown(identifier)
        return row

    def _read_row(self, connection: Connection, identifier: str) -> Row[Any] | None:
        key = attempt_rows.attempt_key(identifier)
        query = select(attempts).where(attempts.c.tenant == self._tenant, attempts.c.key == key)
        return connection.execute(query).one_or_none()

    def _find_own_row(self, connection: Connection, identifier: str, agent: str) -> Row[Any]:
        """An attempt of this agent; of another's no more is said than of none."""
        row = self._read_row(connection, identifier)
        if row is None or row.agent != agent:
            raise InvalidInput(
                f"{agent!r} has no attempt {identifier!r}",
                hint="only the agent that entered may submit or withdraw",
            )
        return row

    def _refuse_other_content(
        self, connection: Connection, key: int, digest: str
    ) -> InvalidInput | None:
        """Why a submission cannot be taken, unless it is the one that already was."""
        attempt = read_attempt(connection, self._tenant, key)
        if attempt.state not in _DONE:
            return InvalidInput(
                f"attempt {attempt.id} is {attempt.state}", hint="enter the challenge again"
            )
        if attempt_rows.read_digest(connection, key) == digest:
            return None
        return InvalidInput(
            f"attempt {attempt.id} was already submitted, with other content",
            hint="enter the challenge again to try something else",
        )


def _explain_unknown(identifier: str) -> InvalidInput:
    return InvalidInput(f"there is no attempt {identifier!r}", hint="check the id")
