"""`tally serve`, `view`, `worker` and `mcp`: processes that run until they are stopped."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.options import Db, InsecureLocal, JudgeModel, LogFormat
from tallymark.cli.session import tell_store
from tallymark.errors import InvalidInput
from tallymark.installation import require_server
from tallymark.service.app import App
from tallymark.service.server_logs import set_up_logs
from tallymark.service.settings import read_settings
from tallymark.text import format_count, say

if TYPE_CHECKING:
    from types import FrameType

    from tallymark.service.demo import Demo
    from tallymark.service.service import Service


def serve(  # noqa: PLR0913, PLR0917 (the options of a command)
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8321,
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            max=64,
            help="Scoring jobs, and long jobs, to run at once; 0 leaves them to `tally worker`.",
        ),
    ] = 2,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Serve an example with live data, which is deleted at the end."
        ),
    ] = False,
    log_format: LogFormat = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
) -> None:
    """Serve the API and the pages to everybody who has a key.

    The first start prints an admin key once; TALLY_ADMIN_KEY sets it instead. With --demo, an
    example store with moving leaderboards can be viewed without a key.
    """
    require_server("tally serve")
    from tallymark.server import serve as serve_until_stopped  # noqa: PLC0415 (needs tallymark[server])
    from tallymark.service.service import Service  # noqa: PLC0415 (heavy, and a worker does without it)

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
        first: str | None = None

        def make_keys() -> None:
            # Once the address is taken: a key that is shown only once must not be made in vain.
            nonlocal first
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
                    "In another terminal, log in with that key, and invite a user:",
                    f"  tally login http://{shown}:{listening}",
                    f"  tally admin invitations create --server http://{shown}:{listening}",
                    err=True,
                )
            say("Stop it with Ctrl-C.", err=True)

        serve_until_stopped(service, host=host, port=port, bound=make_keys, started=tell)


def _make_demo(db: str | None) -> Demo:
    from tallymark.service.demo import Demo  # noqa: PLC0415 (only with --demo)

    if db is not None:
        raise InvalidInput("--demo uses its own store", hint="leave --db out")
    made = Demo()
    try:
        say("Running the examples to create a few days of history ...", err=True)
        if made.no_sandbox:
            say(f"Skipped examples that need a sandbox: {made.no_sandbox}", err=True)
        made.fill()
    except BaseException:
        made.close()
        raise
    return made


def _tell_keys(example: Demo, service: Service, admin: str | None) -> None:
    """Print keys with which the operator can do more than visitors."""
    from tallymark.service.demo.demo import COMPETITOR  # noqa: PLC0415 (only with --demo)

    say("Anyone can view it, but not change it. Keys to sign in with:", err=True)
    if admin is not None:
        say(f"  organiser        {admin}", err=True)
    say(f"  {COMPETITOR}    {example.make_competitor_key(service)}", err=True)
    say("An invitation for your own agents, see: tally docs tutorial-agent", err=True)
    say(f"  {example.make_invitation(service)}", err=True)


_HOST = "127.0.0.1"
_PORT = 7373


def view(
    db: Db = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = _PORT,
    open_: Annotated[
        bool, typer.Option("--open", help="Also open the home page in a browser.")
    ] = False,
    insecure_local: InsecureLocal = False,
) -> None:
    """Show your own runs, leaderboards and agents as pages in a browser."""
    require_server("tally view")

    from tallymark.server import serve  # noqa: PLC0415 (needs tallymark[server])
    from tallymark.service.service import Service  # noqa: PLC0415 (heavy, and a worker does without it)

    settings = read_settings(os.environ, db=db, own=True, insecure_local=insecure_local)
    service = Service(settings)

    def tell(listening: int) -> None:
        address = f"http://localhost:{listening}/"
        say(f"Pages of {service.app.database} at {address}", "Ctrl-C ends it.")
        if open_:
            import webbrowser  # noqa: PLC0415 (only with --open)

            webbrowser.open(address)

    serve(service, host=_HOST, port=port, started=tell)


def worker(
    db: Db = None,
    count: Annotated[
        int,
        typer.Option(
            "--count",
            min=1,
            max=1000,
            help="Number of scoring jobs, and of long jobs, to run at once.",
        ),
    ] = 2,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only jobs of this kind. Repeatable."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Exit when the queue is empty.")] = False,
    log_format: LogFormat = None,
) -> None:
    """Run queued jobs: score submissions, run suites, rescore. Several workers can run anywhere.

    Ctrl-C or SIGTERM stops it within 10 seconds: running jobs finish or go back to the queue.
    """
    from tallymark.service.telemetry import start_tracing  # noqa: PLC0415 (only for a worker)
    from tallymark.service.workers import KINDS, Workers  # noqa: PLC0415 (heavy)

    set_up_logs(log_format, os.environ)
    told = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        told.set()
        # A second Ctrl-C ends it at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    tell_store(db)
    with closing(App(db)) as app, ExitStack() as left:
        left.callback(start_tracing(os.environ))
        workers = Workers(app, count, kinds or tuple(KINDS))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        say(f"{format_count(count, 'worker')} for {app.database}; Ctrl-C ends them", err=True)
        with workers:
            if once:
                workers.wait_until_idle(told)
            else:
                told.wait()
            app.end_soon()
            say("stopping: unfinished jobs go back to the queue", err=True)


def mcp(
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compete as this agent, and see only what it may see."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL|NAME",
            envvar="TALLY_SERVER",
            help="Serve the tools of this server, with the key of `tally login` or TALLY_KEY.",
        ),
    ] = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
) -> None:
    """Serve tools for agents over MCP, on standard input and output.

    In your own store, the tools have the owner's rights; with --agent, they compete as that agent.
    """
    require_server("tally mcp")
    if server is not None:
        from tallymark.client.addresses import find_address  # noqa: PLC0415 (loads httpx)

        address = find_address(server)
        if not address.key or agent is not None:
            hint = "log in with tally login, or set TALLY_KEY; an agent's key names its agent"
            said = "--agent is for your own store" if agent else "there is no key for the server"
            raise InvalidInput(said, hint=hint)
        from tallymark.mcp.stdio import serve_remote  # noqa: PLC0415 (needs tallymark[server])

        serve_remote(address.url, address.key)
        return
    from tallymark.mcp.stdio import serve_own  # noqa: PLC0415 (needs tallymark[server])
    from tallymark.service.service import Service  # noqa: PLC0415 (heavy, and a worker does without it)

    settings = read_settings(
        os.environ,
        db=db,
        own=True,
        workers=1,
        judge_model=judge_model,
        insecure_local=insecure_local,
    )
    serve_own(Service(settings), agent)
