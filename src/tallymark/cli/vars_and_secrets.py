"""`tally vars` and `tally secrets`: values for templates in suites."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tallymark.cli.options import CommandGroup, Db, Json, Server
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput
from tallymark.text import say

vars_app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
secrets_app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]


@vars_app.command("set")
def set_var(
    name: NameArgument,
    value: Annotated[str, typer.Argument()],
    db: Db = None,
    server: Server = None,
) -> None:
    """Store a variable."""
    with open_resources(db, server) as tally:
        tally.settings.set_var(name, value)


@vars_app.command("list")
def list_vars(db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """List variables with their values."""
    with open_resources(db, server) as tally:
        known = tally.settings.vars()
    if as_json:
        print_json(known)
    else:
        say("\n".join(f"{name}={value}" for name, value in known.items()) or "no variables")


@vars_app.command("delete")
def delete_var(name: NameArgument, db: Db = None, server: Server = None) -> None:
    """Delete a variable."""
    with open_resources(db, server) as tally:
        tally.settings.remove_var(name)


@secrets_app.command("set")
def set_secret(
    name: NameArgument,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the value from stdin.")] = False,
    db: Db = None,
    server: Server = None,
) -> None:
    """Store a secret. You are prompted for its value, which keeps it out of the shell history."""
    if not stdin and not sys.stdin.isatty():
        hint = "pipe it in with --stdin"
        raise InvalidInput("no terminal to type the secret on", hint=hint)
    value = sys.stdin.read().rstrip("\n") if stdin else typer.prompt("Value", hide_input=True)
    if not value:
        raise InvalidInput(f"the secret {name!r} is empty", hint="give it a value")
    with open_resources(db, server) as tally:
        tally.settings.set_secret(name, value)


@secrets_app.command("list")
def list_secrets(db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """List the names of secrets. Values are never shown."""
    with open_resources(db, server) as tally:
        known = tally.settings.secrets()
    if as_json:
        print_json(known)
    else:
        say("\n".join(known) or "no secrets")


@secrets_app.command("delete")
def delete_secret(name: NameArgument, db: Db = None, server: Server = None) -> None:
    """Delete a secret."""
    with open_resources(db, server) as tally:
        tally.settings.remove_secret(name)
