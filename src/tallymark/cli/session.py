"""Open the operations of a command, on a database or on a server."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.client.addresses import Address
    from tallymark.service.resources import Resources

server_in_file: str | None = None
"""The server named in `tally.toml`, which is not trusted like one the user typed."""


def find_server(db: str | None, server: str | None) -> Address | None:
    """The server that is meant; None for a database here.

    What is typed wins over a variable, and a variable over the file.
    """
    if server is not None and db is not None:
        raise InvalidInput("--db and --server exclude each other", hint="leave one out")
    if server is None and db is None and os.environ.get("TALLY_SERVER"):
        if os.environ.get("TALLY_DB"):
            hint = "unset one, or say --db or --server"
            raise InvalidInput("TALLY_DB and TALLY_SERVER are both set", hint=hint)
    elif server is None and (db or os.environ.get("TALLY_DB") or server_in_file is None):
        return None
    from tallymark.client.addresses import find_address  # noqa: PLC0415 (loads httpx)

    return find_address(server, in_file=server_in_file)


def tell_store(db: str | None) -> None:
    """Say which store is used where it is that of a folder above."""
    if db or os.environ.get("TALLY_DB") or {"--json", "-q", "--quiet"} & set(sys.argv):
        return
    from tallymark.service.app import find_store_above  # noqa: PLC0415 (loads SQLAlchemy)

    if (found := find_store_above()) is not None:
        say(f"tally: using the store {found}", err=True)


@contextmanager
def open_resources(
    db: str | None,
    server: str | None,
    *,
    insecure_local: bool = False,
    judge_model: str | None = None,
    **settings: Any,
) -> Iterator[Resources]:
    """Open the operations over a database, or those of a server.

    `settings` are fields of `ServiceSettings` for a database.
    """
    address = find_server(db, server)
    if address is None:
        from tallymark.sandbox.policy import choose_policy  # noqa: PLC0415 (only for a database here)
        from tallymark.service.resources import open_local  # noqa: PLC0415 (loads SQLAlchemy)
        from tallymark.service.settings import ServiceSettings  # noqa: PLC0415 (loads SQLAlchemy)

        tell_store(db)
        policy = choose_policy(insecure_local=True) if insecure_local else None
        known = ServiceSettings(own=True, policy=policy, judge_model=judge_model, **settings)
        with open_local(db, settings=known) as resources:
            yield resources
    else:
        for flag, given in (("--insecure-local", insecure_local), ("--judge", judge_model)):
            if given:
                hint = "leave it out, or work on a database: --db"
                message = f"{flag} is not for a server, which judges in its own way"
                raise InvalidInput(message, hint=hint)
        from tallymark.client import Client  # noqa: PLC0415 (loads httpx)

        with Client(address.url, address.key) as client:
            yield client


def name_server(tally: Resources, server: str | None) -> str | None:
    """Return what is added to a command so that it asks the same server; None without one."""
    if not tally.is_remote:
        return None
    return "" if server is None else f" --server {shlex.quote(server)}"


@contextmanager
def open_tenant(db: str | None, server: str | None, tenant: str = "default") -> Iterator[Resources]:
    """Open the operations over a tenant's database, or those of a server."""
    if find_server(db, server) is None:
        from tallymark.service.resources import open_local  # noqa: PLC0415 (loads SQLAlchemy)

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
        raise InvalidInput(
            "--tenant cannot be used with a server: the key sets the tenant", hint=hint
        )


def find_seconds(text: str | None) -> float | None:
    """Read an optional duration in seconds; None means forever."""
    return None if text is None else read_duration(text)


def read_duration(text: str) -> float:
    """Seconds of a time as a person writes it."""
    from tallymark.documents.shapes import parse_duration  # noqa: PLC0415 (loads the YAML reader)

    seconds = parse_duration(text)
    if not seconds:
        raise InvalidInput(f"{text!r} is not a duration", hint="write 90s, 15m, 1h30m or 90d")
    return seconds


def require_shown(secret: str | None, hint: str) -> str:
    """Return what is shown once, unless it was lost with an answer."""
    if secret is None:
        message = "it was created, but the secret, which is shown once, was lost on the way"
        raise WorkFailed(message, hint=hint)
    return secret
