"""`tally webhooks`: URLs that receive events, and their deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, Json, Server
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.text import Table, format_moment, say

if TYPE_CHECKING:
    from tallymark.service.webhooks import Delivery, NewWebhook, Webhook

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", show_default=False)]


@app.command()
def add(  # noqa: PLR0913, PLR0917 (the options of a command)
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="run.finished, gate.failed, record.beaten or attempt.failed. Repeatable."
        ),
    ] = None,
    challenge: Annotated[str | None, typer.Option(help="Only events of this challenge.")] = None,
    suite: Annotated[str | None, typer.Option(help="Only events of this suite.")] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Send events to a URL from now on. The signing secret is printed once."""
    with open_resources(db, server) as tally:
        events = {} if not event else {"events": cast("Any", event)}
        made = tally.webhooks.add(url, challenge=challenge, suite=suite, **events)
    _print_new(made, as_json)


@app.command("list")
def list_(db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """List webhooks."""
    with open_resources(db, server) as tally:
        found = list(tally.webhooks.list())
    if as_json:
        print_json(msgspec.to_builtins(found))
    elif found:
        heads = ("WEBHOOK", "STATE", "URL", "EVENTS", "OF")
        rows = [
            (
                each.id,
                each.state,
                each.url,
                ", ".join(each.events),
                _write_scope(each),
            )
            for each in found
        ]
        say(Table(heads, rows, wrap=("EVENTS", "OF"), cut=("URL",), drop=("OF", "EVENTS")))
    else:
        say("no webhooks; make one with: tally webhooks add URL", wrap=True)


@app.command()
def pause(
    webhook: WebhookArgument, db: Db = None, server: Server = None, as_json: Json = False
) -> None:
    """Pause a webhook until it is resumed."""
    with open_resources(db, server) as tally:
        found = tally.webhooks.pause(webhook)
    _print(found, as_json, f"{webhook} is paused")


@app.command()
def resume(
    webhook: WebhookArgument, db: Db = None, server: Server = None, as_json: Json = False
) -> None:
    """Resume a webhook; waiting messages are sent first."""
    with open_resources(db, server) as tally:
        found = tally.webhooks.resume(webhook)
    _print(found, as_json, f"{webhook} is resumed")


@app.command()
def rotate(
    webhook: WebhookArgument, db: Db = None, server: Server = None, as_json: Json = False
) -> None:
    """Replace the signing secret. The new one is printed once."""
    with open_resources(db, server) as tally:
        made = tally.webhooks.rotate(webhook)
    _print_new(made, as_json)


@app.command()
def remove(
    webhook: WebhookArgument, db: Db = None, server: Server = None, as_json: Json = False
) -> None:
    """Remove a webhook and its deliveries."""
    with open_resources(db, server) as tally:
        found = tally.webhooks.remove(webhook)
    _print(found, as_json, f"{webhook} is removed")


@app.command()
def ping(
    webhook: WebhookArgument, db: Db = None, server: Server = None, as_json: Json = False
) -> None:
    """Send a test message."""
    with open_resources(db, server) as tally:
        count = tally.webhooks.ping(webhook)
    if as_json:
        print_json({"webhooks": count})
    else:
        say(f"queued; see the result with: tally webhooks deliveries {webhook}", wrap=True)


@app.command()
def deliveries(
    webhook: WebhookArgument,
    state: Annotated[
        str | None,
        typer.Option(help="Only deliveries in this state: waiting, delivered or failed."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=200, help="Show at most N.")
    ] = 20,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the deliveries of a webhook with their results, newest first."""
    with open_resources(db, server) as tally:
        found = tally.webhooks.deliveries(webhook, cast("Any", state), limit).items
    if as_json:
        print_json(msgspec.to_builtins(found))
    elif found:
        heads = ("DELIVERY", "EVENT", "AT (UTC)", "STATE", "TRIES", "LAST ANSWER")
        rows = [
            (
                each.id,
                each.event,
                format_moment(each.created_at),
                each.state,
                str(each.tries),
                each.error or ("-" if each.status is None else str(each.status)),
            )
            for each in found
        ]
        say(Table(heads, rows, right=("TRIES",), wrap=("LAST ANSWER",), drop=("TRIES", "AT (UTC)")))
    else:
        say(f"nothing was sent to {webhook}" + ("" if state is None else f" that is {state}"))


@app.command()
def replay(
    webhook: WebhookArgument,
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", show_default=False)],
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Send a message again, with the same id."""
    with open_resources(db, server) as tally:
        found = tally.webhooks.replay(webhook, delivery)
    _print(found, as_json, f"{delivery} is queued again")


def _write_scope(webhook: Webhook) -> str:
    scopes = (("challenge", webhook.challenge), ("suite", webhook.suite))
    return ", ".join(f"{kind} {name}" for kind, name in scopes if name is not None) or "all"


def _print_new(made: NewWebhook, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(made))
        return
    hook = made.webhook
    say(f"{hook.id} sends {', '.join(hook.events)} to {hook.url}; signing secret:", err=True)
    say(made.secret or "")


def _print(record: Webhook | Delivery, as_json: bool, line: str) -> None:
    if as_json:
        print_json(msgspec.to_builtins(record))
    else:
        say(line)
