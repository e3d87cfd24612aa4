"""Tests single layers, each in a child that is thrown away; run by the probe as a program.

A layer counts only when it was seen to hold: the test tries what it should refuse.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tallymark.sandbox import kernel_calls, landlock, memory_group, seccomp

_NEW_USER = 0x10000000


def main() -> None:
    """Read a seccomp filter, maybe empty; print why each layer does not hold, or null."""
    code = sys.stdin.buffer.read()
    trials: dict[str, Callable[[], None]] = {
        "landlock": _try_landlock,
        "seccomp": lambda: _try_seccomp(code),
        "pidfd": _try_pidfd,
        "user namespaces": _try_user_namespace,
        "memory groups": lambda: memory_group.try_group(memory_group.find_parent()),
    }
    found = {name: _try_in_child(trial) for name, trial in trials.items()}
    sys.stdout.write(json.dumps(found | {"abi": landlock.abi()}))


def _try_in_child(trial: Callable[[], None]) -> str | None:
    """Run a trial in a child of its own; return the reason of its failure."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trial()
        except BaseException as error:  # noqa: BLE001 (after any exception, the layer does not hold)
            os.write(theirs, str(error).encode() or b"failed")
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as heard:
        message = heard.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    return message or (f"the trial ended with {ended}" if ended else None)


def _try_user_namespace() -> None:
    kernel_calls.call("unshare", _NEW_USER)


def _try_landlock() -> None:
    landlock.restrict(read=[], write=[])
    try:
        list(Path("/").iterdir())
    except PermissionError:
        return
    raise RuntimeError("the kernel took the rules and does not keep them")


def _try_seccomp(code: bytes) -> None:
    seccomp.load(code)
    try:
        kernel_calls.call("socket", 1, 1, 0)
    except PermissionError:
        return
    raise RuntimeError("the kernel took the filter and does not keep it")


def _try_pidfd() -> None:
    nothing = 0  # the signal that only checks the permission to send one
    signal.pidfd_send_signal(os.pidfd_open(os.getpid()), nothing)
