"""Attempts: entered, submitted or reported, scored exactly once; every change is logged.

Times come from the server's clock, as `at`. Breaking a rule is an `InvalidInput`.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import msgspec
from sqlalchemy import false, func, select, update

from tallymark.errors import Conflict, NotFound
from tallymark.store.bulk_load import BulkLoad
from tallymark.store.contests import attempt_rows, audit_log, board_rows, frozen_attempts, matches
from tallymark.store.contests.agents import register_agents
from tallymark.store.contests.attempt_items import (
    Enter,
    Expire,
    Finish,
    Report,
    Submit,
    Verdict,
    Wait,
    Withdraw,
)
from tallymark.store.contests.attempt_rows import read_attempt, to_attempt
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.challenges import (
    find_challenge,
    find_challenge_by_id,
    read_frozen_at,
)
from tallymark.store.contests.tables import attempts, is_unfinished, scorings
from tallymark.store.database import TenantRows
from tallymark.store.dialects import make_storable
from tallymark.store.idempotency import IdempotentRequest
from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection, Row, Select

    from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, Payload, State
    from tallymark.challenges.challenge import Challenge
    from tallymark.errors import TallymarkError
    from tallymark.store.contests.attempt_items import Answer, Item, Judge
    from tallymark.store.contests.attempt_rows import ScoreEntry, StoredAttempt
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.frozen_attempts import LaterActs

_AT_ONCE = 100
"""Number of expired attempts that are ended together."""


class Attempts(TenantRows):
    # The life of an attempt. Each of these is an item, done in a batch with what others ask.

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
        """Start an attempt, or return the agent's open one."""
        asked = ("enter", name, memoryless)
        request = None if key is None else IdempotentRequest(self._tenant, agent, key, *asked)
        facts: Any = {"seed": seed, "memoryless": memoryless, "request": request}
        item = Enter(tenant=self._tenant, at=at, challenge=name, agent=agent, **facts)
        return cast("Attempt", self._database.do(item))

    def submit(
        self,
        identifier: str,
        agent: str,
        payload: Payload,
        *,
        at: float,
        key: str | None = None,
        known: StoredAttempt | None = None,
    ) -> Attempt:
        """Take an agent's answer, once; the same content again returns the same attempt.

        With `known` (see `find`), an open attempt is not read again.
        """
        texts = attempt_rows.make_payload_row(payload)
        asked = ("submit", identifier, texts["digest"])
        request = None if key is None else IdempotentRequest(self._tenant, agent, key, *asked)
        facts: Any = {"attempt": identifier, "agent": agent, "texts": texts, "request": request}
        item = Submit(tenant=self._tenant, at=at, known=known, **facts)
        return cast("Attempt", self._database.do(item))

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
        """Enter and submit at once, with the metrics of a trusted system."""
        item = self.make_report(name, agent, payload, metrics, at=at, key=key)
        return cast("Attempt", self._database.do(item))

    def make_report(  # noqa: PLR0913 (what `report` takes, and a judge)
        self,
        name: str,
        agent: str,
        payload: Payload,
        metrics: Metrics,
        *,
        at: float,
        key: str | None = None,
        check: Callable[[Challenge], None] | None = None,
        judge: Judge | None = None,
    ) -> Report:
        """Make the item of `report`, to be applied in a batch; a `judge` scores it too."""
        texts = attempt_rows.make_payload_row(msgspec.structs.replace(payload, reported=metrics))
        # Under a key even without one: an answer lost on the way must not make two attempts.
        asked = ("report", name, texts["digest"])
        request = IdempotentRequest(self._tenant, agent, key or token_hex(16), *asked)
        facts: Any = {"texts": texts, "request": request, "check": check, "judge": judge}
        return Report(tenant=self._tenant, at=at, challenge=name, agent=agent, **facts)

    def do(self, item: Item) -> Answer:
        """Apply an item, in a batch if there is a writer."""
        return self._database.do(item)

    def do_all(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply items; return an answer or a refusal for each."""
        return self._database.do_all(items)

    async def ado_all(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply items without blocking the event loop."""
        return await self._database.ado_all(items)

    def do_all_or_none(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply items, or none if one is refused."""
        return self._database.do_all_or_none(items)

    async def ado(self, item: Item) -> Answer:
        """Apply an item without blocking the event loop."""
        return await self._database.ado(item)

    def withdraw(
        self, identifier: str, agent: str, at: float, *, reason: str | None = None
    ) -> Attempt:
        """End an agent's open attempt, which is a loss: giving up is no better than failing."""
        facts: Any = {"attempt": identifier, "agent": agent, "reason": reason}
        return cast("Attempt", self._database.do(Withdraw(tenant=self._tenant, at=at, **facts)))

    def void(self, identifier: str, *, at: float, reason: str) -> Attempt:
        """Void an attempt: boards, ratings and quotas are as if it had never been made."""
        return self._set_void(identifier, at, audit_log.make_act("voided", reason, at))

    def unvoid(self, identifier: str, *, at: float, reason: str) -> Attempt:
        """Undo the voiding of an attempt."""
        return self._set_void(identifier, None, audit_log.make_act("unvoided", reason, at))

    def _set_void(self, identifier: str, voided_at: float | None, entry: AuditEntry) -> Attempt:
        def work(connection: Connection) -> Attempt:
            challenge_id = self._find_row(connection, identifier).challenge_id
            kept = find_challenge_by_id(connection, challenge_id, lock=True)
            row = self._find_row(connection, identifier)
            if row.state == "entered":
                raise Conflict(
                    f"attempt {identifier} is still open", hint="void it when it has ended"
                )
            if (row.voided_at is None) != (voided_at is None):
                board_rows.freeze_if_due(connection, kept, entry.at)
                mine = attempts.c.key == row.key
                connection.execute(update(attempts).where(mine).values(voided_at=voided_at))
                audit_log.write_entry(connection, self._tenant, kept.id, row.key, entry)
                board_rows.rebuild_agent(connection, kept, row.agent)
                matches.fold_agents(connection, self._tenant, [row.agent])
            return read_attempt(QuickStatements(connection), self._tenant, row.key).attempt

        return self._database.write(work)

    def expire(self, at: float, *, most: int | None = None) -> int:
        """End expired attempts, all or up to `most`; return their number."""
        done = 0
        while most is None or done < most:
            some = _AT_ONCE if most is None else min(_AT_ONCE, most - done)
            ended = self._database.do(Expire(tenant=self._tenant, at=at, most=some))
            if not ended:
                break
            done += cast("int", ended)
        return done

    def expire_soon(self, at: float, *, most: int) -> None:
        """End up to `most` expired attempts, without waiting for the writer."""
        self._database.put(Expire(tenant=self._tenant, at=at, most=most))

    def finish(
        self,
        identifier: str,
        evaluation: Evaluation,
        outcome: Outcome,
        *,
        at: float,
        verified: bool,
        scored_by: StoredChallenge | None = None,
    ) -> bool:
        """Score a submitted attempt, exactly once: False when that was already done.

        Score, history, board, match, rating and audit change together or not at all. With a
        `scored_by` (`challenges.find`, read before scoring), an outcome by a rule that has changed
        since is refused with `RuleChanged`, and the attempt stays pending.
        """
        revision = None if scored_by is None else scored_by.revision
        facts: Any = {"attempt": identifier, "verdict": Verdict(evaluation, outcome, verified)}
        item = Finish(tenant=self._tenant, at=at, revision=revision, **facts)
        return self._database.do(item) is not False

    def wait(self, identifier: str, reason: str, hidden: str | None = None, *, at: float) -> None:
        """Store why the server could not score a submitted attempt yet.

        `hidden` is for organisers only, and is stored in the audit log alone.
        """
        why = None if hidden is None else make_storable(hidden)
        said: Any = {"attempt": identifier, "reason": make_storable(reason), "hidden": why}
        self._database.do(Wait(tenant=self._tenant, at=at, **said))

    # Reading

    def get(self, identifier: str, *, as_frozen: bool = False) -> Attempt:
        """One attempt; `as_frozen` as it was known when the board was frozen, if it is."""
        found = self.find(identifier)
        if not as_frozen or found.frozen_at is None:
            return found.attempt
        with self._database.read() as connection:
            later = frozen_attempts.read_later_acts(connection, self._tenant)
        return self._hide_later(found.attempt, found.frozen_at, later)

    def find(self, identifier: str, agent: str | None = None) -> StoredAttempt:
        """Find an attempt with its row. With `agent`, attempts of others are unknown."""
        with self._database.statement() as statements:
            found = attempt_rows.find_attempt(statements, self._tenant, identifier)
        if agent is not None and (found is None or found.attempt.agent != agent):
            raise attempt_rows.explain_foreign_attempt(identifier, agent)
        if found is None:
            raise attempt_rows.explain_unknown_attempt(identifier)
        return found

    def of(  # noqa: PLR0913 (the filters of a list, by keyword)
        self,
        name: str,
        *,
        agent: str | None = None,
        state: State | None = None,
        limit: int | None = 100,
        offset: int = 0,
        before: str | None = None,
        after: str | None = None,
        as_frozen: bool = False,
        open_of: str | None = None,
    ) -> list[Attempt]:
        """Attempts at a challenge, newest first; `as_frozen` as in `get`.

        `before` is an id: older attempts. `after` is an id: newer attempts, oldest first; `""` is
        before all. `open_of` is the agent whose open attempts are included; `""` is none.
        """
        query = attempt_rows.select_attempts(self._tenant)
        if after is None:
            query = query.order_by(attempts.c.key.desc())
        else:
            newer = attempts.c.key > (attempt_rows.attempt_key(after) or 0)
            query = query.where(newer).order_by(attempts.c.key)
        if before is not None:
            query = query.where(attempts.c.key < attempt_rows.attempt_key(before))
        if agent is not None:
            query = query.where(attempts.c.agent == agent)
        if open_of is not None:
            query = query.where(attempt_rows.is_shown_to(open_of))
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, name)
            query = query.where(attempts.c.challenge_id == kept.id)
            frozen_at = kept.frozen_at if as_frozen else None
            if frozen_at is not None and state is not None:
                query = self._filter_shown(connection, query, kept.id, frozen_at, state)
                return self._find_shown(connection, query, frozen_at, state, limit, offset)
            if state is not None:
                query = query.where(attempts.c.state == state)
            page = query.limit(limit).offset(offset)
            found = [to_attempt(row) for row in connection.execute(page)]
            if frozen_at is None:
                return found
            later = frozen_attempts.read_later_acts(connection, self._tenant)
        return [self._hide_later(each, frozen_at, later) for each in found]

    def _filter_shown(
        self,
        connection: Connection,
        query: Select[Any],
        challenge_id: int,
        frozen_at: float,
        state: State,
    ) -> Select[Any]:
        """Leave out attempts that cannot be shown in this state, so that few are read.

        After a later rescoring only each attempt's history decides.
        """
        again = select(scorings.c.id).where(
            scorings.c.challenge_id == challenge_id,
            scorings.c.at >= frozen_at,
            scorings.c.why != "finish",
        )
        if connection.execute(again.limit(1)).first() is not None:
            return query
        is_later = func.coalesce(attempts.c.scored_at >= frozen_at, false())
        if state == "submitted":
            return query.where((attempts.c.state == state) | is_later)
        return query.where(attempts.c.state == state, ~is_later)

    def _find_shown(
        self,
        connection: Connection,
        query: Select[Any],
        frozen_at: float,
        state: State,
        limit: int | None,
        offset: int,
    ) -> list[Attempt]:
        """Select attempts by the state shown, which for later ones is not the stored state."""
        found: list[Attempt] = []
        later = frozen_attempts.read_later_acts(connection, self._tenant)
        with connection.execute(query, execution_options={"yield_per": _AT_ONCE}) as rows:
            for row in rows:
                shown = self._hide_later(to_attempt(row), frozen_at, later)
                if shown.state == state:
                    found.append(shown)
                if limit is not None and len(found) >= offset + limit:
                    break
        return found[offset:]

    def pending(self) -> list[Attempt]:
        """Submitted attempts without a score, oldest first."""
        waits = (is_unfinished, attempts.c.state == "submitted")
        query = attempt_rows.select_attempts(self._tenant).where(*waits)
        with self._database.read() as connection:
            return [to_attempt(row) for row in connection.execute(query.order_by(attempts.c.key))]

    def has_earlier_twin(self, identifier: str) -> bool:
        """Return whether an earlier attempt was submitted with the same steps."""
        key = attempt_rows.attempt_key(identifier)
        with self._database.read() as connection:
            return attempt_rows.has_earlier_twin(connection, self._tenant, key)

    def payload(self, identifier: str) -> Payload:
        """Submission of an attempt."""
        key = attempt_rows.attempt_key(identifier)
        with self._database.snapshot() as snapshot:
            payload = attempt_rows.read_payload(snapshot.connection, self._tenant, key)
            if payload is None:
                self._find_row(snapshot.connection, identifier)  # refuses what is no attempt at all
                raise NotFound(f"nothing was submitted with attempt {identifier}")
        return payload

    def evaluation(self, identifier: str) -> Evaluation | None:
        """Evaluation of an attempt; None if it was not evaluated here."""
        with self._database.read() as connection:
            key = self._find_row(connection, identifier).key
            return attempt_rows.read_evaluation(connection, key)

    def audit(self, identifier: str, *, as_frozen: bool = False) -> list[AuditEntry]:
        """Log entries of an attempt, oldest first; `as_frozen` as in `get`."""
        with self._database.read() as connection:
            row = self._find_row(connection, identifier)
            found = audit_log.read_entries(connection, self._tenant, row.challenge_id, row.key)
            frozen_at = read_frozen_at(connection, row.challenge_id) if as_frozen else None
        return frozen_attempts.keep_earlier_entries(found, frozen_at)

    def history(self, identifier: str, *, as_frozen: bool = False) -> list[ScoreEntry]:
        """Score that an attempt was given, oldest first; `as_frozen` as in `get`."""
        with self._database.snapshot() as snapshot:
            connection = snapshot.connection
            row = self._find_row(connection, identifier)
            found = attempt_rows.read_history(connection, row)
            frozen_at = read_frozen_at(connection, row.challenge_id) if as_frozen else None
        return frozen_attempts.keep_earlier_scores(found, frozen_at)

    def _hide_later(self, attempt: Attempt, frozen_at: float, later: LaterActs) -> Attempt:
        def read_history() -> list[ScoreEntry]:
            return self.history(attempt.id)

        return frozen_attempts.hide_later(attempt, frozen_at, read_history, later)

    # In bulk

    def load(self, name: str, given: Iterable[Attempt], *, at: float, rated: bool = True) -> int:
        """Store attempts that were scored elsewhere, in the order in which they were made.

        They get new ids and numbers; quotas and times are not checked. Without `rated` they are no
        matches.
        """
        made = list(given)  # the work may be done twice, and an iterator gives once
        # A key for this call: done again after a lost connection, it loads nothing twice.
        request = IdempotentRequest(self._tenant, SYSTEM, uuid4().hex, "load", name)

        def work(connection: Connection) -> int:
            statements = QuickStatements(connection)
            if request.find_answer(statements) is None:
                # Before the challenge is locked, as everywhere: this order prevents deadlocks.
                register_agents(connection, self._tenant, {each.agent for each in made}, at)
                BulkLoad(connection, self._tenant, name, at).load(made, rated=rated)
                request.keep_answer(statements, 0, at)
            return len(made)

        return self._database.write(work)

    def _find_row(self, connection: Connection, identifier: str) -> Row[Any]:
        key = attempt_rows.attempt_key(identifier)
        query = select(attempts).where(attempts.c.tenant == self._tenant, attempts.c.key == key)
        row = connection.execute(query).one_or_none()
        if row is None:
            raise attempt_rows.explain_unknown_attempt(identifier)
        return row
