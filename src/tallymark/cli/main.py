"""The `tally` command: which commands there are, and how every one of them fails.

Commands import what they need when they run, so that `tally --help` stays quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tallymark.cli import (
    attempt,
    challenge,
    compare,
    docs,
    doctor,
    formula,
    init,
    leaderboard,
    plugin,
    ratings,
    rescore,
    run,
    runs,
    score,
    scorers,
    show,
    validate,
    vars_and_secrets,
    versus,
)
from tallymark.errors import TallymarkError

app = typer.Typer(
    name="tally",
    help="Score AI agents by your own idea of good.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    init.init,
    validate.validate,
    run.run,
    runs.runs,
    show.show,
    compare.compare,
    rescore.rescore,
    score.score,
    scorers.scorers,
    validate.schema,
    docs.docs,
    doctor.doctor,
    leaderboard.leaderboard,
    ratings.ratings,
):
    app.command()(command)
app.add_typer(formula.app, name="formula")
app.add_typer(plugin.app, name="plugin")
app.add_typer(challenge.app, name="challenge")
app.add_typer(attempt.app, name="attempt")
app.add_typer(versus.app, name="versus")
app.add_typer(vars_and_secrets.vars_app, name="vars")
app.add_typer(vars_and_secrets.secrets_app, name="secrets")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tally {version('tallymark')}")
        raise typer.Exit


@app.callback()
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
    try:
        app()
    except TallymarkError as error:
        typer.echo(f"tally: {error.render()}", err=True)
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
        typer.echo(f"tally: {what}; {hint}", err=True)
        sys.exit(3)
