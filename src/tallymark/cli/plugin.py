"""`tally plugin check`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.streams import print_json, read_text
from tallymark.errors import InvalidInput
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.challenges.plugins import PluginReport
    from tallymark.sandbox import Sandbox

app = typer.Typer(help="Check a scorer plugin of a challenge.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `check` a command of its own, although it is the only one."""


@app.command()
def check(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="path/file.py:Class, module:Class, builtin.weighted_scorer, the name of an "
            "installed plugin, or 'formula: rating * 10'.",
        ),
    ],
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A value, as JSON. Repeat it."),
    ] = None,
    config_file: Annotated[Path | None, typer.Option(help="The config, as a JSON file.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0.01, max=600, help="Seconds that scoring one attempt may take.")
    ] = DEFAULT_PLUGIN_TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    insecure_local: Annotated[
        bool,
        typer.Option("--insecure-local", help="Run the plugin without a sandbox. Trust it first."),
    ] = False,
) -> None:
    """Try a plugin on ordinary and awkward attempts, and say whether a board can rest on it."""
    values = _read_config(config or [], config_file)
    report = _check_reference(reference, values, timeout, insecure_local=insecure_local)
    if as_json:
        print_json(report.to_dict())
    else:
        say(*report.parts())
    if not report.ok:
        raise typer.Exit(1)


def _check_reference(
    reference: str, config: dict[str, Any], timeout: float, *, insecure_local: bool
) -> PluginReport:
    from tallymark.challenges.plugins import check_plugin, load_plugin

    with ExitStack() as stack:

        def open_sandbox() -> Sandbox:
            from tallymark.sandbox import Sandbox
            from tallymark.sandbox.policy import choose_policy

            # A plugin that crashes on every attempt is to be reported, not paused.
            policy = choose_policy(insecure_local=insecure_local)
            return stack.enter_context(Sandbox(policy, pause_after=1_000_000))

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
