"""The process inside the sandbox before and around a program. Trusted; imports little.

In bubblewrap it is the first process of its pid namespace: nothing in there can signal it, and when
it ends, everything in there ends. It writes the files, starts the program behind rlimits, Landlock
and seccomp, watches the resources of the whole tree, and returns the requested files. Without
bubblewrap it only confines itself and becomes the program.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from tallymark.sandbox import kernel_calls, landlock, rlimits, seccomp
from tallymark.sandbox.programs.process_usage import CpuMeter, is_memory_passed
from tallymark.sandbox.scratch_folder import MOST_ENTRIES, collect_files, lay_file

TICK_MS = 20
"""Interval between checks of the tree, within which it can exceed a limit."""
_SIGNAL_WHEN_PARENT_DIES = 1


def main() -> None:
    """`launcher HOW ORDERS REPORT`: how to run it, and two descriptors."""
    how, orders, report = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # They are the host's: the program must not read the one or write to the other.
    os.set_inheritable(orders, False)
    os.set_inheritable(report, False)
    kernel_calls.control(_SIGNAL_WHEN_PARENT_DIES, signal.SIGKILL)
    with os.fdopen(orders, "rb") as incoming, os.fdopen(report, "wb") as outgoing:
        order = json.loads(incoming.readline())
        try:
            if how == "become":
                confine(order)
                _say(outgoing, {"started": True})
                _execute(order)
            _supervise(order, incoming, outgoing)
        except Exception as error:  # noqa: BLE001 (the host must learn of any failure)
            _say(outgoing, {"failed": f"{type(error).__name__}: {error}"})


def _say(report: BinaryIO, line: dict[str, Any]) -> None:
    report.write(json.dumps(line).encode() + b"\n")
    report.flush()


def _supervise(order: dict[str, Any], orders: BinaryIO, report: BinaryIO) -> None:
    """One program from its files to its end, in a namespace that is ours alone."""
    if order["uid"] is not None:
        _drop_root(order["uid"])
    folder = Path(order["folder"])
    for name, size in order["files"]:
        data = orders.read(size)
        if len(data) != size:
            raise EOFError("the host has gone")
        lay_file(folder, name, data)
    program = _start_program(order)
    _say(report, {"started": True})
    began = time.monotonic()
    stopped = _watch_program(program, order, report.fileno())
    wall_s = time.monotonic() - began  # before killing and collecting, which are not its time
    # From the first process of a namespace this reaches all others in it, and none outside.
    os.kill(-1, signal.SIGKILL)
    code = _await_everyone(program)
    kept, refused = collect_files(folder, order["keep"], order["keep_bytes"])
    ending = {"code": code, "stopped": stopped, "wall_s": wall_s, "refused": refused}
    _say(report, ending | {"kept": [[name, len(data)] for name, data in kept.items()]})
    for data in kept.values():
        report.write(data)
    report.flush()


def _drop_root(uid: int) -> None:
    """Change the uid: root outside would have power over files and limits in here."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _start_program(order: dict[str, Any]) -> int:
    """The program's pid, once it has been exec'd behind its walls."""
    trouble, tell = os.pipe()
    program = os.fork()
    if program == 0:
        try:
            os.setsid()
            confine(order)
        except BaseException as error:  # noqa: BLE001 (a program with a wall missing must not start)
            os.write(tell, f"{type(error).__name__}: {error}".encode())
            os._exit(125)
        _execute(order)
    os.close(tell)
    with os.fdopen(trouble, "rb") as heard:
        if text := heard.read():
            raise RuntimeError(text.decode())
    return program


def confine(order: dict[str, Any]) -> None:
    """Every wall around this process and what it starts."""
    if order["entrance"] is not None:
        os.write(order["entrance"], b"0")
        os.close(order["entrance"])
    os.chdir(order["folder"])
    os.umask(0o022)
    for which, value in order["rlimits"]:
        rlimits.lower(which, value)
    if order["walls"]:
        kernel_calls.drop_capabilities()
        landlock.restrict(
            read=[Path(each) for each in order["read"]],
            write=[Path(each) for each in order["write"]],
            execute=[Path(each) for each in order["execute"]],
        )
        # Last, because it takes away the calls by which the other walls were put up.
        seccomp.load(bytes.fromhex(order["seccomp"]))


def _execute(order: dict[str, Any]) -> NoReturn:
    command, environment = order["command"], order["environment"]
    try:
        os.closerange(3, order["open_files"] + 64)
        os.execvpe(command[0], command, environment)  # noqa: S606 (this is what we are for)
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _watch_program(program: int, order: dict[str, Any], report: int) -> str | None:
    """Wait for the program's end; return the limit that was exceeded, if one was."""
    events = select.poll()
    events.register(os.pidfd_open(program), select.POLLIN)
    # An error on this pipe means that its reader is gone. After root's change of uid, the kernel
    # no longer ends us with bubblewrap: then this is how the end of the host is noticed.
    events.register(report, 0)
    cpu = CpuMeter()
    while not (happened := events.poll(TICK_MS)):
        _reap_orphans(program)
        if passed := _find_passed_limit(order, cpu):
            return passed
    if report in dict(happened):
        sys.exit("the host has gone")
    return "disk" if _is_disk_full(order["folder"]) else None


def _find_passed_limit(order: dict[str, Any], cpu: CpuMeter) -> str | None:
    if _is_disk_full(order["folder"]):
        return "disk"
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    pids.remove(1)
    buried = resource.getrusage(resource.RUSAGE_CHILDREN)
    if cpu.read(pids, buried.ru_utime + buried.ru_stime) > order["cpu_s"]:
        return "cpu"
    return "memory" if is_memory_passed(pids, order["memory_bytes"]) else None


def _is_disk_full(folder: str) -> bool:
    state = os.statvfs(folder)
    return state.f_bavail == 0 or state.f_files - state.f_ffree > MOST_ENTRIES


def _reap_orphans(program: int) -> None:
    """Reap dead processes whose parents have gone."""
    while True:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if dead is None or dead.si_pid == program:
            return
        os.waitpid(dead.si_pid, 0)


def _await_everyone(program: int) -> int:
    """Wait until no process is left; return the exit code (negative: a signal)."""
    code = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return code
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
