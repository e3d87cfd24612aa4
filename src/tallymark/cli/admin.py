"""`tally admin`: keys, tenants, agents, invitations and the database, for operators of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.cli import admin_database
from tallymark.cli.options import CommandGroup, Db, Json, OfTenant, Server
from tallymark.cli.session import find_seconds, open_tenant, read_duration, require_shown
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput
from tallymark.text import Table, format_moment, format_number, say

if TYPE_CHECKING:
    from tallymark.service.keys import Invitation, Key, NewKey, Retention, TenantSettings

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
keys_app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Create, list, rotate or revoke keys."
)
tenants_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Create, list or change tenants, which share a server without seeing each other.",
)
agents_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="List agents with their owners, or change an owner.",
)
invitations_app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Create, list or revoke invitations to a key."
)
app.add_typer(keys_app, name="keys")
app.add_typer(tenants_app, name="tenants")
app.add_typer(agents_app, name="agents")
app.add_typer(invitations_app, name="invitations")
for _command in (
    admin_database.upgrade,
    admin_database.backup,
    admin_database.restore,
    admin_database.copy,
    admin_database.compact,
    admin_database.check,
    admin_database.prune,
    admin_database.rotate_secret_key,
    admin_database.config,
):
    app.command()(_command)

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", show_default=False)]
TenantArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="Lifetime, such as 90d. Default: no expiry."),
]
RegistrationOption = Annotated[
    str | None,
    typer.Option(
        "--registration",
        metavar="WHO",
        help="Who may register agents: closed (only organisers), invitation, or open.",
    ),
]
AgentsPerOwner = Annotated[
    int | None,
    typer.Option("--agents-per-owner", min=1, help="Number of agents an owner may register."),
]
PerAddress = Annotated[
    int | None,
    typer.Option(
        "--registrations-per-address", min=1, help="Open registrations per address and day."
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--rate-limit",
        metavar="CLASS=COUNT",
        help="Requests per minute of each owner, such as report=12000. Repeatable.",
    ),
]

Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="KIND=TIME",
        help="Retention of runs, jobs, answers, deliveries, sessions or registrations, such as"
        " runs=90d or runs=forever. Repeatable.",
    ),
]


@keys_app.command("create")
def create_key(  # noqa: PLR0913, PLR0917 (the options of a command)
    role: Annotated[
        str,
        typer.Argument(metavar="ROLE", help="Role: admin, organiser, reporter, agent or viewer."),
    ],
    name: Annotated[
        str, typer.Option("--name", help="Name shown in lists. Default: the role.")
    ] = "",
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="Owner of the key. Default: the agent, or operator."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Handle of the agent, for the role agent.")
    ] = None,
    expires: Expires = None,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Create a key. It is printed once."""
    wanted: Any = {"role": role, "owner": owner, "agent": agent}
    with open_tenant(db, server, tenant) as tally:
        made = tally.keys.add(name or agent or role, **wanted, expires_in_s=find_seconds(expires))
    _print_key(made, as_json)


@keys_app.command("list")
def list_keys(
    owner: Annotated[str | None, typer.Option("--owner", help="Only of this owner.")] = None,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List keys, including revoked and expired ones. The secrets are not stored."""
    with open_tenant(db, server, tenant) as tally:
        found = list(tally.keys.list(owner=owner))
    now = time.time()
    if as_json:
        print_json({"keys": msgspec.to_builtins(found)})
    elif found:
        heads = ("KEY_ID", "STATE", "ROLE", "OWNER", "AGENT", "NAME", "MADE (UTC)", "USED (UTC)")
        rows = [_make_key_row(each, now) for each in found]
        drop = ("NAME", "MADE (UTC)", "USED (UTC)", "AGENT")
        say(Table(heads, rows, wrap=("NAME",), cut=("OWNER",), drop=drop))
    else:
        say("no keys")


@keys_app.command("rotate")
def rotate_key(  # noqa: PLR0913, PLR0917 (as above)
    key_id: KeyArgument,
    overlap: Annotated[
        str | None,
        typer.Option("--overlap", metavar="TIME", help="How long the old key stays valid."),
    ] = None,
    expires: Expires = None,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Replace a key by a new one, which is printed once."""
    seconds = 0.0 if overlap is None else read_duration(overlap)
    with open_tenant(db, server, tenant) as tally:
        made = tally.keys.rotate(key_id, overlap_s=seconds, expires_in_s=find_seconds(expires))
    _print_key(made, as_json)


@keys_app.command("revoke")
def revoke_key(
    key_id: KeyArgument,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Revoke a key. Running servers refuse it within seconds."""
    with open_tenant(db, server, tenant) as tally:
        revoked = tally.keys.revoke(key_id)
    if as_json:
        print_json({"key": msgspec.to_builtins(revoked)})
    else:
        say(f"{key_id} is revoked.")


@tenants_app.command("create")
def create_tenant(  # noqa: PLR0913, PLR0917 (as above)
    name: TenantArgument,
    registration: RegistrationOption = None,
    agents_per_owner: AgentsPerOwner = None,
    registrations_per_address: PerAddress = None,
    limit: Limits = None,
    keep: Keep = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Create a tenant. The key of its first admin is printed once."""
    changes = _collect(
        registration, agents_per_owner, registrations_per_address, _read_limits(limit)
    ) | _read_keep(keep, None)
    with open_tenant(db, server) as tally:
        made = tally.tenants.add(name, changes)
    _print_key(made, as_json)


@tenants_app.command("set")
def set_tenant(  # noqa: PLR0913, PLR0917 (as above)
    name: TenantArgument,
    registration: RegistrationOption = None,
    agents_per_owner: AgentsPerOwner = None,
    registrations_per_address: PerAddress = None,
    limit: Limits = None,
    keep: Keep = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Change the settings of a tenant."""
    changes = _collect(
        registration, agents_per_owner, registrations_per_address, _read_limits(limit)
    )
    if not changes and not keep:
        raise InvalidInput("nothing to change", hint="see tally admin tenants set --help")

    with open_tenant(db, server) as tally:
        if keep:
            changes |= _read_keep(keep, tally.tenants.get(name).settings)
        tenant = tally.tenants.change(name, changes)
    if as_json:
        print_json({"tenant": msgspec.to_builtins(tenant)})
    else:
        say(f"{name}: {_write_settings(tenant.settings)}")


@tenants_app.command("list")
def list_tenants(db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """List tenants with their settings."""
    with open_tenant(db, server) as tally:
        found = list(tally.tenants.list())
    if as_json:
        print_json({"tenants": msgspec.to_builtins(found)})
    elif found:
        rows = [(each.name, _write_settings(each.settings)) for each in found]
        say(Table(("TENANT", "ALLOWS"), rows, wrap=("ALLOWS",)))
    else:
        say("no tenants")


@agents_app.command("list")
def list_agents(
    owner: Annotated[str | None, typer.Option("--owner", help="Only of this owner.")] = None,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List agents with their owners."""
    with open_tenant(db, server, tenant) as tally:
        found = list(tally.agents.list(owner=owner))
    if as_json:
        print_json({"agents": msgspec.to_builtins(found)})
    elif found:
        rows = [
            (
                each.handle,
                each.owner or "-",
                format_moment(each.created_at),
                "disqualified" if each.disqualified_at is not None else "-",
            )
            for each in found
        ]
        say(
            Table(
                ("AGENT", "OWNER", "SINCE (UTC)", "STATE"),
                rows,
                cut=("OWNER",),
                drop=("SINCE (UTC)",),
            )
        )
    else:
        say("no agents")


@agents_app.command("give")
def give_agent(
    agent: Annotated[str, typer.Argument(metavar="AGENT", show_default=False)],
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="New owner; - for none.")],
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
) -> None:
    """Change the owner of an agent. Agents of one owner do not count for each other."""
    whose = None if owner == "-" else owner
    with open_tenant(db, server, tenant) as tally:
        tally.agents.change(agent, owner=whose)
    say(f"{agent} has no owner." if whose is None else f"The owner of {agent} is {whose}.")


def _print_key(made: NewKey, as_json: bool) -> None:
    """The key alone on stdout, for scripts."""
    key, secret = made.key, require_shown(made.secret, f"tally admin keys rotate {made.key.id}")
    if as_json:
        print_json(msgspec.to_builtins(made))
        return
    say(secret)
    whose = f"{key.role} {key.owner}" if key.agent is None else f"agent {key.agent} of {key.owner}"
    say(f"{key.id}, for {whose} in tenant {key.tenant}; it is shown only now", err=True)


def _find_state(key: Key, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.is_valid(now) else "expired"


def _make_key_row(key: Key, now: float) -> tuple[str, ...]:
    return (
        key.id,
        _find_state(key, now),
        key.role,
        key.owner,
        key.agent or "-",
        key.name,
        format_moment(key.created_at),
        "-" if key.last_used_at is None else format_moment(key.last_used_at),
    )


def _collect(
    registration: str | None,
    agents_per_owner: int | None,
    registrations_per_address: int | None,
    limits: dict[str, int] | None,
) -> dict[str, Any]:
    given = {
        "registration": registration,
        "agents_per_owner": agents_per_owner,
        "registrations_per_address": registrations_per_address,
        "limits": limits,
    }
    return {name: value for name, value in given.items() if value is not None}


def _read_limits(texts: list[str] | None) -> dict[str, int] | None:
    from tallymark.service.limits import read_limits  # noqa: PLC0415 (loads SQLAlchemy)

    return read_limits(texts) if texts else None


def _read_keep(texts: list[str] | None, before: TenantSettings | None) -> dict[str, Any]:

    from tallymark.service.keys import Retention, read_days  # noqa: PLC0415 (loads SQLAlchemy)

    known = Retention() if before is None else before.retention
    changed = {**msgspec.structs.asdict(known), **read_days(texts or ())}
    return {"retention": changed} if texts else {}


def _write_settings(settings: TenantSettings) -> str:
    limits = [f"{name} {count:,} a minute" for name, count in settings.limits.items()]
    return ", ".join(
        [
            f"registration {settings.registration}",
            f"{settings.agents_per_owner:,} agents per owner",
            f"{settings.registrations_per_address:,} registrations a day per address",
            *limits,
            *_write_retention(settings.retention),
        ]
    )


def _write_retention(retention: Retention) -> list[str]:
    """List retention periods that differ from the default."""
    usual = msgspec.structs.asdict(type(retention)())
    found: dict[str, float | None] = msgspec.structs.asdict(retention)
    return [
        f"{kind} kept {'for ever' if days is None else f'{format_number(days)} days'}"
        for kind, days in found.items()
        if days != usual[kind]
    ]


@invitations_app.command("create")
def create_invitation(  # noqa: PLR0913, PLR0917 (the options of a command)
    role: Annotated[
        str,
        typer.Argument(metavar="ROLE", help="Role: admin, organiser, reporter, agent or viewer."),
    ] = "agent",
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="Owner of the key. Default: chosen when it is accepted."),
    ] = None,
    uses: Annotated[
        int, typer.Option("--uses", min=1, help="How many times it can be accepted.")
    ] = 1,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="Lifetime, such as 90d. Default: 14 days."),
    ] = None,
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Create an invitation. It is printed once."""
    wanted: Any = {"role": role, "owner": owner, "uses": uses}
    with open_tenant(db, server, tenant) as tally:
        made = tally.invitations.add(**wanted, expires_in_s=find_seconds(expires))
    found = made.invitation
    code = require_shown(made.code, f"tally admin invitations revoke {found.id}")
    if as_json:
        print_json(msgspec.to_builtins(made))
        return
    say(code)
    whom = "anyone who has it" if found.owner is None else found.owner
    say(
        f"{found.id}, to a key for {role} in tenant {found.tenant}, for {whom},"
        f" until {format_moment(found.expires_at)} UTC; it is shown only now",
        err=True,
    )


@invitations_app.command("list")
def list_invitations(
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List invitations, including expired, used up and revoked ones."""
    with open_tenant(db, server, tenant) as tally:
        found = list(tally.invitations.list())
    now = time.time()
    if as_json:
        print_json({"invitations": msgspec.to_builtins(found)})
    elif found:
        heads = ("INVITATION", "STATE", "ROLE", "OWNER", "USES LEFT", "MADE BY", "EXPIRES (UTC)")
        rows = [_make_invitation_row(each, now) for each in found]
        drop = ("MADE BY", "USES LEFT", "EXPIRES (UTC)")
        say(Table(heads, rows, cut=("OWNER", "MADE BY"), drop=drop))
    else:
        say("no invitations")


@invitations_app.command("revoke")
def revoke_invitation(
    invitation_id: Annotated[str, typer.Argument(metavar="INVITATION", show_default=False)],
    tenant: OfTenant = "default",
    db: Db = None,
    server: Server = None,
) -> None:
    """Revoke an invitation. Keys created from it stay valid."""
    with open_tenant(db, server, tenant) as tally:
        tally.invitations.revoke(invitation_id)
    say(f"{invitation_id} is revoked.")


def _find_invitation_state(invitation: Invitation, now: float) -> str:
    if invitation.revoked_at is not None:
        return "revoked"
    if not invitation.uses_left:
        return "used up"
    return "valid" if invitation.expires_at > now else "expired"


def _make_invitation_row(invitation: Invitation, now: float) -> tuple[str, ...]:
    return (
        invitation.id,
        _find_invitation_state(invitation, now),
        invitation.role,
        invitation.owner or "-",
        str(invitation.uses_left),
        invitation.made_by,
        format_moment(invitation.expires_at),
    )
