"""Starts a program and, when it ends or is told to, ends all that it has started.

Run as a script, with nothing else loaded: `python keeper.py GRACE WORD...`, on Linux. Whoever the
program starts may leave its group, its session and its parent, and is still found here: this
process inherits those whose parents are gone. If whoever started it dies, it ends them, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_PARENT_DIES, _INHERIT = 1, 36  # of prctl(2)
_STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_MOST_S = 10.0
NOT_STARTED = 127


def main() -> int:
    """The exit code of the program, as a shell has it."""
    grace, words = float(sys.argv[1]), sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_STOPS, signal.SIGCHLD})
    libc = ctypes.CDLL(None)
    libc.prctl(_INHERIT, 1, 0, 0, 0)
    libc.prctl(_PARENT_DIES, signal.SIGTERM, 0, 0, 0)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_STOPS, signal.SIGCHLD})
        try:
            os.execvp(words[0], words)  # noqa: S606 (the user's own program)
        except OSError as error:
            os.write(2, f"{words[0]} cannot be started: {error.strerror}\n".encode())
        os._exit(NOT_STARTED)
    code = _wait(child, None)
    if code is None:  # told to stop: it may still say goodbye, and send what it has
        _kill(signal.SIGTERM)
        code = _wait(child, time.monotonic() + grace)
    _kill_all()
    return 128 + signal.SIGTERM if code is None else code


def _wait(child: int, until: float | None) -> int | None:
    """The exit code of the child; None when told to stop, or when the time is up."""
    watched = {signal.SIGCHLD} if until else {signal.SIGCHLD, *_STOPS}
    while True:
        left = 3600.0 if until is None else max(0.0, until - time.monotonic())
        heard = signal.sigtimedwait(watched, left)
        ended = _reap()
        if child in ended:
            return ended[child]
        if (heard is None and until is not None) or (heard and heard.si_signo in _STOPS):
            return None


def _reap() -> dict[int, int]:
    ended: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            code = os.waitstatus_to_exitcode(status)
            ended[pid] = code if code >= 0 else 128 - code
    except ChildProcessError:
        pass
    return ended


def _kill_all() -> None:
    """Until nobody is left; who forks faster than this is stopped first."""
    until = time.monotonic() + _MOST_S
    while time.monotonic() < until:
        _kill(signal.SIGSTOP)
        if not _kill(signal.SIGKILL):
            return
        time.sleep(0.005)
        _reap()


def _kill(number: int) -> int:
    """Sends a signal to all that descend from here; how many there are."""
    found = _find_descendants()
    for pid in found:
        try:
            os.kill(pid, number)
        except OSError:
            continue
    return len(found)


def _find_descendants() -> list[int]:
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                state, parent = (each / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if state != b"Z":
                parents[int(each.name)] = int(parent)
    found: set[int] = set()
    more = {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - found
        found |= more
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
