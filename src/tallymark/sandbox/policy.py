"""`Policy`: the sandbox backend for untrusted code. Without a backend, it does not run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, get_args

from tallymark.errors import InvalidInput, WorkFailed, suggest
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.machine_probe import Machine, SafeBackend, probe

Backend = Literal[SafeBackend, "insecure-local"]
BACKEND_VARIABLE = "TALLY_SANDBOX"
UNSAFE_WARNING = (
    "made without a sandbox (--insecure-local): the code could read and change everything that "
    "the user running it can, the scores included"
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A backend, and the warnings on every result made with it."""

    backend: Backend
    warnings: tuple[str, ...] = ()
    fallback: str = field(default="", compare=False)
    """Reason for a weaker backend than wanted, if it was not chosen; otherwise empty."""

    def describe(self, limits: Limits) -> str:
        """The backend and limits in one line, to store with a result."""
        return f"{self.backend}: {limits.describe()}"


def choose_policy(*, insecure_local: bool = False, backend: str | None = None) -> Policy:
    """Choose the requested backend, or the strongest that works here.

    Fails closed: without a safe backend it raises WorkFailed, which names what is missing and what
    to install. Only `insecure_local` runs without one.
    """
    if insecure_local:
        if backend is not None:
            raise InvalidInput(
                f"--insecure-local and the sandbox {backend!r} contradict each other"
            )
        return Policy("insecure-local", (UNSAFE_WARNING,))
    machine = probe()
    asked = _read_request(backend)
    if asked is not None:
        if machine.missing(asked):
            raise _make_refusal(f"the sandbox {asked!r} does not work here", machine, asked)
        return Policy(asked)
    lacking: list[str] = []
    for candidate in get_args(SafeBackend):
        missing = machine.missing(candidate)
        if not missing:
            return Policy(candidate, fallback="; ".join(lacking))
        lacking += (f"{layer.name}: {layer.why_not}" for layer in missing)
    raise _make_refusal("no sandbox works here", machine, "bubblewrap")


def _read_request(backend: str | None) -> SafeBackend | None:
    """By the caller, else by the environment."""
    name = backend or os.environ.get(BACKEND_VARIABLE)
    if not name:
        return None
    for known in get_args(SafeBackend):
        if name == known:
            return known  # type: ignore[no-any-return] # an argument of the Literal
    where = "" if backend else f" in {BACKEND_VARIABLE}"
    if name == "insecure-local":
        raise InvalidInput(
            f"running without a sandbox cannot be set{where}",
            hint="give --insecure-local on the command line each time",
        )
    guess = suggest(name, get_args(SafeBackend))
    known = " or ".join(get_args(SafeBackend))
    hint = f"did you mean {guess!r}?" if guess else f"it is {known}"
    raise InvalidInput(f"unknown sandbox {name!r}{where}", hint=hint)


def _make_refusal(what: str, machine: Machine, backend: SafeBackend) -> WorkFailed:
    missing = machine.missing(backend)
    why = "; ".join(f"{layer.name}: {layer.why_not}" for layer in missing)
    remedies = " and ".join(dict.fromkeys(layer.install for layer in missing if layer.install))
    return WorkFailed(
        f"untrusted code is not run: {what} ({why})",
        hint=f"{remedies or 'use another machine'}; `tally doctor` shows more",
    )
