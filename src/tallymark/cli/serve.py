"""`tally serve`: the server that a team, a reporting service and agents share."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tallymark.cli.app_session import Db, InsecureLocal, JudgeModel
from tallymark.text import say


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8321,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Threads for jobs; 0 leaves them to tally worker.")
    ] = 2,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
) -> None:
    """Serve the API and the pages, for everybody who has a key.

    The key of the first start is shown once, or given as TALLY_ADMIN_KEY.
    """
    from tallymark.app.service import Service, read_settings
    from tallymark.server import serve as serve_until_stopped

    settings = read_settings(
        os.environ,
        db=db,
        workers=workers,
        judge_model=judge_model,
        insecure_local=insecure_local,
    )
    service = Service(settings)
    first = service.accounts.ensure_admin_key(os.environ.get("TALLY_ADMIN_KEY"))
    if first is not None:
        say("The key of the first administrator, shown this once:", f"  {first}", err=True)

    def tell(listening: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        say(f"Tallymark serves {service.app.store.shown} at http://{shown}:{listening}", err=True)
        say("Stop it with Ctrl-C.", err=True)

    serve_until_stopped(service, host=host, port=port, started=tell)
