"""Sign-in: a key or an invitation becomes a session of this browser."""

from __future__ import annotations

from urllib.parse import urlsplit

from tallymark.errors import InvalidInput, NotFound, NotSignedIn
from tallymark.service.keys import INVITATION, Invitation, NewKey
from tallymark.web.page import Outcome, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit


class SignInView(View, frozen=True, kw_only=True):
    """One field that takes either."""

    next: str
    invitation: Invitation | None
    """The one that was typed, where it needs to know for whom it is."""
    open: bool
    """Whether anybody may register an agent here."""
    public: list[tuple[str, str]]
    """Names and titles of challenges that anybody may see."""


class WelcomeView(View, frozen=True, kw_only=True):
    """A key that was just made, shown this once."""

    made: NewKey
    next: str


def gather(visit: Visit) -> SignInView:
    """The form, as it was filled in."""
    public = [
        (each.name, each.title)
        for each in visit.tally.challenges.list()
        if each.visibility == "public"
    ]
    text, found = visit.form.get("key"), None
    if text.startswith(INVITATION):
        found = visit.service.accounts.look_at_invitation(text)
    settings = visit.service.accounts.find_settings(visit.caller.tenant)
    return SignInView(
        title="Sign in",
        next=_find_next(visit),
        invitation=found,
        open=settings.registration == "open",
        public=public[:3],
    )


def sign_in(visit: Visit) -> Outcome:
    """With a key; an invitation becomes one, if it is said for whom."""
    text = visit.form.require("key", "give a key or an invitation")
    if text.startswith(INVITATION):
        return _accept(visit, text)
    service, address = visit.service, visit.caller.address
    try:
        caller = service.accounts.authenticate(text, address)
    except NotSignedIn as error:
        # Wrong keys alone count for an address: many with good keys may share it.
        service.limits.check(visit.caller, "sign-in")
        # Said at the field: who types a wrong key is not sent to the page that asks for keys.
        raise InvalidInput(error.problems) from None
    service.limits.check(caller, "write")
    signed = service.accounts.sign_in(text, address)
    return Outcome(_find_next(visit), session=signed.token)


def _accept(visit: Visit, text: str) -> Outcome:
    form = visit.form
    try:
        owner, agent = form.get("owner") or None, form.get("agent") or None
        made = visit.tally.invitations.accept(text, owner=owner, agent=agent)
    except NotFound as error:
        visit.service.limits.check(visit.caller, "sign-in")
        raise InvalidInput(error.problems) from None
    return _welcome(visit, made)


def register(visit: Visit) -> Outcome:
    """Makes an agent and its key for whoever comes, where the tenant is open to that."""
    visit.service.limits.check(visit.caller, "sign-in")
    owner = visit.form.require("owner", "say whose the agent is")
    agent = visit.form.require("agent", "say how the agent is called")
    return _welcome(visit, visit.tally.accounts.register(agent, owner))


def _welcome(visit: Visit, made: NewKey) -> Outcome:
    signed = visit.service.accounts.sign_in(str(made.secret), visit.caller.address)
    view = WelcomeView(title="Welcome", made=made, next=_find_next(visit))
    return Outcome(view=view, template="welcome.html", session=signed.token)


def _find_next(visit: Visit) -> str:
    """Where to go on: a page of this site, and no other."""
    asked = visit.form.get("next") or visit.get("next")
    parts = urlsplit(asked)
    # Browsers drop tabs and line ends, and take a backslash for a slash.
    plain = asked.isprintable() and "\\" not in asked
    local = asked.startswith("/") and not asked.startswith("//")
    return asked if plain and local and not (parts.scheme or parts.netloc) else "/"


PAGE = Page(
    "/sign-in",
    "sign_in.html",
    gather,
    actions={"sign-in": sign_in, "register": register},
    strangers_may_act=True,
)
