"""`tally view`: the pages of one's own store, on this machine alone."""

from __future__ import annotations

from typing import Annotated

import typer

from tallymark.cli.app_session import Db
from tallymark.errors import WorkFailed
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
) -> None:
    """Look at what is kept: pages of runs, boards and agents, for you on this machine alone."""
    import socket
    from contextlib import closing

    import uvicorn

    from tallymark.app.app import App
    from tallymark.web.own_store import make_own_site

    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise WorkFailed(
            f"nothing can listen on {_HOST}:{port}: {error.strerror or error}",
            hint="name another with --port, or any that is free with --port 0",
        ) from None
    with closing(App(db)) as app, listener:
        port = listener.getsockname()[1]
        address = f"http://localhost:{port}/"
        say(f"Pages of {app.store.shown} at {address}", "Ctrl-C ends it.")
        if open_:
            import webbrowser

            webbrowser.open(address)
        config = uvicorn.Config(
            make_own_site(app, port), log_level="warning", access_log=False, server_header=False
        )
        uvicorn.Server(config).run(sockets=[listener])
