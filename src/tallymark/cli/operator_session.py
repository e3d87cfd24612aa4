"""What commands of whoever runs a server share: whose accounts, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import find_server, open_resources, tell_store
from tallymark.errors import InvalidInput, WorkFailed

if TYPE_CHECKING:
    from tallymark.service.resources import Resources

OfTenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Of this tenant.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@contextmanager
def open_tenant(db: str | None, server: str | None, tenant: str = "default") -> Iterator[Resources]:
    """Open the operations over a tenant's database, or those of a server."""
    if find_server(db, server) is None:
        from tallymark.service.resources import open_local

        tell_store(db)
        with open_local(db, tenant) as resources:
            yield resources
    else:
        refuse_tenant(tenant)
        with open_resources(db, server) as resources:
            yield resources


def refuse_tenant(tenant: str) -> None:
    """Refuse a tenant beside a server: the key belongs to one."""
    if tenant != "default":
        hint = "leave --tenant out, and use a key of that tenant"
        raise InvalidInput("at a server, the key says which tenant", hint=hint)


def find_seconds(text: str | None) -> float | None:
    """How long from now; None for ever."""
    return None if text is None else read_duration(text)


def read_duration(text: str) -> float:
    """Seconds of a time as a person writes it."""
    from tallymark.documents.shapes import parse_duration

    seconds = parse_duration(text)
    if not seconds:
        raise InvalidInput(f"{text!r} is no time", hint="write 90s, 15m, 1h30m or 90d")
    return seconds


def require_shown(secret: str | None, hint: str) -> str:
    """Return what is shown once, unless it was lost with an answer."""
    if secret is None:
        message = "it was made, and what is shown once was lost on its way here"
        raise WorkFailed(message, hint=hint)
    return secret
