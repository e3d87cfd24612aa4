"""`tally admin invitations`: how strangers come to keys of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db, Server
from tallymark.cli.operator_session import JsonOption, OfTenant, find_seconds, open_organising
from tallymark.cli.streams import print_json
from tallymark.text import Table, format_moment, say

if TYPE_CHECKING:
    from tallymark.store.accounts.invitations import Invitation

app = typer.Typer(no_args_is_help=True, help="Invitations: to a key, for whoever is given one.")


@app.command("create")
def create_invitation(  # noqa: PLR0913, PLR0917 (the options of a command)
    role: Annotated[
        str,
        typer.Argument(metavar="ROLE", help="admin, organiser, reporter, agent or viewer."),
    ] = "agent",
    owner: Annotated[
        str | None, typer.Option("--owner", help="Whom it is for; whoever has it.")
    ] = None,
    uses: Annotated[int, typer.Option("--uses", min=1, help="How often it can be accepted.")] = 1,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="From now, as in 90d; in 14 days."),
    ] = None,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """Make an invitation. It is printed now, and never again."""
    seconds = find_seconds(expires)
    with open_organising(db, server, tenant) as desk:
        made = desk.invite(role=role, owner=owner, uses=uses, expires_in_s=seconds)
    found = made.invitation
    if as_json:
        told = _describe(found, found.created_at) | {"secret": made.text}
        print_json({"invitation": told})
        return
    say(made.text)
    whom = "whoever has it" if found.owner is None else found.owner
    say(
        f"{found.id}, to a key for {role} in tenant {found.tenant}, for {whom},"
        f" until {format_moment(found.expires_at)} UTC; it is shown only now",
        err=True,
    )


@app.command("list")
def list_invitations(
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """List invitations, those too that nobody can accept any more."""
    with open_organising(db, server, tenant) as desk:
        found = desk.list_invitations()
    now = time.time()
    if as_json:
        print_json({"invitations": [_describe(each, now) for each in found]})
    elif found:
        heads = ("INVITATION", "STATE", "ROLE", "OWNER", "USES LEFT", "MADE BY", "EXPIRES (UTC)")
        rows = [_make_row(each, now) for each in found]
        drop = ("MADE BY", "USES LEFT", "EXPIRES (UTC)")
        say(Table(heads, rows, cut=("OWNER", "MADE BY"), drop=drop))
    else:
        say("no invitations")


@app.command("revoke")
def revoke_invitation(
    invitation_id: Annotated[str, typer.Argument(metavar="INVITATION", show_default=False)],
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
) -> None:
    """Let nobody accept an invitation any more; keys that came of it stay good."""
    with open_organising(db, server, tenant) as desk:
        desk.revoke_invitation(invitation_id)
    say(f"{invitation_id} is revoked.")


def _describe(invitation: Invitation, now: float) -> dict[str, Any]:
    import msgspec

    return {**msgspec.structs.asdict(invitation), "state": _find_state(invitation, now)}


def _find_state(invitation: Invitation, now: float) -> str:
    if invitation.revoked_at is not None:
        return "revoked"
    if not invitation.uses_left:
        return "used up"
    return "valid" if invitation.expires_at > now else "expired"


def _make_row(invitation: Invitation, now: float) -> tuple[str, ...]:
    return (
        invitation.id,
        _find_state(invitation, now),
        invitation.role,
        invitation.owner or "-",
        str(invitation.uses_left),
        invitation.made_by,
        format_moment(invitation.expires_at),
    )
