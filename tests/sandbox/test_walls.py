"""Each wall by itself, put up around a child of the test: Landlock, seccomp, rlimits, the view."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.backends import SAFE

from tallymark.sandbox import Limits, bubblewrap, interpreter, kernel, landlock, rlimits, seccomp

needs_landlock = pytest.mark.skipif(landlock.abi() < 6, reason="no Landlock here")
needs_seccomp = pytest.mark.skipif(not seccomp.available(), reason="no seccomp here")
needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in SAFE, reason="no bubblewrap here")


def in_a_child(work: Callable[[], object]) -> int:
    """How a forked child ends that does the work: 0, the errno of what was refused, or a signal."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            work()
            code = 0
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@needs_landlock
@pytest.mark.parametrize(
    ("work", "refused"),
    [
        (lambda folder: (folder / "open/file").read_bytes(), 0),
        (lambda folder: (folder / "open/new").write_bytes(b"x"), errno.EACCES),
        (lambda folder: (folder / "mine/new").write_bytes(b"x"), 0),
        (lambda folder: (folder / "mine/new").read_bytes(), errno.ENOENT),
        (lambda folder: (folder / "mine/folder").mkdir(), 0),
        (lambda folder: (folder / "mine/link").symlink_to("/"), errno.EACCES),
        (lambda folder: os.mkfifo(folder / "mine/fifo"), errno.EACCES),
        (lambda folder: (folder / "shut/file").read_bytes(), errno.EACCES),
        (lambda folder: (folder / "shut/file").unlink(), errno.EACCES),
        (lambda folder: list((folder / "shut").iterdir()), errno.EACCES),
        (lambda folder: (folder / "shut/file").rename(folder / "mine/f"), errno.EACCES),
        (lambda _: os.kill(os.getppid(), 0), errno.EPERM),
        (lambda _: socket.create_connection(("127.0.0.1", 9), 1), errno.EACCES),
        (lambda _: os.execv("/bin/true", ["true"]), errno.EACCES),
    ],
    ids=[
        "read what is open",
        "write what is only open to read",
        "write its own",
        "read its own",
        "a folder of its own",
        "a symlink",
        "a pipe",
        "read what is shut",
        "remove what is shut",
        "list what is shut",
        "move it in",
        "signal the parent",
        "connect",
        "execute",
    ],
)
def test_landlock(tmp_path: Path, work: Callable[[Path], object], refused: int) -> None:
    for name in ("open", "mine", "shut"):
        (tmp_path / name).mkdir()
        if name != "mine":
            (tmp_path / name / "file").write_bytes(b"x")
    work_there = work

    def confined() -> None:
        read = [tmp_path / "open", tmp_path / "not there"]
        landlock.restrict(read=read, write=[tmp_path / "mine"])
        work_there(tmp_path)

    assert in_a_child(confined) == refused


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
        (lambda: kernel.call("unshare", 0), -signal.SIGSYS, -signal.SIGSYS),
        (lambda: kernel.call("clone", 0, 0, 0x10000000), errno.EINVAL, errno.EINVAL),
        (lambda: kernel.system_call(435), errno.ENOSYS, errno.ENOSYS),
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
            seccomp.install(fork=processes, exec=processes)
            work()

        return run

    assert in_a_child(confined(processes=False)) == alone
    assert in_a_child(confined(processes=True)) == with_processes


@needs_seccomp
def test_new_namespaces_are_refused_where_processes_are_allowed() -> None:
    clone, new_user, child_ended = {"x86_64": 56, "aarch64": 220}[os.uname().machine], 1 << 28, 17

    def confined() -> None:
        seccomp.install(fork=True, exec=True)
        if kernel.system_call(clone, new_user | child_ended, 0, 0, 0, 0) == 0:
            os._exit(0)

    assert in_a_child(confined) == errno.EPERM


@needs_seccomp
def test_modes_of_files_may_change_where_all_files_are_its_own(tmp_path: Path) -> None:
    def confined() -> None:
        seccomp.install(fork=False, exec=False, attributes=True)
        tmp_path.chmod(0o700)

    assert in_a_child(confined) == 0


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (resource.RLIMIT_AS, (64 * 2**20, 64 * 2**20)),
        (resource.RLIMIT_FSIZE, (2**19, 2**19)),
        (resource.RLIMIT_NOFILE, (20, 20)),
        (resource.RLIMIT_CORE, (0, 0)),
    ],
    ids=["memory", "file size", "open files", "core"],
)
def test_rlimits(which: int, expected: tuple[int, int]) -> None:
    def confined() -> None:
        rlimits.apply(Limits(memory_mb=64, disk_mb=0.5))
        rlimits.apply_to_files(20)
        if resource.getrlimit(which) != expected:
            raise OSError(errno.EDOM, "another limit")

    assert in_a_child(confined) == 0


def test_a_tighter_limit_stays() -> None:
    def confined() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
        rlimits.apply_to_files(20)
        if resource.getrlimit(resource.RLIMIT_NOFILE) != (10, 10):
            raise OSError(errno.EDOM, "a looser limit")

    assert in_a_child(confined) == 0


def seen_inside(source: str, *, scratch_mb: float | None = None) -> str:
    words = bubblewrap.command(
        binds=interpreter.files(),
        hidden=interpreter.hidden_folders(),
        scratch_mb=scratch_mb,
        environment=interpreter.variables(),
    )
    python = [str(interpreter.sandbox_path()), "-I", "-S", "-c", source]
    found = subprocess.run([*words, *python], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@needs_bubblewrap
@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import os; print(os.getpid(), os.getuid())", "1 65534"),
        (
            "import os; os.environ.pop('LD_LIBRARY_PATH', ''); print(dict(os.environ))",
            "{'PWD': '/tally-scratch'}",
        ),
        ("import os; print(os.path.exists('/proc'), os.path.exists('/sys'))", "False False"),
        ("import os; print(os.listdir('/dev'))", "['null']"),
        ("import os; print(os.getcwd(), os.listdir('.'))", "/tally-scratch []"),
        ("import os; print(os.uname().nodename)", "sandbox"),
        ("import ssl, sqlite3, zlib, ctypes, lzma, bz2, _decimal; print('all there')", "all there"),
    ],
    ids=["who", "environment", "no proc", "devices", "scratch", "name", "libraries"],
)
def test_the_view_of_bubblewrap(source: str, seen: str) -> None:
    assert seen_inside(source) == seen


@needs_bubblewrap
def test_the_scratch_of_bubblewrap_is_bounded() -> None:
    source = """
try:
    with open("big", "wb") as file:
        while True: file.write(b"x" * 2**16)
except OSError as error:
    import os
    print(error.errno, os.path.getsize("big") <= 2**20)
"""
    assert seen_inside(source, scratch_mb=1) == f"{errno.ENOSPC} True"


def test_python_is_seen_without_its_environment() -> None:
    places = interpreter.files().values()
    assert interpreter.host_path() in places
    assert not [place for place in places if place.is_relative_to(sys.prefix)] or (
        sys.prefix == sys.base_prefix
    )
    assert not {Path("/"), Path("/usr"), Path.home()} & set(places)
