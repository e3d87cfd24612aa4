"""Seccomp, put up around a child of the test."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.forked_child import in_a_child

from tallymark.sandbox import kernel_calls, seccomp
from tallymark.sandbox.machine_probe import probe

_LAYERS = {each.name: each for each in probe().layers}
needs_seccomp = pytest.mark.skipif(not _LAYERS["seccomp"].present, reason="no seccomp here")


def fork() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


@needs_seccomp
@pytest.mark.parametrize(
    ("work", "alone", "with_processes"),
    [
        (fork, errno.EPERM, 0),
        (lambda: os.execv("/bin/true", ["true"]), errno.EPERM, 0),
        (lambda: os.kill(os.getpid(), 0), errno.EPERM, 0),
        (socket.socket, errno.EPERM, errno.EPERM),
        (socket.socketpair, 0, 0),
        (lambda: socket.socketpair(type=socket.SOCK_DGRAM), errno.EPERM, errno.EPERM),
        (lambda: Path("/").chmod(0o755), errno.EPERM, errno.EPERM),
        (lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU), errno.EPERM, errno.EPERM),
        (lambda: resource.prlimit(0, resource.RLIMIT_CPU), 0, 0),
        (lambda: os.memfd_create("x"), errno.EPERM, errno.EPERM),
        (lambda: kernel_calls.call("unshare", 0), -signal.SIGSYS, -signal.SIGSYS),
        (lambda: kernel_calls.call("clone", 0, 0, 0x10000000), errno.EINVAL, errno.EINVAL),
        (lambda: kernel_calls.system_call(435), errno.ENOSYS, errno.ENOSYS),
        (lambda: os.listdir("/"), 0, 0),  # noqa: PTH208 (the call itself)
    ],
    ids=[
        "fork",
        "exec",
        "kill",
        "socket",
        "socketpair",
        "datagrams",
        "chmod",
        "limits of others",
        "its own limits",
        "memfd",
        "unshare",
        "clone without a function",
        "clone3",
        "list",
    ],
)
def test_seccomp(work: Callable[[], object], alone: int, with_processes: int) -> None:
    def confined(*, processes: bool) -> Callable[[], None]:
        def run() -> None:
            seccomp.load(seccomp.program(fork=processes, exec=processes))
            work()

        return run

    assert in_a_child(confined(processes=False)) == alone
    assert in_a_child(confined(processes=True)) == with_processes


@needs_seccomp
def test_new_namespaces_are_refused_where_processes_are_allowed() -> None:
    clone, new_user, child_ended = {"x86_64": 56, "aarch64": 220}[os.uname().machine], 1 << 28, 17

    def confined() -> None:
        seccomp.load(seccomp.program(fork=True, exec=True))
        if kernel_calls.system_call(clone, new_user | child_ended, 0, 0, 0, 0) == 0:
            os._exit(0)

    assert in_a_child(confined) == errno.EPERM


@needs_seccomp
def test_modes_of_files_may_change_where_all_files_are_its_own(tmp_path: Path) -> None:
    def confined() -> None:
        seccomp.load(seccomp.program(fork=False, exec=False, attributes=True))
        tmp_path.chmod(0o700)

    assert in_a_child(confined) == 0
