"""`tally doctor`: what this machine offers, and whether untrusted code can be run here."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.options import Db, Json
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox.leak_check import check_leaks
from tallymark.sandbox.machine_probe import MEMORY_GROUPS, probe
from tallymark.sandbox.policy import choose_policy
from tallymark.service.app import parse_address
from tallymark.text import StyledLine, Table, say

if TYPE_CHECKING:
    from tallymark.sandbox.leak_check import CheckedPath
    from tallymark.sandbox.machine_probe import Machine
    from tallymark.sandbox.policy import Policy

_BEHIND = {
    "bubblewrap": "bubblewrap, Landlock and seccomp",
    "landlock": "Landlock and seccomp; with bubblewrap, programs could have several processes",
}


def doctor(
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check this sandbox: bubblewrap or landlock."),
    ] = None,
    conformance: Annotated[
        bool, typer.Option("--conformance", help="Also attack the sandbox to test it.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Check which layers of the sandbox work on this machine, and say what to install.

    Exits with 0 if untrusted code can be run safely here, with 3 if it cannot.
    """
    machine = probe()
    chosen, problem, sights = None, None, []
    try:
        chosen = choose_policy(backend=backend)
        sights = _check_leaks(chosen, db)
    except WorkFailed as error:
        problem = error.problems[0]
    if not as_json:
        say(*_list_layers(machine, db), wrap=True)
        if problem is not None:
            say(problem.message, wrap=True)
        elif chosen is not None:
            say(*_describe_policy(chosen, machine, sights), wrap=True)
    attacks = _attack_sandbox(chosen, aloud=not as_json) if conformance and chosen else {}
    if as_json:
        found = {
            "backend": chosen and chosen.backend,
            "fallback": chosen and chosen.fallback,
            "seen_from_inside": {sight.what: sight.seen_by for sight in sights},
            "problem": problem and problem.to_dict(),
            "conformance": attacks if conformance else None,
        }
        print_json(_make_document(machine, db) | found)
    if problem or any(attacks.values()) or any(sight.seen_by for sight in sights):
        raise typer.Exit(3)


def _check_leaks(policy: Policy, db: str | None) -> list[CheckedPath]:
    """Check whether plugins and programs could open files of an organiser."""
    places = {"home": Path.home(), "folder": Path.cwd(), "challenges": Path("challenges")}
    with suppress(InvalidInput):
        path = parse_address(db or os.environ.get("TALLY_DB")).path
        places |= {} if path is None else {"database": path}
    # A challenge in use is unpacked where temporary files lie.
    with TemporaryDirectory(prefix="tally-challenge-") as unpacked:
        return check_leaks(policy, places | {"unpacked challenges": Path(unpacked)})


def _describe_policy(policy: Policy, machine: Machine, sights: list[CheckedPath]) -> list[str]:

    lines = [f"untrusted code is isolated by {_BEHIND[policy.backend]}"]
    if policy.fallback:
        lines.append(f"this is the weaker sandbox, because of {policy.fallback}")
    kept = machine.has(MEMORY_GROUPS)
    how = (
        "enforced by the kernel" if kept else "checked every 20 ms, and can be exceeded in between"
    )
    lines.append(f"the memory of programs is {how}")
    hidden = [sight.what for sight in sights if not sight.seen_by]
    if hidden:
        lines.append(f"hidden from plugins and programs: {', '.join(hidden)}")
    for sight in sights:
        if sight.seen_by:
            who = " and ".join(sight.seen_by)
            lines.append(f"VISIBLE to {who}: {sight.what} ({sight.path}); move it elsewhere")
    return lines


def _attack_sandbox(policy: Policy, *, aloud: bool) -> dict[str, list[str]]:
    """Every case of the conformance suite by its name, with what went wrong."""
    from tallymark.sandbox.conformance import Conformance, load_attacks  # noqa: PLC0415 (only with --conformance)
    from tallymark.sandbox.plugin_sandbox import Sandbox  # noqa: PLC0415 (only with --conformance)

    outcomes = {}
    with (
        TemporaryDirectory() as folder,
        Conformance(Path(folder)) as suite,
        Sandbox(policy) as sandbox,
    ):
        for case in load_attacks(policy.backend):
            outcomes[case.name] = failures = suite.failures(sandbox, case)
            if aloud:
                word, style = ("FAILED", "red") if failures else ("blocked", "green")
                say(StyledLine("\n  ".join([f"{word}  {case.name}", *failures]), style))
    if aloud:
        broken = sum(map(bool, outcomes.values()))
        say(f"{len(outcomes) - broken} of {len(outcomes)} attacks blocked")
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
    rows = [
        (layer.name, "have" if layer.present else "missing", layer.guards)
        for layer in machine.layers
    ]
    missing = [layer for layer in machine.layers if not layer.present]
    return [
        f"tallymark {_read_version()}, Python {machine.python}, kernel {machine.kernel}",
        f"database: {_describe_database(db)}",
        "",
        Table(("LAYER", "HERE", "GUARDS AGAINST"), rows, wrap=("GUARDS AGAINST",)),
        "",
        *(f"{each.name}: {each.why_not}\n  to do: {each.install}" for each in missing),
        *([""] if missing else []),
    ]


def _read_version() -> str:

    return version("tallymark")


def _describe_database(db: str | None) -> str:
    """Its name, without a password; nothing is opened or made."""
    try:
        address = parse_address(db or os.environ.get("TALLY_DB"))
    except InvalidInput as error:
        return f"unusable: {error}"
    if address.path is not None and not address.path.exists():
        return f"{address.shown} (created on first use)"
    return address.shown
