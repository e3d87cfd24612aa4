"""`tally doctor`: what this machine offers, and whether untrusted code can be run here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.text import StyledLine, Table, say

if TYPE_CHECKING:
    from tallymark.sandbox.machine_probe import Machine
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
        say(*_list_layers(machine, db))
        why = "" if problem is None else problem.message
        say(f"untrusted code is run behind {_BEHIND[chosen.backend]}" if chosen else why)
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
                word, style = ("FAILED", "red") if failures else ("held", "green")
                say(StyledLine("\n  ".join([f"{word}  {case.name}", *failures]), style))
    if aloud:
        broken = sum(map(bool, outcomes.values()))
        say(f"{len(outcomes) - broken} of {len(outcomes)} attacks held off")
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


def _list_layers(machine: Machine, db: str | None) -> list[str | Table]:
    rows = []
    for layer in machine.layers:
        rows.append((layer.name, "have" if layer.present else "missing", layer.guards))
        if not layer.present:
            rows += [("", "", f"why: {layer.why_not}"), ("", "", f"to do: {layer.install}")]
    return [
        f"tallymark {_read_version()}, Python {machine.python}, kernel {machine.kernel}",
        f"database: {_describe_database(db)}",
        "",
        Table(("LAYER", "HERE", "GUARDS AGAINST"), rows, wrap=("GUARDS AGAINST",)),
        "",
    ]


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
