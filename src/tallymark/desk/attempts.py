"""What commands ask about attempts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from tallymark.challenges.agent_names import check_handle
from tallymark.challenges.attempt import Attempt, Metrics, read_public
from tallymark.challenges.challenge import PublicChallenge, Submission
from tallymark.challenges.kept_submission import KeptSubmission
from tallymark.desk.judging import JudgedHere, refuse_judged_here
from tallymark.errors import NotAllowed, NotFound, WorkFailed
from tallymark.store.contests.audit_log import AuditEntry

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.client.exchange import CallOptions
    from tallymark.service.app import App
    from tallymark.store.contests.score_rows import ScoreEntry
    from tallymark.wire.attempts import AttemptState


class EnteredAttempt(NamedTuple):
    """An open attempt, and what its competitor works with."""

    attempt: Attempt
    challenge: PublicChallenge
    data: Mapping[str, Any]


class SentAnswer(NamedTuple):
    """What a competitor hands in."""

    answer: Any
    metadata: dict[str, Any] | None = None
    trajectory: str | None = None


class AgentPlace(NamedTuple):
    """Where an agent stands after an attempt."""

    rank: int | None
    size: int
    elo: int
    matches: int
    provisional: bool


class ShownAttempt(NamedTuple):
    """An attempt with all that bears its score out."""

    attempt: Attempt
    audit: list[AuditEntry]
    history: list[ScoreEntry]
    reason: str | None
    """Why an evaluation failed, in words that may hold the truth: for organisers."""
    explanation: str | None
    """The formula with its values, where one made the score."""


class AttemptDesk(Protocol):
    """Attempts: entered, submitted, reported, looked at, made void."""

    def enter(
        self, challenge: str, agent: str, *, memoryless: bool, key: str | None
    ) -> EnteredAttempt:
        """Starts the clock, or gives the open attempt back."""

    def make_token(self, attempt: str, agent: str) -> str:
        """What makes spans the witnessed trajectory of an open attempt."""

    def find_form(self, attempt: str, agent: str) -> Submission:
        """In which form, and how large, an answer is taken."""

    def submit(
        self, attempt: str, agent: str, sent: SentAnswer, *, key: str | None, how: JudgedHere
    ) -> Attempt:
        """Hands an answer in, once."""

    def withdraw(self, attempt: str, agent: str, reason: str | None) -> Attempt:
        """Gives up."""

    def report(
        self, challenge: str, agent: str, metrics: Metrics, *, key: str | None, how: JudgedHere
    ) -> Attempt:
        """What a trusted system saw."""

    def find_place(self, attempt: Attempt) -> AgentPlace:
        """Where its agent stands now."""

    def list(self, challenge: str, *, agent: str | None, limit: int, live: bool) -> list[Attempt]:
        """Newest first."""

    def show(self, attempt: str, *, live: bool, organiser: bool) -> ShownAttempt:
        """One with everything; for an `organiser`, also what may hold the truth."""

    def read_submission(self, attempt: str) -> KeptSubmission:
        """What was submitted, for its agent and for organisers."""

    def void(self, attempt: str, reason: str) -> Attempt:
        """Lets it count no more."""

    def unvoid(self, attempt: str, reason: str) -> Attempt:
        """Lets it count again."""


@dataclass(frozen=True)
class LocalAttempts:
    """Attempts in a database."""

    app: App

    def enter(
        self, challenge: str, agent: str, *, memoryless: bool, key: str | None
    ) -> EnteredAttempt:
        """Starts the clock, or gives the open attempt back."""
        with JudgedHere().open(self.app) as competition:
            entry = competition.enter(challenge, agent, memoryless=memoryless, key=key)
        return EnteredAttempt(entry.attempt, entry.challenge, entry.data)

    def make_token(self, attempt: str, agent: str) -> str:
        """What makes spans the witnessed trajectory of an open attempt."""
        store = self.app.store
        return store.witness.make_token(store.attempts.find(attempt, agent).attempt.id)

    def find_form(self, attempt: str, agent: str) -> Submission:
        """In which form, and how large, an answer is taken."""
        with JudgedHere().open(self.app) as competition:
            found = self.app.store.attempts.find(attempt, agent).attempt
            return competition.rulings.find_version(found).submission

    def submit(
        self, attempt: str, agent: str, sent: SentAnswer, *, key: str | None, how: JudgedHere
    ) -> Attempt:
        """Hands an answer in, and scores it."""
        said: Any = {"metadata": sent.metadata, "trajectory": sent.trajectory, "key": key}
        with how.open(self.app) as competition:
            return competition.submit(attempt, agent, sent.answer, **said)

    def withdraw(self, attempt: str, agent: str, reason: str | None) -> Attempt:
        """Gives up."""
        return self.app.store.attempts.withdraw(attempt, agent, time.time(), reason=reason)

    def report(
        self, challenge: str, agent: str, metrics: Metrics, *, key: str | None, how: JudgedHere
    ) -> Attempt:
        """What a trusted system saw, scored."""
        with how.open(self.app) as competition:
            return competition.report(challenge, agent, metrics, key=key)

    def find_place(self, attempt: Attempt) -> AgentPlace:
        """Where its agent stands now."""
        store, agent = self.app.store, attempt.agent
        standing, rating = (
            store.boards.standing(attempt.challenge, agent),
            store.ratings.current(agent, time.time()),
        )
        return AgentPlace(
            rank=standing.rank if standing else None,
            size=store.boards.size(attempt.challenge),
            elo=rating.elo.rating,
            matches=rating.elo.matches,
            provisional=rating.provisional,
        )

    def list(self, challenge: str, *, agent: str | None, limit: int, live: bool) -> list[Attempt]:
        """Newest first."""
        attempts = self.app.store.attempts
        return attempts.of(challenge, agent=agent, limit=limit, public=not live)

    def show(self, attempt: str, *, live: bool, organiser: bool) -> ShownAttempt:
        """One with everything."""
        from tallymark.challenges.attempt_formula import explain_score  # noqa: PLC0415 (formulas)

        store, public = self.app.store, not live
        found = store.attempts.get(attempt, public=public)
        evaluation = store.attempts.evaluation(attempt) if organiser else None
        return ShownAttempt(
            attempt=found,
            audit=_tell_audit(store.attempts.audit(attempt, public=public), organiser),
            history=store.attempts.history(attempt, public=public),
            reason=None if evaluation is None else evaluation.reason,
            explanation=explain_score(store.challenges.get(found.challenge), found),
        )

    def read_submission(self, attempt: str) -> KeptSubmission:
        """What was submitted."""
        with JudgedHere().open(self.app) as competition:
            return competition.read_submission(attempt)

    def void(self, attempt: str, reason: str) -> Attempt:
        """Lets it count no more."""
        self.app.store.require()
        return self.app.store.attempts.void(attempt, at=time.time(), reason=reason)

    def unvoid(self, attempt: str, reason: str) -> Attempt:
        """Lets it count again."""
        self.app.store.require()
        return self.app.store.attempts.unvoid(attempt, at=time.time(), reason=reason)


@dataclass(frozen=True)
class RemoteAttempts:
    """Attempts at a server."""

    client: Client

    def enter(
        self, challenge: str, agent: str, *, memoryless: bool, key: str | None
    ) -> EnteredAttempt:
        """Starts the clock, or gives the open attempt back."""
        entered = self.client.challenges.enter(
            challenge, agent=_check(agent), memoryless=memoryless, **_name_once(key)
        )
        known = self.client.challenges.get(challenge)
        return EnteredAttempt(read_attempt(entered.attempt), known, entered.data)

    def make_token(self, attempt: str, agent: str) -> str:
        """What makes spans the witnessed trajectory of an open attempt."""
        return self.client.attempts.token(attempt, agent=_check(agent))

    def find_form(self, attempt: str, agent: str) -> Submission:
        """In which form, and how large, an answer is taken."""
        told = self.client.attempts.form(attempt, agent=_check(agent))
        return msgspec.convert(told.submission, Submission)

    def submit(
        self, attempt: str, agent: str, sent: SentAnswer, *, key: str | None, how: JudgedHere
    ) -> Attempt:
        """Hands an answer in; one that is not scored at once is looked at until it is."""
        refuse_judged_here(how)
        done = self.client.attempts.submit(
            attempt,
            sent.answer,
            metadata=sent.metadata,
            trajectory=sent.trajectory,
            agent=agent,
            **_name_once(key),
        )
        while done.job is not None and self._is_under_way(done.job):
            time.sleep(0.5)
        return read_attempt(done.attempt if done.job is None else self.client.attempts.get(attempt))

    def _is_under_way(self, job: str) -> bool:
        try:
            return self.client.jobs.get(job).state in ("queued", "running")
        except NotFound:  # done, and removed since
            return False

    def withdraw(self, attempt: str, agent: str, reason: str | None) -> Attempt:
        """Gives up."""
        done = self.client.attempts.withdraw(attempt, agent=_check(agent), reason=reason)
        return read_attempt(done)

    def report(
        self, challenge: str, agent: str, metrics: Metrics, *, key: str | None, how: JudgedHere
    ) -> Attempt:
        """What a trusted system saw, scored."""
        refuse_judged_here(how)
        told: dict[str, Any] = msgspec.to_builtins(metrics)
        told |= told.pop("more", {})
        done = self.client.challenges.report(challenge, _check(agent), told, **_name_once(key))
        return read_attempt(done.attempt)

    def find_place(self, attempt: Attempt) -> AgentPlace:
        """Where its agent stands now, as the public sees it."""
        board = self.client.challenges.board(
            attempt.challenge, around=attempt.agent, each=1, live=False
        )
        mine = [each.rank for each in board.items if each.agent == attempt.agent]
        elo = self.client.agents.get(attempt.agent, live=False).elo
        if elo is None:
            raise WorkFailed(f"the server does not tell how {attempt.agent} is rated")
        return AgentPlace(
            rank=mine[0] if mine else None,
            size=board.agents,
            elo=elo.rating,
            matches=elo.matches,
            provisional=elo.provisional,
        )

    def list(self, challenge: str, *, agent: str | None, limit: int, live: bool) -> list[Attempt]:
        """Newest first."""
        found = self.client.challenges.list_attempts(challenge, agent=agent, limit=limit, live=live)
        return [read_attempt(each) for each in found]

    def show(self, attempt: str, *, live: bool, organiser: bool) -> ShownAttempt:
        """One with everything that the key may see."""
        told = self.client.attempts.get(attempt, live=live)
        if organiser and "reason" not in told.model_fields_set:
            hint = "leave --organiser out"
            raise NotAllowed("what may hold the truth is for organisers", hint=hint)
        from tallymark.store.contests.score_rows import ScoreEntry  # noqa: PLC0415 (formulas)

        audit = msgspec.convert(told.audit, list[AuditEntry])
        return ShownAttempt(
            attempt=read_attempt(told),
            audit=_tell_audit(audit, organiser),
            history=msgspec.convert(told.history, list[ScoreEntry]),
            reason=told.reason if organiser else None,
            explanation=told.explanation,
        )

    def read_submission(self, attempt: str) -> KeptSubmission:
        """What was submitted, where the key may read it."""
        told = self.client.attempts.submission(attempt)
        return msgspec.convert(told.model_dump(), KeptSubmission)

    def void(self, attempt: str, reason: str) -> Attempt:
        """Lets it count no more."""
        return read_attempt(self.client.attempts.void(attempt, reason=reason))

    def unvoid(self, attempt: str, reason: str) -> Attempt:
        """Lets it count again."""
        return read_attempt(self.client.attempts.unvoid(attempt, reason=reason))


def _tell_audit(audit: list[AuditEntry], organiser: bool) -> list[AuditEntry]:
    return audit if organiser else [each.without_hidden() for each in audit]


def _check(agent: str) -> str:
    """A handle; what is none is refused here as it would be there."""
    check_handle(agent)
    return agent


def _name_once(key: str | None) -> CallOptions:
    return {} if key is None else {"idempotency_key": key}


def read_attempt(told: AttemptState) -> Attempt:
    """An attempt that a server told of."""
    document = told.model_dump(exclude_unset=True)
    for more in ("audit", "history", "reason", "explanation", "rank", "best", "above"):
        document.pop(more, None)
    return read_public(document)
