"""The `tally` command: which commands there are, and how every one of them fails.

Commands import what they need when they run, so that `tally --help` stays quick.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from tallymark.errors import TallymarkError
from tallymark.text import say

COMMANDS = {
    "init": "init:init",
    "import": "import_:import_",
    "validate": "validate:validate",
    "run": "run:run",
    "runs": "runs:runs",
    "show": "show:show",
    "compare": "compare:compare",
    "rescore": "rescore:rescore",
    "score": "score:score",
    "scorers": "scorers:scorers",
    "schema": "validate:schema",
    "docs": "docs:docs",
    "doctor": "doctor:doctor",
    "leaderboard": "leaderboard:leaderboard",
    "ratings": "ratings:ratings",
    "log": "log:log",
    "formula": "formula:app",
    "plugin": "plugin:app",
    "challenge": "challenge:app",
    "attempt": "attempt:app",
    "agent": "agent:app",
    "versus": "versus:app",
    "vars": "vars_and_secrets:vars_app",
    "secrets": "vars_and_secrets:secrets_app",
}
"""Where each command is, in the order of `tally --help`."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"tally {version('tallymark')}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs `tally`. Errors become one sentence on stderr and an exit code; never a traceback."""
    app = typer.Typer(
        name="tally",
        help="Score AI agents by your own idea of good.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    try:
        # A command that is named is loaded alone; help, or a wrong name, wants them all.
        for name in COMMANDS.keys() & sys.argv[1:2] or COMMANDS:
            module, _, attribute = COMMANDS[name].partition(":")
            found = getattr(import_module(f"tallymark.cli.{module}"), attribute)
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name)
            else:
                app.command(name)(found)
        app()
    except TallymarkError as error:
        say(f"tally: {error.render()}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has stopped (`tally ... | head`). Python would complain once
        # more when it flushes stdout on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if os.environ.get("TALLY_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        hint = "this is a mistake in Tallymark; TALLY_DEBUG=1 shows where"
        say(f"tally: {what}; {hint}", err=True)
        sys.exit(3)
    finally:
        # Python would look at every object once more before it ends: a fifth of a short command.
        gc.freeze()
