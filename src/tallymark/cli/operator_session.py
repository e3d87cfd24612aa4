"""What commands of whoever runs a server share: whose accounts, and until when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.app.accounts import AccountService
    from tallymark.app.callers import Caller

OfTenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Of this tenant.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@contextmanager
def open_accounts(db: str | None, tenant: str) -> Iterator[tuple[AccountService, Caller]]:
    """A tenant's accounts, and somebody who may do everything with them: the database is theirs."""
    from tallymark.app.app import App
    from tallymark.app.callers import Caller

    with closing(App(db, tenant)) as application:
        yield application.accounts, Caller(tenant, "admin", "operator")


def find_expiry(text: str | None) -> float | None:
    """The moment that is so long from now."""
    return None if text is None else time.time() + read_duration(text)


def read_duration(text: str) -> float:
    """Seconds of a time as a person writes it."""
    from tallymark.documents.time_shapes import parse_duration

    seconds = parse_duration(text)
    if not seconds:
        raise InvalidInput(f"{text!r} is no time", hint="write 90s, 15m, 1h30m or 90d")
    return seconds
