"""What a caller may see of contests: public or live, their own, or nothing at all."""

from __future__ import annotations

from tallymark.app.callers import ORGANISERS, Caller
from tallymark.app.service import TenantServices
from tallymark.challenges.attempt import Attempt
from tallymark.errors import InvalidInput, NotAllowed, NotFound, Place
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.store.moments import Moment


def find_visible(services: TenantServices, caller: Caller, name: str) -> StoredChallenge:
    """A challenge that the caller may know of; of any other no more is said than of none."""
    return find_newest_visible(services, caller, name)[0]


def find_newest_visible(
    services: TenantServices, caller: Caller, name: str, moment: Moment | None = None
) -> tuple[StoredChallenge, int, int]:
    """The same with the last entries of the log that its board depends on."""
    if caller.role != "anonymous":
        return services.store.challenges.find_newest(name, moment=moment)
    try:
        found = services.store.challenges.find_newest(name, moment=moment)
    except NotFound:
        found = None  # what is suggested may be private
    if found is None or found[0].challenge.visibility != "public":
        raise NotFound(f"there is no challenge {name!r}", hint="it may need a key")
    return found


def list_visible(services: TenantServices, caller: Caller) -> list[StoredChallenge]:
    """All challenges that the caller may know of."""
    return [
        each
        for each in services.store.challenges.all()
        if caller.role != "anonymous" or each.challenge.visibility == "public"
    ]


def sees_live(caller: Caller) -> bool:
    """Whether a frozen board is live to the caller."""
    return caller.role in ORGANISERS


def find_attempt(services: TenantServices, caller: Caller, identifier: str) -> Attempt:
    """An attempt as the caller may see it: one's own as it is, others' as the public does."""
    attempt = services.store.attempts.get(identifier)
    if caller.role == "anonymous":
        find_visible(services, caller, attempt.challenge)
    if sees_live(caller) or (caller.agent is not None and caller.agent == attempt.agent):
        return attempt
    if attempt.state == "entered" and caller.role in ("agent", "anonymous"):
        # That somebody is at it now is nobody else's business.
        raise NotFound(f"there is no attempt {identifier!r}", hint="check the id")
    return services.store.attempts.get(identifier, public=True)


def speak_for(caller: Caller, agent: str | None) -> str:
    """The agent that a competitor acts for; an agent's key speaks for no other."""
    if caller.role == "agent":
        if agent not in (None, caller.agent):
            raise NotAllowed(
                f"this key speaks for {caller.agent!r}, not for {agent!r}",
                hint="leave `agent` out, or use that agent's key",
            )
        return caller.agent or ""
    if agent is None:
        place = Place(source="agent")
        raise InvalidInput("it is not said who acts", place=place, hint="name an agent")
    return agent
