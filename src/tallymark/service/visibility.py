"""Visibility of challenges, boards, attempts and agents, by caller."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from tallymark.challenges.attempt import Attempt
from tallymark.challenges.kept_submission import KeptSubmission
from tallymark.challenges.tracks import Track
from tallymark.errors import InvalidInput, NotAllowed, NotFound, Place
from tallymark.service.callers import KEY_ROLES, ORGANISERS, Caller
from tallymark.service.tenant import TenantServices
from tallymark.store.contests.attempt_rows import explain_unknown_attempt
from tallymark.store.contests.audit_log import OPERATOR, SYSTEM, AuditEntry
from tallymark.store.contests.challenges import StoredChallenge

if TYPE_CHECKING:
    from tallymark.store.contests.attempt_rows import ScoreEntry

Live = Annotated[
    bool | None,
    Meta(
        description="For organisers: true shows what came after a freeze too, false what the"
        " public sees."
    ),
]
_NUMBERS = frozenset(
    (
        *("score_breakdown", "dimension_score", "constraint_violations", "constraint_effect"),
        *("unranked", "sandbox"),
    )
)
"""Fields of a score without text about an answer or from it."""
WITHHELD = "the reason is shown when the challenge has closed"
_NAMELESS = frozenset({*KEY_ROLES, SYSTEM, OPERATOR})
"""Prefixes of actors that name a role, not a person."""


@dataclass(frozen=True, slots=True)
class ChallengeView:
    """A challenge that a caller may know of, and how much of it they may see."""

    stored: StoredChallenge
    at: float
    is_organiser: bool
    """Files, truth, scripts and the log are for organisers; so is what came after a freeze."""
    public: bool
    """True if the board is shown as the public sees it."""
    newest: tuple[int, int] = (0, 0)
    """The last log entries of the challenge and of its tenant: all that a board depends on."""

    @property
    def state(self) -> Hashable:
        """All that the board that is shown depends on."""
        return (*self.newest, self.stored.revision, self.stored.frozen_at, self.hides_live)

    @property
    def frozen(self) -> float | None:
        """Time since which the public board is frozen."""
        return self.stored.freezes_at if self.stored.is_frozen(self.at) else None

    @property
    def hides_live(self) -> bool:
        """True if the visible board is frozen."""
        return self.public and self.frozen is not None

    @property
    def shows_words(self) -> bool:
        """True if text about others' answers is shown: the challenge is over, nothing is frozen.

        See docs/decisions/0043.
        """
        return self.is_organiser or (
            "closed" in self.stored.describe_state(self.at) and self.frozen is None
        )


def view_challenge(
    services: TenantServices, caller: Caller | None, name: str, live: bool | None = None
) -> ChallengeView:
    """Decide how much of a challenge a caller may see; an unknown one is like a hidden one.

    Without `live`, organisers see the live board, and others what the public sees.
    """
    hidden = NotFound(f"there is no challenge {name!r}", hint="it may need a key")
    try:
        stored, seq, tenant_seq = services.store.challenges.find_newest(name)
    except NotFound:
        if is_known(caller):
            raise
        raise hidden from None  # a suggested name may be private
    if not is_known(caller) and stored.challenge.visibility != "public":
        raise hidden
    return ChallengeView(
        stored=stored,
        at=services.now,
        is_organiser=sees_live(caller),
        public=is_public(caller, live),
        newest=(seq, tenant_seq),
    )


def view_challenges(services: TenantServices, caller: Caller | None) -> list[ChallengeView]:
    """List all challenges that a caller may know of, by name."""
    at, is_organiser = services.now, sees_live(caller)
    return [
        ChallengeView(stored=each, at=at, is_organiser=is_organiser, public=not is_organiser)
        for each in services.store.challenges.all()
        if is_known(caller) or each.challenge.visibility == "public"
    ]


def is_known(caller: Caller | None) -> bool:
    """True if the caller has a key: without one, only public challenges exist."""
    return caller is None or caller.role != "anonymous"


def find_visible(services: TenantServices, caller: Caller | None, name: str) -> StoredChallenge:
    """Find a challenge that the caller may know of."""
    return view_challenge(services, caller, name).stored


def name_visible(services: TenantServices, caller: Caller | None) -> list[str] | None:
    """Name the challenges whose matches the caller may know of; None where that is all."""
    return None if is_known(caller) else services.store.challenges.public_names()


def find_visible_track(services: TenantServices, caller: Caller | None, name: str) -> Track:
    """Find a track all of whose challenges the caller may know of."""
    try:
        track = services.store.tracks.get(name)
        for each in track.challenges:
            view_challenge(services, caller, each)
    except NotFound:
        if is_known(caller):
            raise
        # A suggested or missing name may be private.
        raise NotFound(f"there is no track {name!r}", hint="it may need a key") from None
    return track


def list_visible_tracks(services: TenantServices, caller: Caller | None) -> list[Track]:
    """List all such tracks, by name."""
    known = {each.stored.challenge.name for each in view_challenges(services, caller)}
    return [each for each in services.store.tracks.all() if known.issuperset(each.challenges)]


def sees_live(caller: Caller | None) -> bool:
    """True if a frozen board is live for the caller."""
    return caller is None or caller.role in ORGANISERS


def is_public(caller: Caller | None, live: bool | None) -> bool:
    """True if the caller sees what the public sees: by role, unless they choose."""
    if live and not sees_live(caller):
        raise NotAllowed("what came after a freeze is for organisers", hint="leave `live` out")
    return not sees_live(caller) if live is None else not live


def sees_words(services: TenantServices, caller: Caller | None, attempt: Attempt) -> bool:
    """True if the caller may read text about an answer: see docs/decisions/0043."""
    if sees_live(caller) or is_own(caller, attempt):
        return True
    return view_challenge(services, caller, attempt.challenge).shows_words


def list_attempts(
    services: TenantServices,
    caller: Caller | None,
    challenge: str,
    *,
    live: bool | None,
    **chosen: Any,
) -> list[Attempt]:
    """Attempts at a challenge as the caller may see them; `chosen` are options of `attempts.of`.

    Open attempts are visible only to their agent and to organisers.
    """
    agent = None if caller is None else caller.agent
    own = agent is not None and chosen.get("agent") == agent
    public = is_public(caller, live) and not own
    open_of = find_open_of(caller)
    found = services.store.attempts.of(challenge, as_frozen=public, open_of=open_of, **chosen)
    if view_challenge(services, caller, challenge).shows_words:
        return found
    return [each if is_own(caller, each) else withhold_words(each) for each in found]


def find_open_of(caller: Caller | None) -> str | None:
    """The agent whose open attempts the caller may know of; None for those of all."""
    if caller is None or sees_live(caller):
        return None
    return caller.agent or ""


def withhold_words(attempt: Attempt) -> Attempt:
    """The numbers of an attempt alone."""
    outcome = attempt.outcome
    if outcome is None:
        return attempt
    kept = {name: value for name, value in outcome.details.items() if name in _NUMBERS}
    error = outcome.error and WITHHELD
    return msgspec.structs.replace(
        attempt, outcome=msgspec.structs.replace(outcome, details=kept, error=error)
    )


def withhold_errors(history: Sequence[ScoreEntry]) -> list[ScoreEntry]:
    """The scores that an attempt has had, the same way."""
    return [msgspec.structs.replace(each, error=each.error and WITHHELD) for each in history]


def withhold_notes(audit: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Log entries of an attempt for the caller."""
    return [
        msgspec.structs.replace(each, note=each.note | {"error": WITHHELD})
        if each.note and each.note.get("error")
        else each
        for each in audit
    ]


def tell_audit(
    caller: Caller | None, attempt: Attempt, audit: Sequence[AuditEntry]
) -> list[AuditEntry]:
    """Log entries of an attempt: organisers see other actors and hidden entries.

    Others see roles: the names of keys contain their owners, see `show_owner`.
    """
    if sees_live(caller):
        return list(audit)
    return [
        msgspec.structs.replace(
            each.without_hidden(),
            actor=each.actor if each.actor == attempt.agent else _name_role(each.actor),
        )
        for each in audit
    ]


def _name_role(actor: str) -> str:
    role = actor.partition(" ")[0]
    return role if role in _NAMELESS else "somebody"


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt as a caller may see it, with what happened to it."""

    attempt: Attempt
    audit: list[AuditEntry]
    history: list[ScoreEntry]
    public: bool
    """True if boards are shown as the public sees them."""
    shows_words: bool
    """True if text about the answer is shown."""


def view_attempt(
    services: TenantServices, caller: Caller | None, identifier: str, live: bool | None = None
) -> AttemptView:
    """Decide how much of an attempt a caller may see: all of one's own, of others what the public
    sees.
    """
    public, attempts = is_public(caller, live), services.store.attempts
    found = find_attempt(services, caller, identifier, live)
    stands_still = public and not is_own(caller, found)
    audit = tell_audit(caller, found, attempts.audit(found.id, as_frozen=stands_still))
    history = attempts.history(found.id, as_frozen=stands_still)
    words = sees_words(services, caller, found)
    if not words:
        found, history = withhold_words(found), withhold_errors(history)
        audit = withhold_notes(audit)
    return AttemptView(
        attempt=found, audit=audit, history=history, public=public, shows_words=words
    )


def find_attempt(
    services: TenantServices, caller: Caller | None, identifier: str, live: bool | None = None
) -> Attempt:
    """Find an attempt that the caller may know of: one's own as it is, others' as the public does,
    and for organisers past a freeze unless `live` is False.
    """
    attempt = services.store.attempts.get(identifier)
    challenges = services.store.challenges
    if not is_known(caller) and challenges.get(attempt.challenge).visibility != "public":
        # Ids can be enumerated: the message must not name the challenge.
        raise explain_unknown_attempt(identifier)
    if is_own(caller, attempt):
        return attempt
    if attempt.state == "entered" and not sees_live(caller):
        # Open attempts are visible only to their agent and to organisers.
        raise explain_unknown_attempt(identifier)
    public = is_public(caller, live)
    return services.store.attempts.get(identifier, as_frozen=True) if public else attempt


def find_submission(
    services: TenantServices, caller: Caller | None, identifier: str
) -> KeptSubmission:
    """The submission of an attempt: for its agent and for organisers only."""
    attempt = find_attempt(services, caller, identifier)
    if not (sees_live(caller) or is_own(caller, attempt)):
        raise NotAllowed("what was submitted is for its agent and for organisers")
    return services.competition.read_submission(attempt.id)


def is_own(caller: Caller | None, attempt: Attempt) -> bool:
    """True if the caller is the agent whose attempt it is."""
    return caller is not None and caller.agent is not None and caller.agent == attempt.agent


def show_owner(caller: Caller | None, agent: str, owner: str | None) -> str | None:
    """Owner of an agent, for the owner's keys and organisers: it may be a mail address."""
    if caller is None or sees_live(caller):
        return owner
    own = caller.agent == agent or (owner is not None and caller.owner == owner)
    return owner if own else None


def speak_for(caller: Caller | None, agent: str | None) -> str:
    """The agent that a competitor acts for; an agent's key speaks for no other."""
    if caller is not None and caller.role == "agent":
        if agent not in (None, caller.agent):
            raise NotAllowed(
                f"this key speaks for {caller.agent!r}, not for {agent!r}",
                hint="leave `agent` out, or use that agent's key",
            )
        return caller.agent or ""
    if agent is None:
        place = Place(source="agent")
        raise InvalidInput(
            "no agent is named", place=place, hint="name an agent: `agent`, or --agent HANDLE"
        )
    return agent
