"""`tally doctor`: what this machine offers, and whether untrusted code can be run here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput, WorkFailed

if TYPE_CHECKING:
    from tallymark.sandbox.machine_probe import Layer, Machine
    from tallymark.sandbox.policy import Policy

_BEHIND = {
    "bubblewrap": "bubblewrap, Landlock and seccomp",
    "landlock": "Landlock and seccomp; with bubblewrap, programs could have several processes",
}


def doctor(
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Ask about this sandbox: bubblewrap or landlock."),
    ] = None,
    conformance: Annotated[
        bool, typer.Option("--conformance", help="Also attack the sandbox, and see it hold.")
    ] = False,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say which layers of the sandbox work here, and what to install.

    Exits with 0 when untrusted code can be run safely on this machine, with 3 when it cannot.
    """
    from tallymark.sandbox.machine_probe import probe
    from tallymark.sandbox.policy import choose_policy

    machine = probe()
    chosen, problem = None, None
    try:
        chosen = choose_policy(backend=backend)
    except WorkFailed as error:
        problem = error.problems[0]
    if not as_json:
        typer.echo("\n".join(_list_layers(machine, db)))
        why = "" if problem is None else problem.message
        typer.secho(f"untrusted code is run behind {_BEHIND[chosen.backend]}" if chosen else why)
    attacks = _attack_sandbox(chosen, aloud=not as_json) if conformance and chosen else {}
    if as_json:
        found = {
            "backend": chosen and chosen.backend,
            "problem": problem and problem.to_dict(),
            "conformance": attacks if conformance else None,
        }
        print_json(_make_document(machine, db) | found)
    if chosen is None or any(attacks.values()):
        raise typer.Exit(3)


def _attack_sandbox(policy: Policy, *, aloud: bool) -> dict[str, list[str]]:
    """Every case of the conformance suite by its name, with what went wrong."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from tallymark.sandbox.conformance import Conformance, load_attacks
    from tallymark.sandbox.plugin_sandbox import Sandbox

    outcomes = {}
    with (
        TemporaryDirectory() as folder,
        Conformance(Path(folder)) as suite,
        Sandbox(policy) as sandbox,
    ):
        for case in load_attacks(policy.backend):
            outcomes[case.name] = failures = suite.failures(sandbox, case)
            if aloud:
                word, colour = ("FAILED", "red") if failures else ("held", "green")
                mark = typer.style(word, fg=colour)
                typer.echo("\n  ".join([f"{mark}  {case.name}", *failures]))
    if aloud:
        broken = sum(map(bool, outcomes.values()))
        typer.secho(f"{len(outcomes) - broken} of {len(outcomes)} attacks held off")
    return outcomes


def _make_document(machine: Machine, db: str | None) -> dict[str, Any]:
    layers = [
        {
            "name": layer.name,
            "present": layer.present,
            "guards": layer.guards,
            "why_not": layer.why_not,
            "install": None if layer.present else layer.install,
        }
        for layer in machine.layers
    ]
    return {
        "tallymark": _read_version(),
        "python": machine.python,
        "kernel": machine.kernel,
        "landlock_abi": machine.landlock_abi,
        "database": _describe_database(db),
        "layers": layers,
    }


def _list_layers(machine: Machine, db: str | None) -> list[str]:
    width = max(len(layer.name) for layer in machine.layers)
    lines = [
        f"tallymark {_read_version()}, Python {machine.python}, kernel {machine.kernel}",
        f"database: {_describe_database(db)}",
        "",
        f"{'LAYER'.ljust(width)}  HERE     GUARDS AGAINST",
    ]
    for layer in machine.layers:
        lines += _describe_layer(layer, width)
    return [*lines, ""]


def _describe_layer(layer: Layer, width: int) -> list[str]:
    have, missing = typer.style("have   ", fg="green"), typer.style("missing", fg="red")
    mark = have if layer.present else missing
    lines = [f"{layer.name.ljust(width)}  {mark}  {layer.guards}"]
    if not layer.present:
        indent = " " * (width + 11)
        lines += [f"{indent}why: {layer.why_not}", f"{indent}to do: {layer.install}"]
    return lines


def _read_version() -> str:
    from importlib.metadata import version

    return version("tallymark")


def _describe_database(db: str | None) -> str:
    """Its name, without a password; nothing is opened or made."""
    from tallymark.store.address import parse_address

    try:
        address = parse_address(db or os.environ.get("TALLY_DB"))
    except InvalidInput as error:
        return f"unusable: {error}"
    if address.path is not None and not address.path.exists():
        return f"{address.shown} (made when first needed)"
    return address.shown
