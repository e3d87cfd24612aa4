"""`tally plugin`: check a plugin, see whom one is paused for, and let them go on."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, InsecureLocal, Json, Server, float_option
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json, read_text
from tallymark.errors import InvalidInput
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S
from tallymark.text import Table, format_count, format_moment, list_some, say

if TYPE_CHECKING:
    from tallymark.challenges.plugins import PluginReport
    from tallymark.sandbox import Sandbox

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
_SHOWN = 5


@app.command()
def check(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="Plugin: file.py:Class, module:Class, builtin.weighted_scorer, the name of an "
            "installed plugin, or 'formula: rating * 10'.",
        ),
    ],
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "-c", metavar="KEY=VALUE", help="Config value, as JSON. Repeatable."
        ),
    ] = None,
    config_file: Annotated[Path | None, typer.Option(help="JSON file with the config.")] = None,
    timeout: Annotated[
        float,
        float_option(min=0.01, max=600, help="Time limit for scoring one attempt, in seconds."),
    ] = DEFAULT_PLUGIN_TIMEOUT_S,
    as_json: Json = False,
    insecure_local: Annotated[
        bool,
        typer.Option(
            "--insecure-local", help="Run the plugin without a sandbox. Only for code you trust."
        ),
    ] = False,
) -> None:
    """Test a plugin on ordinary and unusual attempts, and report whether it is safe to rank by."""
    values = _read_config(config or [], config_file)
    report = _check_reference(reference, values, timeout, insecure_local=insecure_local)
    if as_json:
        print_json(report.to_dict())
    else:
        say(*report.parts())
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def paused(
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the agents for which a plugin is paused because their attempts crashed it too often."""
    with open_resources(db, server) as tally:
        found = list(tally.challenges.pauses())
    if as_json:
        print_json({"paused": msgspec.to_builtins(found)})
        return
    heads = ("CHALLENGE", "AGENT", "PLUGIN", "SINCE (UTC)", "ENDED", "THE LAST")
    rows = [
        (e.challenge, e.agent, e.plugin, format_moment(e.since), str(e.deadly), e.reason)
        for e in found
    ]
    drop = ("ENDED", "THE LAST", "SINCE (UTC)", "PLUGIN")
    table = Table(heads, rows, right=("ENDED",), wrap=("THE LAST",), drop=drop)
    say(table if rows else "no agent is paused")


@app.command()
def resume(
    challenge: Annotated[str, typer.Argument(metavar="CHALLENGE", show_default=False)],
    agent: Annotated[str | None, typer.Option(help="Only for this agent.")] = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Resume a paused plugin, and score the attempts that wait for it."""
    with open_resources(db, server, insecure_local=insecure_local) as tally:
        done = tally.challenges.resume(challenge, agent)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    unscored = f", {done.undefined:,} without a score:" if done.undefined else ""
    say(
        f"{format_count(done.attempts, 'attempt')} at {challenge} scored again{unscored}", wrap=True
    )
    for each in done.reasons[:_SHOWN]:
        say(f"  {each.attempt} of {each.agent}: {each.reason}")
    if done.undefined > _SHOWN:
        say(f"  and {done.undefined - _SHOWN:,} more")
    if done.paused_again:
        say(f"Paused again: {list_some(done.paused_again)}; see `tally plugin paused`", wrap=True)


def _check_reference(
    reference: str, config: dict[str, Any], timeout: float, *, insecure_local: bool
) -> PluginReport:
    from tallymark.challenges.plugins import check_plugin, load_plugin  # noqa: PLC0415 (loads the scorers)

    with ExitStack() as stack:

        def open_sandbox() -> Sandbox:
            from tallymark.sandbox import Sandbox  # noqa: PLC0415 (only for plugins in files)
            from tallymark.sandbox.policy import choose_policy  # noqa: PLC0415 (only for a database here)

            policy = choose_policy(insecure_local=insecure_local)
            return stack.enter_context(Sandbox(policy))

        reference, folder = _find_home(reference)
        plugin = load_plugin(reference, folder=folder, sandbox=open_sandbox)
        return check_plugin(plugin, config, timeout_s=timeout)


def _find_home(reference: str) -> tuple[str, Path]:
    """The folder to look in: this one, or that of the plugin's file where it lies elsewhere."""
    home, _, name = reference.rpartition(":")
    path, here = Path(home), Path.cwd()
    if path.suffix == ".py" and path.is_file():
        target = path.resolve()
        if not target.is_relative_to(here):
            return f"{target}:{name}", target.parent
    return reference, here


def _read_config(pairs: list[str], file: Path | None) -> dict[str, Any]:
    config = {} if file is None else _parse_object(read_text(file), str(file))
    return config | dict(_parse_pair(each) for each in pairs)


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} is not a JSON object", hint='as in: {"multiplier": 2.0}')
    return value


def _parse_pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidInput(f"--config {text!r} does not give a key a value", hint="write key=value")
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
