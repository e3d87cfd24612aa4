"""`tally serve`: the server that a team, a reporting service and agents share."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, InsecureLocal, JudgeModel, LogFormat
from tallymark.errors import InvalidInput
from tallymark.installation import require_server
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.service.demo import Demo
    from tallymark.service.service import Service


def serve(  # noqa: PLR0913, PLR0917 (the options of a command)
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8321,
    workers: Annotated[
        int,
        typer.Option(
            min=0, max=64, help="Scorings, and as many long jobs, at once; 0: tally worker."
        ),
    ] = 2,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a live example with data; nothing of it is kept.")
    ] = False,
    log_format: LogFormat = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
) -> None:
    """Serve the API and the pages, for everybody who has a key.

    The key of the first start is shown once, or given as TALLY_ADMIN_KEY. With --demo nobody needs
    a key to look: an example store, with boards that move.
    """
    require_server("tally serve")
    from tallymark.server import serve as serve_until_stopped
    from tallymark.service.server_logs import set_up_logs
    from tallymark.service.service import Service
    from tallymark.service.settings import read_settings

    set_up_logs(log_format, os.environ)
    with ExitStack() as left:
        example = left.enter_context(_make_demo(db)) if demo else None
        settings = read_settings(
            os.environ,
            db=db if example is None else example.db,
            upgrade=True,
            workers=workers,
            demo=example,
            judge_model=judge_model,
            insecure_local=insecure_local,
        )
        service = Service(settings)
        first = service.accounts.ensure_admin_key(os.environ.get("TALLY_ADMIN_KEY"))
        if example is not None:
            _tell_keys(example, service, first)
        elif first is not None:
            say("The key of the first administrator, shown only now:", f"  {first}", err=True)

        def tell(listening: int) -> None:
            shown = f"[{host}]" if ":" in host else host
            what = service.app.database if example is None else "an example"
            say(f"Tallymark serves {what} at http://{shown}:{listening}", err=True)
            if first is not None and example is None:
                say(
                    "In another terminal, log in with that key, and invite somebody:",
                    f"  tally login http://{shown}:{listening}",
                    f"  tally admin invitations create --server http://{shown}:{listening}",
                    err=True,
                )
            say("Stop it with Ctrl-C.", err=True)

        serve_until_stopped(service, host=host, port=port, started=tell)


def _make_demo(db: str | None) -> Demo:
    from tallymark.service.demo import Demo

    if db is not None:
        raise InvalidInput("--demo has a store of its own", hint="leave --db out")
    made = Demo()
    try:
        say("Playing the examples, for a few days of history ...", err=True)
        if made.no_sandbox:
            say(f"Without those that need a sandbox: {made.no_sandbox}", err=True)
        made.fill()
    except BaseException:
        made.close()
        raise
    return made


def _tell_keys(example: Demo, service: Service, admin: str | None) -> None:
    """Lets whoever started it try what visitors cannot."""
    from tallymark.service.demo.demo import COMPETITOR

    say("Anybody may look, and change nothing. Keys to sign in with:", err=True)
    if admin is not None:
        say(f"  organiser        {admin}", err=True)
    say(f"  {COMPETITOR}    {example.make_competitor_key(service)}", err=True)
    say("An invitation for agents of yours, see: tally docs tutorial-agent", err=True)
    say(f"  {example.make_invitation(service)}", err=True)
