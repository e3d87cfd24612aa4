"""`tally view`: the pages of one's own store, on this machine alone."""

from __future__ import annotations

from typing import Annotated

import typer

from tallymark.cli.app_session import Db, InsecureLocal
from tallymark.installation import require_server
from tallymark.text import say

_HOST = "127.0.0.1"
_PORT = 7373


def view(
    db: Db = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any that is free.")
    ] = _PORT,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the first page in a browser as well.")
    ] = False,
    insecure_local: InsecureLocal = False,
) -> None:
    """Show your own runs, boards and agents as pages in a browser."""
    require_server("tally view")
    import os

    from tallymark.server import serve
    from tallymark.service.service import Service
    from tallymark.service.settings import read_settings

    settings = read_settings(os.environ, db=db, own=True, insecure_local=insecure_local)
    service = Service(settings)

    def tell(listening: int) -> None:
        address = f"http://localhost:{listening}/"
        say(f"Pages of {service.app.database} at {address}", "Ctrl-C ends it.")
        if open_:
            import webbrowser

            webbrowser.open(address)

    serve(service, host=_HOST, port=port, started=tell)
