"""Start a program and, when it ends or a signal asks for it, end everything that it has started.

Run as a script that loads nothing else: `python process_supervisor.py GRACE WORD...`, on Linux.
Processes may leave their group, session and parent and are still found: this process is the
subreaper of orphans. If its own parent dies, it ends them too.
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
    """Return the exit code of the program as a shell would."""
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
    if code is None:  # a signal: the program may still finish what it is sending
        _kill(signal.SIGTERM)
        code = _wait(child, time.monotonic() + grace)
    _kill_all()
    return 128 + signal.SIGTERM if code is None else code


def _wait(child: int, until: float | None) -> int | None:
    """Return the exit code of the child; None on a signal to stop, or when the time is up."""
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
    """Kill until none is left; all are stopped first, because some fork faster than this."""
    until = time.monotonic() + _MOST_S
    while time.monotonic() < until:
        _kill(signal.SIGSTOP)
        if not _kill(signal.SIGKILL):
            return
        time.sleep(0.005)
        _reap()


def _kill(number: int) -> int:
    """Send a signal to all descendants; return their number."""
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
