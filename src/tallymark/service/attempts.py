"""Attempts: records and operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tallymark.challenges.attempt import Attempt, Payload, State, TrajectoryLevel
from tallymark.challenges.challenge import PublicChallenge, Submission
from tallymark.challenges.kept_submission import KeptSubmission
from tallymark.errors import Conflict, NotFound
from tallymark.scoring import Origin
from tallymark.service import visibility
from tallymark.service.callers import COMPETITORS, ORGANISERS, PUBLIC
from tallymark.service.cursors import Cursor, Limit, read_cursor, refuse_cursor, write_cursor
from tallymark.service.next_rank import Above, find_place
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.submissions import (
    Finding,
    RatingChange,
    TakenSubmission,
    await_score,
    check_answer,
    find_most_bytes,
    find_own_attempt,
    find_rating_change,
    submit_answer,
)
from tallymark.service.visibility import (
    Live,
    find_visible,
    is_public,
    sees_live,
    speak_for,
    view_attempt,
)
from tallymark.service.witnessed_trajectory import read_witnessed
from tallymark.store.contests.attempt_rows import (
    ScoreEntry,
    attempt_key,
    explain_foreign_attempt,
    explain_unknown_attempt,
)
from tallymark.store.contests.attempt_rows import (
    StoredAttempt as StoredAttempt,  # noqa: PLC0414 (doors pass it on)
)
from tallymark.store.contests.audit_log import AuditEntry
from tallymark.store.dry_run import is_dry_run

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.ratings import EloChange, Match
    from tallymark.service.next_rank import Place
    from tallymark.service.visibility import AttemptView

Name = Annotated[str, Meta(min_length=1, max_length=200)]
AttemptId = Annotated[str, Meta(max_length=100, examples=["a000000000042"])]
Handle = Annotated[
    str,
    Meta(
        description="An agent's handle. An agent's key speaks for its agent.",
        # A wrong one is refused in words: see `check_handle`.
        extra_json_schema={"pattern": r"^[a-z0-9._-]{2,40}$"},
    ),
]
Reason = Annotated[str, Meta(max_length=2000, description="Reason, stored in the log.")]
Answer = Annotated[Any, Meta(description="A JSON value, a text, or names with texts of files.")]
Claims = Annotated[
    dict[str, Any],
    Meta(description="Metadata given by the competitor.", examples=[{"tokens_total": 1200}]),
]
Trajectory = Annotated[Any, Meta(description="What the agent did: a trace, as JSON or its text.")]
_OF_ATTEMPT = (
    *("id", "challenge", "version", "agent", "number", "state", "entered_at", "expires_at"),
    *("submitted_at", "scored_at", "verified", "memoryless", "waiting", "voided_at"),
)
_OF_OUTCOME = (*("score", "result", "ranks", "dimensions", "trajectory_level", "error", "origin"),)


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt; the fields of the dimension document stand at its top."""

    id: AttemptId
    challenge: str
    version: str
    agent: str
    number: Annotated[int, Meta(description="1 for its agent's first at this challenge.")]
    state: State
    entered_at: float
    expires_at: float
    submitted_at: float | None
    scored_at: float | None
    verified: bool
    memoryless: bool
    waiting: Annotated[str | None, Meta(description="Why it is not scored yet, where we failed.")]
    voided_at: float | None
    score: float | None = None
    result: Literal["win", "draw", "loss"] | None = None
    seed: Annotated[int | None, Meta(description="Shown with the outcome, never before.")] = None
    ranks: bool = False
    metrics: dict[str, Any] = {}
    dimensions: dict[str, float] = {}
    trajectory_level: TrajectoryLevel | None = None
    error: Annotated[str | None, Meta(description="Why it could not be scored.")] = None
    origin: Annotated[Origin | None, Meta(description="Which rule made the score.")] = None
    score_breakdown: dict[str, Any] | None = None
    submission_warnings: list[dict[str, Any]] = []
    constraint_violations: list[str] = []
    harness_warning: str | None = None
    unverified: Annotated[
        list[str], Meta(description="Why its trajectory is not believed further.")
    ] = []
    unranked: Annotated[str | None, Meta(description="Why it is not on the board.")] = None
    evaluation: dict[str, Any] = {}
    dimension_score: Annotated[float | None, Meta(description="Of the dimensions alone.")] = None
    constraint_effect: Literal["zero", "fail"] | None = None
    scorer: Annotated[
        dict[str, Any],
        Meta(description="Details that a plugin or a formula returned with the score."),
    ] = {}
    sandbox: Annotated[
        dict[str, Any], Meta(description="Behind which walls code ran, within which limits.")
    ] = {}
    warning: Annotated[str | None, Meta(description="Where code ran without a sandbox.")] = None


DETAILS = frozenset(AttemptRecord.__struct_fields__) - {
    *_OF_ATTEMPT,
    *_OF_OUTCOME,
    *("seed", "metrics"),
}


class AttemptDetails(AttemptRecord, frozen=True, kw_only=True):
    """An attempt with all that bears its score out."""

    audit: Annotated[list[AuditEntry], Meta(description="What happened to it.")]
    history: Annotated[list[ScoreEntry], Meta(description="Scores it has had.")]
    explanation: Annotated[str | None, Meta(description="The formula with its values.")]
    rank: Annotated[int | None, Meta(description="The place of its agent on the board.")]
    best: Annotated[str | None, Meta(description="The agent's attempt on the board.")]
    above: Annotated[Above | None, Meta(description="For an agent's best attempt alone.")]
    reason: Annotated[
        str | UnsetType | None,
        Meta(description="Why it could not be evaluated; shown only to organisers."),
    ] = UNSET


class EnteredAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An open attempt, and the files that its competitor works with."""

    attempt: AttemptRecord
    goal: str
    data: Annotated[dict[str, Any], Meta(description="Texts or JSON values by the names of files.")]
    challenge: Annotated[
        PublicChallenge,
        Meta(description="In the version that is attempted: form of an answer, limits, scoring."),
    ]
    seconds_left: Annotated[float, Meta(description="By the server's clock.")]
    token: Annotated[
        str | None,
        Meta(
            description="Yours alone: spans with the attribute `tally.attempt` of this value, sent"
            " to /v1/traces while the attempt is open, are its witnessed trajectory."
        ),
    ]


class AttemptToken(msgspec.Struct, frozen=True, kw_only=True):
    """Token that makes spans the witnessed trajectory of an open attempt."""

    token: str


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True):
    """In which form, and how large, the answer of an attempt is taken."""

    submission: Submission


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Findings on an answer without judging it."""

    acceptable: Annotated[bool, Meta(description="Whether it would be taken.")]
    findings: list[Finding]
    seconds_left: Annotated[float, Meta(description="By the server's clock.")]


class SubmittedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a submission: the document's fields at the top, next to the attempt."""

    attempt: AttemptRecord
    score: float | None
    score_breakdown: dict[str, Any] | None
    result: Literal["win", "draw", "loss"] | None
    submission_warnings: list[dict[str, Any]]
    constraint_violations: list[str]
    harness_warning: str | None
    rating: RatingChange | None = None
    rank: Annotated[int | None, Meta(description="The place of its agent on the board.")] = None
    best: Annotated[str | None, Meta(description="The agent's attempt on the board.")] = None
    above: Annotated[Above | None, Meta(description="For an agent's best attempt alone.")] = None
    job: Annotated[str | None, Meta(description="Where to look while it is being scored.")] = None


class AttemptStanding(NamedTuple):
    """Rank of the agent after an attempt, as far as the caller may see it."""

    challenge: Challenge
    is_frozen: bool
    """True if the visible board is frozen."""
    place: Place
    agents: int
    """Agents on the board."""
    hides_rating: bool
    change: tuple[Match, EloChange] | None


class Attempts(Resource):
    """Attempts: entered, submitted, looked at, withdrawn, made void."""

    _known: StoredAttempt | None = None
    """Attempt read to bound this request's body; a resource serves one request."""

    @operation(
        "POST /challenges/{challenge}/attempts",
        COMPETITORS,
        rate="write",
        status=201,
        secret="token",  # noqa: S106 (the name of a field)
    )
    def enter(
        self,
        challenge: Name,
        agent: Handle | None = None,
        memoryless: Annotated[
            bool, Meta(description="The agent remembers nothing of earlier attempts.")
        ] = False,
        attempt: Annotated[
            AttemptId, Meta(description="Only this open attempt, once more: none is begun.")
        ]
        | None = None,
        idempotency_key: str | None = None,
    ) -> EnteredAttempt:
        """Enter a challenge: the clock starts, and its goal and data are yours.

        An agent has one open attempt at a challenge; entering again gives it back.
        """
        competition, handle = self.services.competition, speak_for(self.caller, agent)
        if is_dry_run():
            tried = competition.check_entry(challenge, handle)
            return self._describe_entry(tried.attempt, tried.challenge, {}, None)
        if attempt is not None:
            entry = competition.open_entry(attempt, handle)
            if entry.challenge.name != challenge:
                raise NotFound(f"there is no attempt {attempt!r} at {challenge}")
        else:
            entry = competition.enter(challenge, handle, memoryless=memoryless, key=idempotency_key)
        token = self.store.witness.make_token(entry.attempt.id)
        return self._describe_entry(entry.attempt, entry.challenge, dict(entry.data), token)

    @operation("GET /challenges/{challenge}/attempts", PUBLIC)
    def list(
        self,
        challenge: Name,
        agent: Annotated[str, Meta(max_length=40)] | None = None,
        state: State | None = None,
        live: Live = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[AttemptRecord]:
        """List attempts at a challenge, newest first; others' as the public sees them."""
        find_visible(self.services, self.caller, challenge)
        place = read_cursor(cursor, str)
        if place is not None and attempt_key(place[0]) is None:
            raise refuse_cursor()
        found = visibility.list_attempts(
            self.services,
            self.caller,
            challenge,
            live=live,
            agent=agent,
            state=state,
            limit=limit + 1,
            before=None if place is None else place[0],
        )
        more = write_cursor(found[limit - 1].id) if len(found) > limit else None
        return Page(items=[describe_attempt(each) for each in found[:limit]], next=more)

    @operation("GET /attempts/{attempt}", PUBLIC, noun="attempt", etag=True)
    def get(self, attempt: AttemptId, live: Live = None) -> AttemptDetails:
        """Get an attempt: how its score came about, and all that happened to it."""
        return self.describe(view_attempt(self.services, self.caller, attempt, live))

    @operation("GET /attempts/{attempt}/token", COMPETITORS, secret="token")  # noqa: S106
    def token(self, attempt: AttemptId, agent: Handle | None = None) -> AttemptToken:
        """Get what makes spans the witnessed trajectory of an open attempt."""
        found = self._find_own(attempt, agent).attempt
        return AttemptToken(token=self.store.witness.make_token(found.id))

    @operation("GET /attempts/{attempt}/form", COMPETITORS)
    def form(self, attempt: AttemptId, agent: Handle | None = None) -> AnswerForm:
        """Get the form of an answer: of the version that was entered."""
        found = self._find_own(attempt, agent).attempt
        form = self.services.competition.challenge_cache.find_version(found).submission
        return AnswerForm(submission=form)

    def _find_most_bytes(self, attempt: str) -> int:
        self._known = self._find_own(attempt, None)
        version = self.services.competition.challenge_cache.find_version(self._known.attempt)
        return find_most_bytes(version.submission)

    @operation(
        "POST /attempts/{attempt}/submission",
        COMPETITORS,
        rate="write",
        status=lambda done: 202 if done.attempt.state == "submitted" else 200,
        query=("wait",),
        find_max_bytes=_find_most_bytes,
    )
    async def submit(  # noqa: PLR0913, PLR0917 (an answer, and what comes with it)
        self,
        attempt: AttemptId,
        answer: Answer,
        metadata: Claims = {},  # noqa: B006 (nothing changes it)
        trajectory: Trajectory = None,
        agent: Handle | None = None,
        wait: Annotated[
            bool, Meta(description="False: do not wait up to 30 s for a score that takes long.")
        ] = True,
        idempotency_key: str | None = None,
    ) -> SubmittedAttempt:
        """Submit an answer, once, before the time is up, and see its score.

        A score that takes long comes later: 202, and a job to look at.
        """
        services, caller = self.services, self.caller
        sent = make_payload(answer, metadata, trajectory)

        def take() -> TakenSubmission | SubmittedAttempt:
            known = self._find_named(attempt, agent)
            if is_dry_run():
                seen = read_witnessed(services.store, attempt)
                taken = services.competition.take_submission(known, sent, seen)
                return describe_scored(taken.attempt)
            done = submit_answer(services, caller, known, sent, key=idempotency_key)
            return self._describe_taken(done) if done.job is None else done

        done = await services.run_in_thread(caller, take)
        if isinstance(done, SubmittedAttempt):
            return done
        if wait:
            done = await await_score(services, caller, done)
        return await services.run_in_thread(caller, self._describe_taken, done, patient=True)

    @operation(
        "POST /attempts/{attempt}/check",
        COMPETITORS,
        rate="write",
        find_max_bytes=_find_most_bytes,
        reads=True,
    )
    def check(
        self,
        attempt: AttemptId,
        answer: Answer,
        metadata: Claims = {},  # noqa: B006 (nothing changes it)
        trajectory: Trajectory = None,
        agent: Handle | None = None,
    ) -> CheckedAnswer:
        """Check an answer as often as you like, without submitting it: what would be refused, what
        would cost points, and how far the trajectory would be believed.
        """
        known = self._find_named(attempt, agent)
        if known.attempt.state != "entered":
            raise Conflict(
                f"the attempt {attempt} is {known.attempt.state}: it takes no answer any more",
                hint="enter again for another attempt",
            )
        return self.check_payload(known, make_payload(answer, metadata, trajectory))

    def check_payload(self, known: StoredAttempt, sent: Payload) -> CheckedAnswer:
        """Check what is sent with an attempt."""
        found = check_answer(self.services, known, sent, self.now)
        return CheckedAnswer(
            acceptable=not any(each.severity == "error" for each in found),
            findings=found,
            seconds_left=max(0.0, known.attempt.expires_at - self.now),
        )

    @operation("GET /attempts/{attempt}/submission", COMPETITORS, noun="submission")
    def submission(self, attempt: AttemptId) -> KeptSubmission:
        """Get what was submitted: for the agent that sent it and for organisers."""
        return visibility.find_submission(self.services, self.caller, attempt)

    @operation("POST /attempts/{attempt}/withdraw", COMPETITORS, rate="write", noun="attempt")
    def withdraw(
        self, attempt: AttemptId, agent: Handle | None = None, reason: Reason | None = None
    ) -> AttemptRecord:
        """Give up an open attempt, which is a loss; another can then be entered."""
        found = self._find_own(attempt, agent).attempt
        done = self.store.attempts.withdraw(found.id, found.agent, self.now, reason=reason)
        return describe_attempt(done)

    @operation("POST /attempts/{attempt}/void", ORGANISERS, rate="write", noun="attempt")
    def void(self, attempt: AttemptId, reason: Reason) -> AttemptRecord:
        """Void an attempt in boards, ratings and quotas."""
        return describe_attempt(self.store.attempts.void(attempt, at=self.now, reason=reason))

    @operation("POST /attempts/{attempt}/unvoid", ORGANISERS, rate="write", noun="attempt")
    def unvoid(self, attempt: AttemptId, reason: Reason) -> AttemptRecord:
        """Let a void attempt count as if it had never been void."""
        return describe_attempt(self.store.attempts.unvoid(attempt, at=self.now, reason=reason))

    def list_own(self, agent: str, limit: int) -> Sequence[AttemptRecord]:
        """List an agent's own attempts at all challenges, newest first."""
        handle = speak_for(self.caller, agent)
        found = self.store.contest_stats.newest_attempts(agent=handle, limit=limit, as_frozen=False)
        return [describe_attempt(each) for each in found]

    def list_open(self, agent: str) -> Sequence[AttemptRecord]:
        """List an agent's open attempts."""
        handle = speak_for(self.caller, agent)
        return [
            describe_attempt(each) for each in self.store.contest_stats.open_attempts_of(handle)
        ]

    def list_newest(
        self, challenges: Collection[str], limit: int, live: bool | None = None
    ) -> Sequence[AttemptRecord]:
        """List the newest attempts at any of these challenges, without words on answers."""
        found = self.store.contest_stats.newest_attempts(
            limit=limit,
            as_frozen=is_public(self.caller, live),
            at=challenges,
            open_of=visibility.find_open_of(self.caller),
        )
        return [describe_attempt(visibility.withhold_words(each)) for each in found]

    def view(self, attempt: str, live: bool | None = None) -> AttemptView:
        """Decide how much of an attempt the caller may see."""
        if not self.store.exists:
            raise explain_unknown_attempt(attempt)
        return view_attempt(self.services, self.caller, attempt, live)

    def find_standing(self, view: AttemptView) -> AttemptStanding:
        """Find the place of an attempt's agent, and what the attempt did to its rating."""
        store, attempt = self.store, view.attempt
        stored = store.challenges.find(attempt.challenge)
        only = visibility.name_visible(self.services, self.caller)
        # A rating before and after would reveal what a frozen board hides.
        hides_rating = view.public and any(
            only is None or each in only for each in store.challenges.frozen(self.now)
        )
        return AttemptStanding(
            challenge=stored.challenge,
            is_frozen=view.public and stored.is_frozen(self.now),
            place=find_place(store, stored.challenge, attempt, public=view.public),
            agents=store.boards.size(attempt.challenge, as_frozen=view.public),
            hides_rating=hides_rating,
            change=None if hides_rating else store.contest_stats.change_by(attempt, only),
        )

    def find_own(self, attempt: str) -> StoredAttempt:
        """Find an attempt of the agent that the caller acts for."""
        if not self.store.exists:
            raise explain_unknown_attempt(attempt)
        return self._find_own(attempt, None)

    def settle(self) -> Sequence[AttemptRecord]:
        """Score what was submitted but not scored, and end what ran out of time."""
        return [describe_attempt(each) for each in self.services.competition.settle()]

    def describe(self, view: AttemptView, place: Place | None = None) -> AttemptDetails:
        """Make the record of an attempt as the caller sees it."""
        from tallymark.challenges.attempt_formula import explain_score  # noqa: PLC0415 (formulas)

        attempt, store = view.attempt, self.store
        challenge = store.challenges.get(attempt.challenge)
        place = place or find_place(store, challenge, attempt, public=view.public)
        reason: str | UnsetType | None = UNSET
        if self.is_organiser:
            evaluation = store.attempts.evaluation(attempt.id)
            reason = None if evaluation is None else evaluation.reason
        return AttemptDetails(
            **_list_fields(attempt),
            audit=view.audit,
            history=view.history,
            explanation=explain_score(challenge, attempt),
            rank=place.rank,
            best=place.best,
            above=place.above,
            reason=reason,
        )

    def _find_own(self, attempt: str, agent: str | None) -> StoredAttempt:
        return find_own_attempt(self.services, self.caller, attempt, agent)

    def _find_named(self, attempt: str, agent: str | None) -> StoredAttempt:
        """An own attempt, which must be of the agent that is named."""
        known = self._known or self._find_own(attempt, None)
        if agent is not None and speak_for(self.caller, agent) != known.attempt.agent:
            raise explain_foreign_attempt(attempt, agent)
        return known

    def _describe_entry(
        self, attempt: Attempt, challenge: Challenge, data: dict[str, Any], token: str | None
    ) -> EnteredAttempt:
        return EnteredAttempt(
            attempt=describe_attempt(attempt),
            goal=challenge.goal,
            data=data,
            challenge=PublicChallenge(**challenge.find_terms()),
            seconds_left=max(0.0, attempt.expires_at - self.now),
            token=token,
        )

    def _describe_taken(self, done: TakenSubmission) -> SubmittedAttempt:
        attempt, store = done.attempt, self.store
        is_scored = attempt.state != "submitted"
        with store.read():
            challenge = done.challenge or store.challenges.get(attempt.challenge)
            place = find_place(store, challenge, attempt, public=not sees_live(self.caller))
            change = find_rating_change(self.services, done, self.now) if is_scored else None
        return msgspec.structs.replace(
            describe_scored(attempt),
            rating=change,
            rank=place.rank,
            best=place.best,
            above=place.above,
            job=None if is_scored or done.job is None else done.job.id,
        )


def make_payload(answer: Any, metadata: dict[str, Any], trajectory: Any) -> Payload:
    """Metadata and trajectory to store with a submission; the trajectory as text."""
    if trajectory is not None and not isinstance(trajectory, str):
        trajectory = msgspec.json.encode(trajectory).decode()
    return Payload(submission=answer, metadata=metadata, trajectory=trajectory)


def describe_attempt(attempt: Attempt) -> AttemptRecord:
    """Make the record of an attempt."""
    return AttemptRecord(**_list_fields(attempt))


def describe_scored(attempt: Attempt) -> SubmittedAttempt:
    """The response to a submission or report, without the agent's rank."""
    told = describe_attempt(attempt)
    return SubmittedAttempt(
        attempt=told,
        score=told.score,
        score_breakdown=told.score_breakdown,
        result=told.result,
        submission_warnings=told.submission_warnings,
        constraint_violations=told.constraint_violations,
        harness_warning=told.harness_warning,
    )


def _list_fields(attempt: Attempt) -> dict[str, Any]:
    """The fields of the record. With a known generator the seed is the truth."""
    fields = {name: getattr(attempt, name) for name in _OF_ATTEMPT}
    outcome = attempt.outcome
    if outcome is None:
        return fields
    fields |= {name: getattr(outcome, name) for name in _OF_OUTCOME}
    fields |= {name: value for name, value in outcome.details.items() if name in DETAILS}
    metrics = outcome.metrics.to_dict()
    own: dict[str, Any] = metrics.pop("more", {})
    return fields | {"seed": attempt.seed, "metrics": metrics | own}
