"""Which backends this machine has, and what a program may use in each."""

from __future__ import annotations

import os
from typing import Any, get_args

import pytest

from tallymark.sandbox.limits import Limits
from tallymark.sandbox.machine_probe import SafeBackend, probe
from tallymark.sandbox.policy import Policy
from tallymark.sandbox.program_run import ProgramOutcome, run_program

SAFE: list[SafeBackend] = [
    backend for backend in get_args(SafeBackend) if not probe().missing(backend)
]

ORDINARY = os.geteuid() != 0
FIRST: list[Any] = [
    backend if backend == SAFE[0] or ORDINARY else pytest.param(backend, marks=pytest.mark.proof)
    for backend in SAFE
]
"""For root the others wait for a proof: they are for those who may not use the first."""
EACH_WITH_ONE: list[Any] = [
    ("sqlite", SAFE[0]),
    pytest.param("postgresql", SAFE[-1], marks=pytest.mark.proof),
]
"""Each database with one of the backends: neither knows of the other."""


def limits(backend: str, **given: Any) -> Limits:
    """Small ones, but for the time: on a busy machine another limit is reached late.

    Without bubblewrap a program is one process.
    """
    usual = {"wall_s": 300.0, "memory_mb": 128, "processes": 8, "disk_mb": 8.0, "output_mb": 0.25}
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
