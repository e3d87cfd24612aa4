"""The few calls into the kernel that Python has no name for, each an OSError when refused.

Also how processes end that only the kernel sees: by a signal, or with their parent dead before.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_NO_NEW_PRIVS, _DUMPABLE, _ADOPT = 38, 4, 36
_CAPABILITY_VERSION = 0x20080522  # the third, with 64 capabilities in two halves
_NEW_MOUNTS, _NEW_NUMBERS = 0x00020000, 0x20000000
_CLONE = {"x86_64": 56}.get(os.uname().machine, 220)
_DYING_S = 5.0
_MOUNT_FLAGS = 2 | 4 | 8 | 1024  # nosuid, nodev, noexec, noatime


@functools.cache
def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def prepare(name: str, *arguments: Any) -> Callable[[], int]:
    """A call of a function of the C library, to be made later.

    A process that was just forked pays for every page that it writes to: what its parent has made
    ready costs it a third.
    """
    function = getattr(_load_libc(), name)

    def make() -> int:
        result: int = function(*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
        return result

    return make


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library."""
    return prepare(name, *arguments)()


def system_call(number: int, *arguments: Any) -> int:
    """Make a system call by its number, for those the C library has no function for."""
    return call("syscall", ctypes.c_long(number), *arguments)


def prepare_control(option: int, value: int = 0, pointer: Any = 0) -> Callable[[], int]:
    """`prctl`, with every argument as wide as the kernel reads it."""
    unused = ctypes.c_ulong(0)
    return prepare("prctl", option, ctypes.c_ulong(value), pointer or unused, unused, unused)


def control(option: int, value: int = 0) -> int:
    """Call `prctl` at once."""
    return prepare_control(option, value)()


def forbid_new_privileges() -> None:
    """Never gain a privilege again: set-uid files run as ordinary ones."""
    control(_NO_NEW_PRIVS, 1)


def hide_memory() -> None:
    """No other process of this user may look into this one, and it leaves no core file."""
    control(_DUMPABLE, 0)


def show_memory() -> None:
    """Let other processes of this user look at what this one uses."""
    control(_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Make orphans below this process its children, so that it can wait for them."""
    control(_ADOPT, 1)


def drop_capabilities() -> None:
    """Give up every capability, for good once `forbid_new_privileges` was called."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


def fork_numbered_apart() -> int:
    """Fork a child that is the first process of a namespace of its own: its number is always 1.

    It takes the capability to administer; the caller must have one thread.
    """
    python = ctypes.pythonapi  # holds the interpreter's lock, as a fork must
    python.PyOS_BeforeFork()
    zero = ctypes.c_ulong(0)
    flags = ctypes.c_ulong(_NEW_NUMBERS | signal.SIGCHLD)
    # Not by `unshare`, which gives a process one such namespace, for good.
    forked: int = python.syscall(ctypes.c_long(_CLONE), flags, zero, zero, zero, zero)
    if forked == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if forked < 0:
        raise OSError("no namespace of processes can be made")
    return forked


def name_signal(number: int) -> str:
    """A signal's name; those for real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def bury_process(pidfd: int) -> None:
    """Wait for a process that was killed, if it has become ours.

    Where this process is the first of its machine or container, orphans become its children, and
    stay zombies unless it waits for them.
    """
    with suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)


def bury_group(leader: int) -> None:
    """Wait for all processes of a group that was killed, if they have become ours.

    It sends no signal itself: once the leader is gone, its number may be another's.
    """
    until = time.monotonic() + _DYING_S
    with suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-leader, os.WNOHANG)[0] == 0:
                time.sleep(0.001)


def unshare_mounts() -> None:
    """Have a set of mounts of this process's own, to change without anyone else seeing it."""
    call("unshare", _NEW_MOUNTS)


def mount_memory(path: str, *, size_mb: float, files: int) -> None:
    """Mount an empty file system that lives in memory, bounded in bytes and in files."""
    options = f"size={int(size_mb * 2**20)},nr_inodes={files + 1},mode=0700"
    flags = ctypes.c_ulong(_MOUNT_FLAGS)
    call("mount", b"tmpfs", path.encode(), b"tmpfs", flags, options.encode())
