"""What a command works with, here or at a server, and the options that say how it is opened."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.errors import InvalidInput
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.client.addresses import Address
    from tallymark.service.resources import Resources

server_in_file: str | None = None
"""What a `tally.toml` names, which is no word of the user's: see `client/addresses.py`."""

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Where results are kept; else TALLY_DB, else the nearest .tally/tally.db.",
    ),
]

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL|NAME",
        help="Ask this server instead, by the key of `tally login`; else TALLY_SERVER.",
    ),
]

InsecureLocal = Annotated[
    bool,
    typer.Option(
        "--insecure-local",
        help="Run untrusted code without a sandbox. Only for code that you wrote.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most this many.")]
Live = Annotated[
    bool, typer.Option("--live", help="Past a freeze: for organisers, not for the public.")
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="quiet: mistakes alone; text or json: requests too. Else TALLY_LOG, else quiet.",
    ),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the log.", show_default=False)]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge", metavar="MODEL", help="The model for challenges judged by a model."),
]


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
    from tallymark.client.addresses import find_address

    return find_address(server, in_file=server_in_file)


def tell_store(db: str | None) -> None:
    """Say which store is used where it is that of a folder above."""
    if db or os.environ.get("TALLY_DB") or {"--json", "-q", "--quiet"} & set(sys.argv):
        return
    from tallymark.service.app import find_store_above

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
        from tallymark.sandbox.policy import choose_policy
        from tallymark.service.resources import open_local
        from tallymark.service.settings import ServiceSettings

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
        from tallymark.client import Client

        with Client(address.url, address.key) as client:
            yield client


def name_server(tally: Resources, server: str | None) -> str | None:
    """Return what is added to a command so that it asks the same server; None without one."""
    if not tally.is_remote:
        return None
    return "" if server is None else f" --server {shlex.quote(server)}"
