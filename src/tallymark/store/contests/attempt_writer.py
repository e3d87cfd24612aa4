"""Changes of attempts: the only code that writes them.

One thread of a server applies what has arrived, item by item, in one transaction; a command applies
one item in its own. The methods are the same. An item that is refused is refused before its first
change, so that it undoes nothing of the others. See docs/decisions/0032-group-commit.md.

Locks are taken in one order: names of new agents, challenges by key, ratings by name. A writer of
the log of a challenge holds its lock until the end, so `contest_audit.seq` grows in the order of
commits.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.challenges.agent_names import check_handle
from tallymark.challenges.attempt import Attempt
from tallymark.challenges.challenge import MatchTerms
from tallymark.errors import Conflict, InvalidInput, RuleChanged, TallymarkError
from tallymark.store.contests import (
    agents,
    attempt_entry,
    attempt_rows,
    audit_log,
    board_rows,
    boards,
    matches,
    plugin_quarantine,
)
from tallymark.store.contests.agents import register_agent
from tallymark.store.contests.attempt_entry import Entrant
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
from tallymark.store.contests.attempt_rows import ROW_NAMES, SCORE_NAMES, StoredAttempt
from tallymark.store.contests.audit_log import HIDDEN, SYSTEM
from tallymark.store.contests.challenges import explain_unknown_challenge, lock_challenge_row
from tallymark.store.contests.matches import EndedAttempt
from tallymark.store.contests.tables import attempt_id
from tallymark.store.dialects import json_text, make_storable
from tallymark.store.group_commit import Overtaken
from tallymark.store.quick_statements import ManyQuery, QuickStatements, write_insert
from tallymark.store.row_numbers import take_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import State
    from tallymark.store.contests.attempt_items import Answer, Item
    from tallymark.store.contests.audit_log import Actor
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.idempotency import IdempotentRequest

_decode_terms = msgspec.json.Decoder(MatchTerms).decode
_VERSIONS = "tally_versions"
_MOST_VERSIONS = 5000
_DONE = ("submitted", "scored", "failed")
_CHALLENGE = "SELECT id FROM challenges WHERE tenant = ? AND name = ?"
_CHALLENGE_OF = "SELECT challenge_id FROM attempts WHERE tenant = ? AND key = ?"
_VERSION = (
    "SELECT id, version, definition FROM challenge_versions WHERE challenge_id = ? AND version = ?"
)
_ENTERED_VERSION = "SELECT id, version, definition FROM challenge_versions WHERE id = ?"
_SCORING = "SELECT id FROM scorings WHERE challenge_id = ? ORDER BY id DESC LIMIT 1"
_ADD_SCORING = """
    INSERT INTO scorings (tenant, challenge_id, at, why, origin)
    SELECT CAST(? AS text), CAST(? AS bigint), CAST(? AS double precision), CAST(? AS text),
           CAST(? AS text)
    WHERE NOT EXISTS (
        SELECT 1 FROM (
            SELECT why, origin FROM scorings WHERE challenge_id = ? ORDER BY id DESC LIMIT 1
        ) AS newest
        WHERE why = ? AND coalesce(origin, '') = coalesce(CAST(? AS text), '')
    )
    RETURNING id
"""
_ADMISSIONS = ManyQuery(
    """
    SELECT given.tenant, given.agent, agents.handle IS NOT NULL,
           disqualified_agents.agent IS NOT NULL
    FROM {given}
    LEFT JOIN agents ON agents.tenant = given.tenant AND agents.handle = given.agent
    LEFT JOIN disqualified_agents ON disqualified_agents.tenant = given.tenant
         AND disqualified_agents.agent = given.agent
    """,
    (("tenant", "text"), ("agent", "text")),
)
_LATE = """
    SELECT key, challenge_id FROM attempts
    WHERE tenant = ? AND state = 'entered' AND expires_at < ? ORDER BY expires_at, key LIMIT ?
"""
_INSERT = write_insert("attempts", ROW_NAMES)
_SUBMIT = (
    "UPDATE attempts SET state = 'submitted', submitted_at = ?, match_at = ?"
    " WHERE key = ? AND state = 'entered'"
)
_REOPEN = (
    "UPDATE attempts SET state = 'entered', submitted_at = NULL, match_at = NULL WHERE key = ?"
)
_END = "UPDATE attempts SET state = ?, match_at = ? WHERE key = ?"
_SCORE = (
    "UPDATE attempts SET state = ?, scored_at = ?, verified = ?, trajectory_level = ? WHERE key = ?"
)
_DETAILS = (
    "attempt",
    "tenant",
    "digest",
    "submission",
    "metadata",
    "reported",
    "packed_trajectory",
    "steps_digest",
    "evaluation",
    "details",
)
_INSERT_DETAILS = write_insert("attempt_details", _DETAILS)
_VERDICT = "UPDATE attempt_details SET evaluation = ?, details = ? WHERE attempt = ?"
_INSERT_SCORE = write_insert("attempt_scores", SCORE_NAMES)
_HISTORY = ("scoring", "agent", "attempt", "tenant", "score", "result", "error", "at")


class _Version(NamedTuple):
    id: int
    version: str
    terms: MatchTerms


class AttemptWriter:
    """Applies items in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._statements = QuickStatements(connection)
        self.challenges: dict[int, StoredChallenge | None] = {}
        """By key, those that this transaction has locked; None if it is gone."""
        self._challenge_ids: dict[tuple[str, str], int | None] = {}
        # Cached with the driver's connection: committed versions never change.
        versions = connection.info.setdefault(_VERSIONS, {})
        if len(versions) > _MOST_VERSIONS:
            versions.clear()
        self._versions: dict[tuple[int, str] | int, _Version] = versions
        self._scorings: dict[int, tuple[int, str | None]] = {}
        """By challenge, the last rule that attempts were scored by here: its key and origin."""
        self._admissions: dict[tuple[str, str], tuple[bool, bool]] = {}
        self._refused: dict[tuple[str, str], TallymarkError] = {}
        self._rated: set[tuple[str, str]] = set()
        """Agents whose ratings are locked."""
        self._history: list[tuple[Any, ...]] = []
        self._log: list[tuple[Any, ...]] = []
        self._keys: dict[str, Iterator[int]] = {}
        self._entering: Counter[str] = Counter()

    def apply(self, items: Sequence[Item]) -> list[Answer | TallymarkError]:
        """Apply items in their order, each seeing those before it; answer or refuse each."""
        self._take_locks(items)
        answers = [self._apply(item) for item in items]
        self._statements.insert("score_history", _HISTORY, self._history)
        self._write_log()
        return answers

    def _apply(self, item: Item) -> Answer | TallymarkError:
        try:
            match item:
                case Report():
                    return self._report(item)
                case Enter():
                    return self._enter(item)
                case Submit():
                    return self._submit(item)
                case Finish():
                    return self._finish(item)
                case Withdraw():
                    return self._withdraw(item)
                case Expire():
                    return self._expire_late(item)
                case Wait():
                    self._wait(item)
                    return None
        except Overtaken:  # of all items: the transaction begins again
            raise
        except TallymarkError as error:
            return error

    # Locks

    def _take_locks(self, items: Sequence[Item]) -> None:
        self._entering.update(each.tenant for each in items if isinstance(each, Enter | Report))
        challenge_ids = [self._find_challenge_id(each) for each in items]
        self._admit_agents(items, challenge_ids)
        wanted = set(challenge_ids)
        for item in items:
            if isinstance(item, Expire):
                late = self._statements.read(_LATE, item.tenant, item.at, item.most)
                wanted.update(challenge_id for _, challenge_id in late)
        for key in sorted(each for each in wanted if each is not None):
            self._lock(key)
        if self._statements.is_postgres and len(items) > 1:
            self._rated = matches.lock_known(self._statements, sorted(self._admissions))

    def _find_challenge_id(self, item: Item) -> int | None:
        if isinstance(item, Enter | Report):
            called = item.tenant, item.challenge
            if called not in self._challenge_ids:
                is_name = make_storable(item.challenge) == item.challenge
                rows = self._statements.read(_CHALLENGE, *called) if is_name else []
                self._challenge_ids[called] = rows[0][0] if rows else None
            return self._challenge_ids[called]
        known: StoredAttempt | None = getattr(item, "known", None)
        if known is not None:
            return known.challenge_id
        if isinstance(item, Expire):
            return None
        key = attempt_rows.attempt_key(item.attempt)
        rows = [] if key is None else self._statements.read(_CHALLENGE_OF, item.tenant, key)
        return rows[0][0] if rows else None

    def _lock(self, key: int) -> StoredChallenge | None:
        """Lock a challenge, its attempts and its board until the transaction ends."""
        if key not in self.challenges:
            self.challenges[key] = lock_challenge_row(self._statements, key)
        return self.challenges[key]

    def _admit_agents(self, items: Sequence[Item], challenge_ids: Sequence[int | None]) -> None:
        """Read who may compete, and register agents that enter for the first time."""
        acting = [
            (item, challenge_id)
            for item, challenge_id in zip(items, challenge_ids, strict=True)
            if isinstance(item, Enter | Report | Submit)
        ]
        named: set[tuple[str, str]] = set()
        for item, _ in acting:
            try:
                check_handle(item.agent)
                named.add((item.tenant, item.agent))
            except InvalidInput as error:
                self._refused[item.tenant, item.agent] = error
        for tenant, agent, there, out in self._statements.read_many(_ADMISSIONS, list(named)):
            self._admissions[tenant, agent] = bool(there), bool(out)
        # In order, so that of twins the first is taken; of tenants in one order, as all locks.
        for item, challenge_id in sorted(acting, key=lambda each: each[0].tenant):
            who = item.tenant, item.agent
            there, out = self._admissions.get(who, (True, False))
            if there or challenge_id is None or isinstance(item, Submit):
                continue
            try:
                register_agent(self._connection, *who, item.at)
            except InvalidInput as error:
                self._refused[who] = error
            self._admissions[who] = True, out

    def _check_admission(self, item: Enter | Report | Submit) -> None:
        who = item.tenant, item.agent
        if who in self._refused:
            raise self._refused[who]
        if self._admissions[who][1]:
            raise agents.explain_disqualification(item.agent)

    # Items

    def _enter(self, item: Enter) -> Attempt:
        kept = self._find_place(item)
        if (answered := self._find_answer(item.request)) is not None:
            return attempt_rows.read_attempt(self._statements, item.tenant, answered).attempt
        entrant = attempt_entry.read_entrant(self._statements, kept.id, item.agent)
        if entrant.open_key is not None:
            found = attempt_rows.read_attempt(self._statements, item.tenant, entrant.open_key)
            if item.at <= found.attempt.expires_at:
                self._keep_answer(item.request, found.key, item.at)
                return found.attempt
            self._expire(found, item.at)
        attempt_entry.check_entry(self._statements, kept, item.agent, item.at)
        made = self._make(
            kept, entrant, item, state="entered", seed=item.seed, memoryless=item.memoryless
        )
        self._insert(made)
        self._keep_answer(item.request, made.key, item.at)
        return made.attempt

    def _report(self, item: Report) -> Attempt:
        kept = self._find_place(item)
        if (answered := self._find_answer(item.request)) is not None:
            return attempt_rows.read_attempt(self._statements, item.tenant, answered).attempt
        if item.check is not None:
            item.check(kept.challenge)
        attempt_entry.check_entry(self._statements, kept, item.agent, item.at)
        entrant = attempt_entry.read_entrant(self._statements, kept.id, item.agent)
        made = self._make(kept, entrant, item, state="submitted", submitted_at=item.at)
        self._write(made, item.at, "reported", "entered", "submitted", actor=item.actor)
        verdict = None
        if item.judge is not None:
            # After a failure the attempt stays submitted, and a worker scores it.
            with suppress(Exception):
                verdict = item.judge(made.attempt, kept)
        if verdict is not None:
            first = entrant.first_number == made.attempt.number
            attempt = self._score(kept, made, verdict, item.at, first=first, new=item.texts)
        else:
            attempt = made.attempt
            self._insert(made)
            self._insert_details(made, item.texts)
        self._keep_answer(item.request, made.key, item.at)
        return attempt

    def _submit(self, item: Submit) -> Attempt:
        known = item.known
        if known is not None and (known.attempt.state != "entered" or _is_late(known, item.at)):
            known = None
        found = known or self._find_own(item)
        attempt = found.attempt
        if attempt.agent != item.agent:
            raise attempt_rows.explain_foreign_attempt(item.attempt, item.agent)
        self._check_admission(item)
        if attempt.state != "entered" and self._find_answer(item.request) is not None:
            return attempt_rows.read_attempt(self._statements, item.tenant, found.key).attempt
        if _is_late(found, item.at):
            self._expire(found, item.at)
            raise attempt_rows.explain_expiry(attempt)
        if attempt.state == "entered":
            if not self._statements.run(_SUBMIT, item.at, item.at, found.key):
                return self._submit(msgspec.structs.replace(item, known=None))
            try:
                self._keep_answer(item.request, found.key, item.at)
            except Overtaken:
                self._statements.run(_REOPEN, found.key)
                self._find_answer(item.request)  # refuses a key that was used for another request
                raise
            size = attempt_rows.count_bytes(item.texts)
            who = (item.tenant, item.agent, item.at)
            if not attempt_rows.count_agent_bytes(self._statements, *who, size):
                self._statements.run(_REOPEN, found.key)
                self._forget_answer(item.request)
                raise Conflict(attempt_rows.TOO_MANY_BYTES, hint="submit less, or tomorrow (UTC)")
            self._insert_details(found, item.texts)
            self._write(found, item.at, "submitted", "entered", "submitted", actor=item.actor)
            attempt = msgspec.structs.replace(attempt, state="submitted", submitted_at=item.at)
        else:
            self._refuse_other_content(found, item.texts["digest"])
            self._keep_answer(item.request, found.key, item.at)
        return attempt

    def _withdraw(self, item: Withdraw) -> Attempt:
        found = self._find_own(item)
        attempt = found.attempt
        if _is_late(found, item.at):
            self._expire(found, item.at)
            raise attempt_rows.explain_expiry(attempt)
        if attempt.state == "entered":
            note = None if item.reason is None else {"reason": make_storable(item.reason)}
            return self._end(found, "withdrawn", item.at, item.at, actor=item.actor, note=note)
        if attempt.state != "withdrawn":
            raise Conflict(
                f"attempt {item.attempt} is {attempt.state}, and cannot be withdrawn",
                hint="only an open attempt can",
            )
        return attempt

    def _expire_late(self, item: Expire) -> int:
        late = self._statements.read(_LATE, item.tenant, item.at, item.most)
        for key, challenge_id in late:
            self._lock(challenge_id)
            self._expire(attempt_rows.read_attempt(self._statements, item.tenant, key), item.at)
        return len(late)

    def _finish(self, item: Finish) -> Attempt | bool:
        found = self._find(item)
        kept = self.challenges[found.challenge_id]
        assert kept is not None  # noqa: S101 (it has attempts)
        if found.attempt.state not in _DONE:
            raise Conflict(
                f"attempt {attempt_id(found.key)} is {found.attempt.state}, and cannot be scored",
                hint="only a submitted attempt can",
            )
        if found.attempt.state != "submitted":
            return False
        if item.revision is not None and item.revision != kept.revision:
            raise RuleChanged(
                f"the scoring of challenge {kept.challenge.name!r} changed while attempt"
                f" {attempt_id(found.key)} was scored",
                hint="score it again",
            )
        verdict = item.verdict if isinstance(item.verdict, Verdict) else item.verdict(kept)
        return self._score(kept, found, verdict, item.at, first=self._is_first(found))

    def _wait(self, item: Wait) -> None:
        found = self._find(item)
        if found.attempt.state != "submitted" or found.attempt.waiting == item.reason:
            return
        self._stop_waiting(found)
        values = (found.key, item.tenant, item.at, item.reason)
        self._statements.run("INSERT INTO attempt_waits VALUES (?, ?, ?, ?)", *values)
        note = {"reason": item.reason} | ({} if item.hidden is None else {HIDDEN: item.hidden})
        self._write(found, item.at, "waiting", None, None, by_system=True, note=note)

    # Reading

    def _find_place(self, item: Enter | Report) -> StoredChallenge:
        """Challenge that an agent may enter."""
        self._check_admission(item)
        challenge_id = self._find_challenge_id(item)
        kept = None if challenge_id is None else self._lock(challenge_id)
        if kept is None or kept.challenge.name != item.challenge:  # gone before it was locked
            raise explain_unknown_challenge(self._connection, item.tenant, item.challenge)
        return kept

    def _find(self, item: Finish | Wait) -> StoredAttempt:
        found = attempt_rows.find_attempt(self._statements, item.tenant, item.attempt)
        if found is None:
            raise attempt_rows.explain_unknown_attempt(item.attempt)
        return found

    def _find_own(self, item: Submit | Withdraw) -> StoredAttempt:
        """An attempt of this agent; another's is refused as unknown."""
        found = attempt_rows.find_attempt(self._statements, item.tenant, item.attempt)
        if found is None or found.attempt.agent != item.agent:
            raise attempt_rows.explain_foreign_attempt(item.attempt, item.agent)
        return found

    def _find_version(self, kept: StoredChallenge) -> _Version:
        """Version of the challenge that is entered now."""
        called = kept.id, kept.challenge.version
        if called not in self._versions:
            self._versions[called] = self._keep_version(_VERSION, *called)
        return self._versions[called]

    def _find_entered_version(self, key: int) -> _Version:
        return self._versions.get(key) or self._keep_version(_ENTERED_VERSION, key)

    def _keep_version(self, query: str, *values: Any) -> _Version:
        ((key, version, definition),) = self._statements.read(query, *values)
        self._versions[key] = made = _Version(key, version, _decode_terms(definition))
        return made

    # Idempotency

    def _find_answer(self, request: IdempotentRequest | None) -> int | None:
        return None if request is None else request.find_answer(self._statements)

    def _keep_answer(self, request: IdempotentRequest | None, key: int, at: float) -> None:
        if request is not None:
            request.keep_answer(self._statements, key, at)

    def _forget_answer(self, request: IdempotentRequest | None) -> None:
        if request is not None:
            request.forget_answer(self._statements)

    def _refuse_other_content(self, found: StoredAttempt, digest: str) -> None:
        """Refuse a submission that cannot be taken, unless it is the one that already was."""
        identifier = attempt_id(found.key)
        if found.attempt.state not in _DONE:
            raise Conflict(
                f"attempt {identifier} is {found.attempt.state}", hint="enter the challenge again"
            )
        if attempt_rows.read_digest(self._connection, found.key) != digest:
            raise Conflict(
                f"attempt {identifier} was already submitted, with other content",
                hint="enter the challenge again to try something else",
            )

    # Steps

    def _make(
        self, kept: StoredChallenge, entrant: Entrant, item: Enter | Report, **facts: Any
    ) -> StoredAttempt:
        """Make the agent's next attempt, which is not stored yet."""
        key, version = self._next_key(kept.tenant), self._find_version(kept)
        entrant.last_number += 1
        if entrant.first_number is None:
            entrant.first_number = entrant.last_number
        attempt = Attempt(
            id=attempt_id(key),
            challenge=kept.challenge.name,
            version=version.version,
            agent=item.agent,
            number=entrant.last_number,
            entered_at=item.at,
            expires_at=attempt_entry.find_deadline(kept.challenge, item.at),
            **{"seed": 0, **facts},
        )
        made = attempt_rows.make_stored(kept, key, version.id, attempt)
        self._write(made, item.at, "entered", None, "entered", actor=item.actor)
        return made

    def _next_key(self, tenant: str) -> int:
        """Take a key for a new attempt. Keys are taken together, since each takes a round trip."""
        if tenant not in self._keys:
            count = self._entering[tenant] if self._statements.is_postgres else 1
            numbers = take_numbers(self._connection, "attempts", tenant, count)
            if not self._statements.is_postgres:
                return numbers[0]
            self._keys[tenant] = iter(numbers)
        return next(self._keys[tenant])

    def _insert(self, made: StoredAttempt) -> None:
        self._statements.run(_INSERT, *made.row)

    def _insert_details(self, found: StoredAttempt, texts: dict[str, Any], *verdict: Any) -> None:
        row = [texts[name] for name in _DETAILS[2:-2]]
        self._statements.run(
            _INSERT_DETAILS, found.key, found.tenant, *row, *(verdict or (None, None))
        )

    def _expire(self, found: StoredAttempt, at: float) -> None:
        """End an open attempt whose time is over, which is a loss."""
        # Its time was over then, whenever that is noticed.
        self._end(found, "expired", at, found.attempt.expires_at, by_system=True)

    def _end(
        self,
        found: StoredAttempt,
        state: State,
        at: float,
        match_at: float,
        **how: Any,
    ) -> Attempt:
        """End an open attempt without a score, which is a loss."""
        rated = self._rate(found, "loss", match_at, first=self._is_first(found))
        self._statements.run(_END, state, match_at, found.key)
        self._write(found, at, state, "entered", state, **how)
        rated.write(self._statements)
        return msgspec.structs.replace(found.attempt, state=state)

    def _score(
        self,
        kept: StoredChallenge,
        found: StoredAttempt,
        verdict: Verdict,
        at: float,
        *,
        first: bool,
        new: dict[str, Any] | None = None,
    ) -> Attempt:
        """Change score, history, board, match, rating and log of a submitted attempt together.

        `new` is what was submitted with an attempt that is not stored yet.
        """
        before, outcome, key = found.attempt, verdict.outcome, found.key
        if kept.frozen_at is None and kept.is_frozen(at):
            # Before the board moves: the public sees it as it was at the freeze.
            self._write_log()
            board_rows.freeze_if_due(self._connection, kept, at)
            self.challenges[kept.id] = kept = replace(kept, frozen_at=at)
        state: State = "scored" if outcome.error is None else "failed"
        rated = None
        if before.voided_at is None and found.match_at is not None:
            result = outcome.result if state == "scored" else "loss"
            how = {"first": first, "verified": verdict.verified}
            rated = self._rate(found, result, found.match_at, **how)
        level, origin = outcome.trajectory_level, attempt_rows.origin_text(outcome)
        score = attempt_rows.score_row(
            outcome,
            challenge_id=kept.id,
            agent=before.agent,
            attempt=key,
            tenant=kept.tenant,
            scoring=self._find_scoring(kept, origin, at),
            submitted_at=before.submitted_at,
            number=before.number,
        )
        details = json_text(outcome.details) if outcome.details else None
        attempt = msgspec.structs.replace(
            before,
            state=state,
            scored_at=at,
            verified=verdict.verified,
            waiting=None,
            outcome=attempt_rows.to_outcome(score, details, level, origin),
        )
        if new is None:
            self._stop_waiting(found)
            self._statements.run(_SCORE, state, at, verdict.verified, level, key)
            self._statements.run(_VERDICT, json_text(verdict.evaluation), details, key)
        else:
            self._insert(attempt_rows.make_stored(kept, key, found.version_id, attempt))
            self._insert_details(found, new, json_text(verdict.evaluation), details)
        note: dict[str, Any] = {"score": outcome.score}
        if outcome.error is not None:
            note = {"error": outcome.error}
        if verdict.evaluation.reason is not None:
            note[HIDDEN] = make_storable(verdict.evaluation.reason)
        self._write(found, at, state, before.state, state, by_system=True, note=note)
        if kept.challenge.scoring.plugin is not None and plugin_quarantine.is_deadly(outcome):
            self._write_log()
            plugin_quarantine.count_deadly(self._connection, kept, before.agent, outcome, at)
        self._statements.run(_INSERT_SCORE, *attempt_rows.take_score(score))
        self._history.append((*(score[name] for name in _HISTORY[:-1]), at))
        if before.voided_at is None:
            boards.update_place(self._statements, kept, before.agent, score)
        if rated is not None:
            rated.write(self._statements)
        return attempt

    def _find_scoring(self, kept: StoredChallenge, origin: str | None, at: float) -> int:
        """Row of the rule by which attempts are scored: the newest one if it has not changed."""
        known = self._scorings
        if kept.id not in known or known[kept.id][1] != origin:
            row = (kept.tenant, kept.id, at, "finish", origin)
            same = (kept.id, "finish", origin)
            rows = self._statements.read(_ADD_SCORING, *row, *same)
            rows = rows or self._statements.read(_SCORING, kept.id)
            known[kept.id] = (int(rows[0][0]), origin)
        return known[kept.id][0]

    def _rate(
        self,
        found: StoredAttempt,
        result: str | None,
        match_at: float,
        *,
        first: bool,
        verified: bool = False,
    ) -> matches.RatedAgent:
        """Rate the agent after an attempt; it is written after the attempt is stored as ended."""
        attempt = found.attempt
        ended = EndedAttempt(
            found.tenant,
            attempt.agent,
            found.challenge_id,
            attempt.challenge,
            found.version_id,
            found.key,
            match_at,
            result,
            verified,
            attempt.memoryless,
            first,
        )
        terms = self._find_entered_version(found.version_id).terms
        self._lock_rating(ended[:2])
        return matches.rate_ended(self._statements, ended, terms)

    def _is_first(self, found: StoredAttempt) -> bool:
        """Return whether a stored attempt is its agent's first non-void one at the challenge."""
        number, agent = found.attempt.number, found.attempt.agent
        if number == 1:
            return True
        entrant = attempt_entry.read_entrant(self._statements, found.challenge_id, agent)
        return entrant.first_number == number

    def _lock_rating(self, agent: tuple[str, str]) -> None:
        """Lock an agent's rating, so that it follows from all ratings before."""
        if self._statements.is_postgres and agent not in self._rated:
            matches.lock_ratings(self._statements, [agent])
            self._rated.add(agent)

    def _stop_waiting(self, found: StoredAttempt) -> None:
        if found.attempt.waiting is not None:
            self._statements.run("DELETE FROM attempt_waits WHERE attempt = ?", found.key)

    # The log

    def _write(  # noqa: PLR0913 (the columns of an entry)
        self,
        found: StoredAttempt,
        at: float,
        event: str,
        before: str | None,
        after: str | None,
        *,
        actor: Actor | None = None,
        by_system: bool = False,
        note: dict[str, Any] | None = None,
    ) -> None:
        """Log a change of an attempt by its agent, by the caller for it, or by the system."""
        who, address = found.attempt.agent, None
        if by_system:
            who = SYSTEM
        elif actor is not None:
            who, address = audit_log.name_place(actor)
        said = None if note is None else json_text(note)
        entry = (found.tenant, found.challenge_id, found.key, at, who, event, before, after)
        self._log.append((*entry, said, address))

    def _write_log(self) -> None:
        """Store the entries: at the end, and before other code writes entries of its own."""
        audit_log.write_rows(self._statements, self._log)
        self._log = []


def _is_late(found: StoredAttempt, at: float) -> bool:
    return found.attempt.state == "entered" and at > found.attempt.expires_at
