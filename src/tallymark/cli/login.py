"""`tally login`, `tally logout`, `tally whoami`: servers that are known, and the keys to them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.cli import session
from tallymark.cli.options import Json, Server
from tallymark.cli.streams import print_json
from tallymark.client import Client
from tallymark.client.addresses import can_be_overheard, find_address, read_url
from tallymark.client.profiles import (
    Profile,
    forget_profile,
    keep_profile,
    name_profile,
    read_profiles,
)
from tallymark.errors import InvalidInput, NotAllowed, NotFound, NotSignedIn
from tallymark.text import Table, say

if TYPE_CHECKING:
    from tallymark.client.profiles import Profile
    from tallymark.service.keys import Account

_KEY, _INVITATION = "tly_", "tli_"


def login(  # noqa: PLR0913, PLR0917 (the options of a command)
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="Address of the server.", show_default=False)
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name for the server. Default: its present name, or its host."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="-", help="Read the key from stdin with -. Default: prompt for it."),
    ] = None,
    invitation: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Accept an invitation (tli_...) to get a key of your own."
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="HANDLE", help="Agent that will compete for you.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="Owner of the key, if the invitation does not name one.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the saved servers, without their keys.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Save the key of a server, in a file that only you can read.

    If registration is open, --agent and --owner alone register an agent and save its key.

    Afterwards, --server NAME or TALLY_SERVER=NAME makes commands use that server.
    """
    if list_:
        _list_profiles(as_json=as_json)
        return
    if url is None:
        raise InvalidInput(
            "give the server's address", hint="as in: tally login https://tally.example"
        )

    url, known = read_url(url), read_profiles().profiles
    if can_be_overheard(url):
        say(
            f"tally: {url} is not encrypted, and others on the network can read the key:"
            " use https if the server supports it",
            err=True,
        )
    registered = None
    if agent and owner and key is None and invitation is None:
        registered = _register(url, agent, owner)
    secret = registered or _read_secret(url, key, invitation)
    if secret.startswith(_INVITATION):
        secret = _accept(url, secret, agent, owner)
    elif (agent or owner) and registered is None:
        raise InvalidInput("--agent and --owner are for invitations", hint="leave them out")
    caller = _ask_who(url, secret)
    name = profile or name_profile(url, known)
    if "://" in name or not name.strip() or name != name.strip():
        raise InvalidInput(f"--profile {name!r} is not a valid name", hint="as in --profile team")
    kept = Profile(url=url, key=secret, name=caller.name, role=caller.role, agent=caller.agent)
    keep_profile(name, kept)
    if as_json:
        print_json(_describe(name, kept, current=True))
        return
    say(f"{_tell_caller(caller)}, at {url}")
    first = "challenge list" if caller.role == "agent" else "runs"
    say(f"Saved as {name}: tally {first} --server {name}, or set TALLY_SERVER={name}", err=True)


def logout(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Server, as `tally login --list` shows it. Default: the current one.",
        ),
    ] = None,
) -> None:
    """Remove the saved key of a server. The key itself works until it is revoked."""
    named = name or read_profiles().current
    if named is None:
        raise NotFound("you are not logged in anywhere", hint="log in with: tally login URL")
    gone = forget_profile(named)
    say(
        f"removed the key of {named}; it still works at {gone.url} until it is revoked",
        err=True,
        wrap=True,
    )


def whoami(server: Server = None, as_json: Json = False) -> None:
    """Show which account a server knows you as.

    Without --server, the server of your last login is used.
    """
    address = find_address(server, in_file=session.server_in_file)
    caller = _ask_who(address.url, address.key)
    if as_json:
        print_json({"server": address.url, **msgspec.to_builtins(caller)})
    else:
        say(f"{_tell_caller(caller)}, at {address.url}")


def _read_secret(url: str, key: str | None, invitation: str | None) -> str:
    if invitation is not None and key is not None:
        raise InvalidInput("--key and --invitation exclude each other", hint="leave one out")
    if invitation is not None:
        if not invitation.startswith(_INVITATION):
            hint = "an invitation begins with tli_; type a key at the prompt, or use --key -"
            raise InvalidInput("--invitation is not an invitation code", hint=hint)
        return invitation.strip()
    if key is not None and key != "-":
        hint = "leave --key out and type it, or pipe it in with --key -"
        raise InvalidInput(
            "a key on the command line would be stored in the shell history", hint=hint
        )
    if key is None and not sys.stdin.isatty():
        hint = "pipe it in with --key -, or take up an invitation with --invitation"
        raise InvalidInput("no terminal to type the key on", hint=hint)
    if key is None:
        typed = typer.prompt(f"Key to {url}, or an invitation", hide_input=True)
    else:
        typed = sys.stdin.read()
    secret = str(typed).strip()
    if (
        not secret.startswith((_KEY, _INVITATION))
        or not secret.isascii()
        or not secret.isprintable()
    ):
        raise InvalidInput(
            "this is not a key", hint="a key begins with tly_, an invitation with tli_"
        )
    return secret


def _accept(url: str, code: str, agent: str | None, owner: str | None) -> str:

    for key in (None, ""):
        try:
            with Client(url, key) as client:
                return client.invitations.accept(code, agent=agent, owner=owner).secret or ""
        except NotSignedIn:
            # The saved key of this address may be revoked, or belong to a former server.
            if key == "":
                raise
    raise AssertionError


def _register(url: str, agent: str, owner: str) -> str | None:
    """The key of a new agent; None where that takes an invitation, which can still be typed."""
    try:
        with Client(url, None if _keeps_key_of(owner, url) else "") as client:
            return client.accounts.register(agent, owner=owner).secret
    except NotAllowed:
        if not sys.stdin.isatty():
            raise
        return None


def _keeps_key_of(owner: str, url: str) -> bool:
    """Check if the saved key of the server belongs to this owner; another owner's is refused."""
    try:
        with Client(url) as client:
            return client.accounts.me().owner == owner
    except NotSignedIn:  # it was revoked, or is over
        return False


def _ask_who(url: str, key: str | None) -> Account:
    """Ask the server for the account of a key. An invalid key is refused."""
    with Client(url, key) as client:
        caller = client.accounts.me()
    if caller.role == "anonymous" and key is None:
        raise NotSignedIn(f"no key is saved for {url}", hint=f"log in: tally login {url}")
    return caller


def _tell_caller(caller: Account) -> str:
    name = caller.name if caller.agent is None else f"agent {caller.agent}"
    whose = f" of {caller.owner}" if caller.owner and caller.owner not in name.split() else ""
    return f"{name}{whose} in tenant {caller.tenant}"


def _list_profiles(*, as_json: bool) -> None:

    known = read_profiles()
    listed = [
        _describe(name, each, current=name == known.current)
        for name, each in known.profiles.items()
    ]
    if as_json:
        print_json({"servers": listed})
    elif listed:
        heads = ("SERVER", "ADDRESS", "KEY OF", "ROLE", "")
        rows = [
            (each["server"], each["url"], each["name"], each["role"], "current" * each["current"])
            for each in listed
        ]
        say(Table(heads, rows, cut=("ADDRESS", "KEY OF"), drop=("ROLE",)))
    else:
        say("no server is saved; log in with: tally login URL", wrap=True)


def _describe(name: str, profile: Profile, *, current: bool) -> dict[str, Any]:
    return {
        "server": name,
        "url": profile.url,
        "name": profile.name,
        "role": profile.role,
        "agent": profile.agent,
        "current": current,
    }
