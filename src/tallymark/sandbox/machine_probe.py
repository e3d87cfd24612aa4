"""The sandbox layers of this machine, found by testing each one in a child."""

from __future__ import annotations

import functools
import json
import os
import platform
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Literal, Self

from tallymark.sandbox import bubblewrap, interpreter, seccomp
from tallymark.sandbox.programs import program_view
from tallymark.text import format_number

SafeBackend = Literal["bubblewrap", "landlock"]
MEMORY_GROUPS = "memory groups"
_SIGNALS_SCOPED = 6
"""First version of Landlock that blocks signals: without namespaces, nothing else does."""
_TRYING_S = 20.0
_TRIAL_INSIDE = """
import os, socket, sys
token, file = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as own:
    reached = own.connect_ex("\\0" + token) == 0
seen = {
    "the files of the host": os.path.exists(file),
    "its processes": os.getpid() != 1,
    "its network": reached,
    "its environment": "TALLY_TRIAL" in os.environ,
    "a folder to write to that is not its own": os.access("/", os.W_OK),
}
found = [what for what, is_seen in seen.items() if is_seen]
sys.exit("code in it has " + ", ".join(found)) if found else print(token[::-1])
"""
"""Run inside: it reports what bubblewrap leaves visible, which a successful start does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: if it holds, what it guards against, and how to get it."""

    name: str
    guards: str
    why_not: str | None
    """None when it was tried and held."""
    install: str

    @property
    def present(self) -> bool:
        """True if it was tested and held."""
        return self.why_not is None


@dataclass(frozen=True, slots=True)
class Machine:
    """The layers that were found."""

    kernel: str
    python: str
    landlock_abi: int
    layers: tuple[Layer, ...]

    def has(self, name: str) -> bool:
        """True if the layer of this name was tested and held."""
        return any(each.name == name and each.present for each in self.layers)

    def missing(self, backend: SafeBackend) -> tuple[Layer, ...]:
        """The layers that this backend needs and that are not here."""
        needed = _NEEDS[backend]
        return tuple(each for each in self.layers if each.name in needed and not each.present)


_NEEDS: dict[SafeBackend, tuple[str, ...]] = {
    "bubblewrap": ("bubblewrap", "landlock", "seccomp", "pidfd"),
    "landlock": ("landlock", "landlock signals", "seccomp", "pidfd"),
}
_ALLOW_NAMESPACES = (
    "set the sysctl user.max_user_namespaces above 0 and, on Ubuntu, "
    "kernel.apparmor_restrict_unprivileged_userns to 0"
)
_HAVE_GROUPS = (
    "nothing needs to be done; to have them, run as root or as a systemd service with "
    "Delegate=yes and DelegateSubgroup=, where cgroups are of version 2"
)
_TEXTS = {
    "bubblewrap": (
        "the host's files, processes and network: the code has its own",
        "install the Debian package bubblewrap",
    ),
    "user namespaces": (
        "nothing by themselves: bubblewrap is built on them",
        _ALLOW_NAMESPACES,
    ),
    "landlock": (
        "reading and writing outside what a run was given",
        "use Linux 5.13 or later, with landlock among the kernel's lsm= settings",
    ),
    "landlock signals": (
        "signals to other processes, where there is no bubblewrap",
        "use Linux 6.12 or later, or install the Debian package bubblewrap",
    ),
    "seccomp": (
        "sockets, ptrace, mounts and other calls that no scorer needs",
        "install the Debian package libseccomp2",
    ),
    "pidfd": (
        "killing the wrong process at a deadline",
        "use Linux 5.4 or later",
    ),
    MEMORY_GROUPS: (
        "programs that outgrow their memory between two looks at it; no sandbox needs them",
        _HAVE_GROUPS,
    ),
}


@functools.cache
def probe() -> Machine:
    """The machine as it was when this process first asked."""
    return examine()


def examine() -> Machine:
    """The machine as it is now."""
    if platform.system() != "Linux":
        found: dict[str, Any] = dict.fromkeys(_TEXTS, f"this is {platform.system()}, not Linux")
    else:
        found = _try_layers()
    abi = int(found.get("abi", 0))
    layers = (
        Layer(name=name, guards=guards, why_not=found[name], install=_remedy(name, install))
        for name, (guards, install) in _TEXTS.items()
    )
    return Machine(platform.release(), platform.python_version(), abi, tuple(layers))


def _remedy(name: str, usual: str) -> str:
    """A bubblewrap that is installed and fails lacks something else."""
    if name == "bubblewrap" and bubblewrap.executable() is not None:
        return _ALLOW_NAMESPACES
    return usual


def _try_layers() -> dict[str, Any]:
    """Why each layer does not hold, or None. The trials run side by side: this must be quick."""
    code, no_filter = _make_filter()
    single = _start(interpreter.module_command("tallymark.sandbox.layer_trials"))
    with _HostThings() as host:
        wrapped = [_start(words, host.environment) for words in _wrapped_commands(host)]
        found = _read_layers(single, code)
        found["bubblewrap"] = _find_wrapped_trouble(wrapped, host)
    if no_filter:
        found["seccomp"] = no_filter
    abi = found["abi"]
    scoped = f"this Linux has version {abi} of Landlock, {_SIGNALS_SCOPED} is needed"
    found["landlock signals"] = None if abi >= _SIGNALS_SCOPED else scoped
    return found


class _HostThings(ExitStack):
    """A file, a socket and a variable of the host that code in bubblewrap must not find."""

    def __enter__(self) -> Self:
        """A token by which they are known, and which only code that has run can send back."""
        super().__enter__()
        self.token = secrets.token_hex(16)
        self.file = self.enter_context(tempfile.NamedTemporaryFile(prefix="tally-")).name
        with suppress(
            OSError
        ):  # where this process may have no sockets, code inside cannot find one
            listener = self.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f"\0{self.token}")
            listener.listen()
        self.environment = {"TALLY_TRIAL": self.token}
        return self


def _make_filter() -> tuple[bytes, str | None]:
    try:
        return seccomp.program(fork=False, exec=False), None
    except (ImportError, OSError, RuntimeError) as error:
        return b"", f"no filter can be made: {error}"


def _wrapped_commands(host: _HostThings) -> list[list[str]]:
    """Python started as a plugin's guest is, and as a program's launcher is."""
    if bubblewrap.executable() is None:
        return []
    python = [str(interpreter.sandbox_path()), "-I", "-S", "-c", _TRIAL_INSIDE]
    trial = [*python, host.token, host.file]
    guest = bubblewrap.command(
        binds=interpreter.files(),
        hidden=interpreter.hidden_folders(),
        scratch_mb=1,
        may_mount=True,
        environment=interpreter.variables(),
    )
    program = program_view.make_command(scratch_bytes=2**20)
    return [[*guest, *trial], [*program, *trial]]


def _start(
    words: list[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 (our own words)
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment or {},
    )


def _end(process: subprocess.Popen[bytes], given: bytes = b"") -> tuple[bytes, str | None]:
    """The output of a trial, and its failure, if any."""
    try:
        output, complaint = process.communicate(given, timeout=_TRYING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return b"", f"it was not done after {format_number(_TRYING_S)} s"
    if process.returncode == 0:
        return output, None
    lines = complaint.decode(errors="replace").strip().splitlines()
    return output, lines[-1] if lines else f"it ended with {process.returncode}"


def _read_layers(process: subprocess.Popen[bytes], code: bytes) -> dict[str, Any]:
    output, trouble = _end(process, code)
    if trouble is None:
        found: dict[str, Any] = json.loads(output)
        return found
    return dict.fromkeys(_TEXTS, f"it could not be tried: {trouble}") | {"abi": 0}


def _find_wrapped_trouble(
    processes: list[subprocess.Popen[bytes]], host: _HostThings
) -> str | None:
    if not processes:
        return "there is no bwrap on the PATH"
    ended = [_end(process) for process in processes]
    unseen = "what it should start did not run"
    answer = (f"{host.token[::-1]}\n").encode()
    troubles = [trouble or unseen for output, trouble in ended if trouble or output != answer]
    if not troubles:
        return None
    who = "root" if os.geteuid() == 0 else "this user"
    return f"it is installed and does not work for {who}: {troubles[0]}"
