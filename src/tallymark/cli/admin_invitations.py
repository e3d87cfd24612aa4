"""`tally admin invitations`: how strangers come to keys of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db, Server
from tallymark.cli.operator_session import (
    JsonOption,
    OfTenant,
    find_seconds,
    open_tenant,
    require_shown,
)
from tallymark.cli.streams import print_json
from tallymark.text import Table, format_moment, say

if TYPE_CHECKING:
    from tallymark.service.keys import Invitation

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
    import msgspec

    wanted: Any = {"role": role, "owner": owner, "uses": uses}
    with open_tenant(db, server, tenant) as tally:
        made = tally.invitations.add(**wanted, expires_in_s=find_seconds(expires))
    found = made.invitation
    code = require_shown(made.code, f"tally admin invitations revoke {found.id}")
    if as_json:
        print_json(msgspec.to_builtins(made))
        return
    say(code)
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
    import msgspec

    with open_tenant(db, server, tenant) as tally:
        found = tally.invitations.list().items
    now = time.time()
    if as_json:
        print_json({"invitations": msgspec.to_builtins(found)})
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
    with open_tenant(db, server, tenant) as tally:
        tally.invitations.revoke(invitation_id)
    say(f"{invitation_id} is revoked.")


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
