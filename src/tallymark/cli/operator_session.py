"""What commands of whoever runs a server share: whose accounts, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import find_server, tell_store
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.desk.organising import OrganiserDesk
    from tallymark.service.accounts import AccountService
    from tallymark.service.callers import Caller

OfTenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Of this tenant.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@contextmanager
def open_accounts(db: str | None, tenant: str) -> Iterator[tuple[AccountService, Caller]]:
    """A tenant's accounts, and somebody who may do everything with them: the database is theirs."""
    from tallymark.service.app import App
    from tallymark.service.callers import Caller

    tell_store(db)
    with closing(App(db, tenant)) as application:
        yield application.accounts, Caller(tenant, "admin", "operator")


@contextmanager
def open_organising(
    db: str | None, server: str | None, tenant: str = "default"
) -> Iterator[OrganiserDesk]:
    """The same of a tenant's database, or of a server, whose key says which tenant."""
    from tallymark.desk import desk
    from tallymark.desk.organising import refuse_tenant

    address = find_server(db, server)
    if address is None:
        tell_store(db)
    else:
        refuse_tenant(tenant)
    opening = desk.open_local(db, tenant) if address is None else desk.open_remote(address, server)
    with opening as opened:
        yield opened.organising


def find_seconds(text: str | None) -> float | None:
    """How long from now; None for ever."""
    return None if text is None else read_duration(text)


def read_duration(text: str) -> float:
    """Seconds of a time as a person writes it."""
    from tallymark.documents.time_shapes import parse_duration

    seconds = parse_duration(text)
    if not seconds:
        raise InvalidInput(f"{text!r} is no time", hint="write 90s, 15m, 1h30m or 90d")
    return seconds
