"""Page to sign in with a key or an invitation, and to register an agent."""

from __future__ import annotations

from urllib.parse import urlsplit

from tallymark.errors import InvalidInput, NotFound, NotSignedIn
from tallymark.service.keys import INVITATION, Invitation, NewKey
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest


class SignInView(View, frozen=True, kw_only=True):
    """The sign-in form."""

    next: str
    invitation: Invitation | None
    """The typed invitation, if it asks for an owner or an agent."""
    open: bool
    """True if registration is open."""
    public: list[tuple[str, str]]
    """Names and titles of public challenges."""


class WelcomeView(View, frozen=True, kw_only=True):
    """A new key, shown once."""

    made: NewKey
    next: str


def gather(request: PageRequest) -> SignInView:
    """Gather the form as filled in."""
    public = [
        (each.name, each.title)
        for each in request.tally.challenges.list()
        if each.visibility == "public"
    ]
    text, found = request.form.get("key"), None
    if text.startswith(INVITATION):
        found = request.service.accounts.look_at_invitation(text)
    settings = request.service.accounts.find_settings(request.caller.tenant)
    return SignInView(
        title="Sign in",
        next=_find_next(request),
        invitation=found,
        open=settings.registration == "open",
        public=public[:3],
    )


def sign_in(request: PageRequest) -> Outcome:
    """Sign in with a key, or accept an invitation."""
    text = request.form.require("key", "give a key or an invitation")
    if text.startswith(INVITATION):
        return _accept(request, text)
    service, address = request.service, request.caller.address
    try:
        caller = service.accounts.authenticate(text, address)
    except NotSignedIn as error:
        # Wrong keys alone count for an address: many with good keys may share it.
        service.limits.check(request.caller, "sign-in")
        # Shown at the field; NotSignedIn would redirect to this page.
        raise InvalidInput(error.problems) from None
    service.limits.check(caller, "write")
    signed = service.accounts.sign_in(text, address)
    return Outcome(_find_next(request), session=signed.token)


def _accept(request: PageRequest, text: str) -> Outcome:
    form = request.form
    try:
        owner, agent = form.get("owner") or None, form.get("agent") or None
        made = request.tally.invitations.accept(text, owner=owner, agent=agent)
    except NotFound as error:
        request.service.limits.check(request.caller, "sign-in")
        raise InvalidInput(error.problems) from None
    return _welcome(request, made)


def register(request: PageRequest) -> Outcome:
    """Register an agent with a key, if registration is open."""
    request.service.limits.check(request.caller, "sign-in")
    owner = request.form.require("owner", "enter the owner of the agent")
    agent = request.form.require("agent", "enter the handle of the agent")
    return _welcome(request, request.tally.accounts.register(agent, owner))


def _welcome(request: PageRequest, made: NewKey) -> Outcome:
    signed = request.service.accounts.sign_in(str(made.secret), request.caller.address)
    view = WelcomeView(title="Welcome", made=made, next=_find_next(request))
    return Outcome(view=view, template="welcome.html", session=signed.token)


def _find_next(request: PageRequest) -> str:
    """Return the page to go to next, on this site only."""
    asked = request.form.get("next") or request.get("next")
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
    anonymous_may_act=True,
)
