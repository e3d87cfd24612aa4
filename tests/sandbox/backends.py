"""Which backends this machine has, and what a program may use in each."""

from __future__ import annotations

from typing import Any, get_args

from tallymark.sandbox.limits import Limits
from tallymark.sandbox.machine_probe import SafeBackend, probe
from tallymark.sandbox.policy import Policy
from tallymark.sandbox.program_run import ProgramOutcome, run_program

SAFE: list[SafeBackend] = [
    backend for backend in get_args(SafeBackend) if not probe().missing(backend)
]


def limits(backend: str, **given: Any) -> Limits:
    """Small ones; without bubblewrap a program is one process."""
    usual = {"wall_s": 20.0, "memory_mb": 128, "processes": 8, "disk_mb": 8.0, "output_mb": 0.25}
    return Limits(**usual | given | ({} if backend == "bubblewrap" else {"processes": 1}))


def run_python(backend: SafeBackend, source: str, *arguments: str, **given: Any) -> ProgramOutcome:
    """A program of one file; `given` are limits, and what to keep."""
    keep = given.pop("keep", ())
    return run_program(
        ["python", "main.py", *arguments],
        files={"main.py": source},
        limits=limits(backend, **given),
        keep=keep,
        policy=Policy(backend),
    )
