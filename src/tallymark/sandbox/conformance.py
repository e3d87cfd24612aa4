"""Runs the attacks of `conformance.toml`, which every backend of the sandbox must withstand.

Each case is a plugin, hostile or ordinary, or a program. After a plugin, the same one and another
must still score correctly with harmless metrics; after each case, the host's files must be
unchanged.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import socket
import sys
import textwrap
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tallymark.sandbox import interpreter
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.plugins.plugin_files import PluginCode
from tallymark.sandbox.program_run import ProgramOutcome, run_program

if TYPE_CHECKING:
    from tallymark.sandbox.plugin_sandbox import Sandbox
    from tallymark.sandbox.policy import Policy
    from tallymark.scoring.score import Score

_TIMEOUT_S = 20.0
_SHORT_S = 0.25
"""For cases that can only end at the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One plugin or program, and the required outcome."""

    name: str
    body: str = ""
    module: str = ""
    program: str = ""
    score: float | None = None
    stopped: tuple[str, ...] = ()
    says: str = ""
    refused: bool = False
    calls: int = 1
    always: bool = False
    backend: str = ""
    wall_s: float = _TIMEOUT_S
    cpu_s: float | None = None

    @property
    def source(self) -> str:
        """The plugin's or program's file."""
        beginning: str = _read_suite()["program_prelude" if self.program else "prelude"]
        if self.program:
            return beginning + self.program
        return self.module or beginning + textwrap.indent(self.body.strip("\n"), " " * 8) + "\n"

    @property
    def timeout_s(self) -> float:
        """Time limit of the case, short where a timeout is the expected ending."""
        return _SHORT_S if "timeout" in self.stopped else self.wall_s

    def find_program_fault(self, outcome: ProgramOutcome) -> str | None:
        """The difference from the ending that the case requires, if there is one."""
        if self.stopped:
            right, wanted = outcome.stopped in self.stopped, " or ".join(self.stopped)
        else:
            output = outcome.stdout.decode(errors="replace")
            right = outcome.ok and bool(output) and "reached" not in output
            wanted = "every try refused"
        return None if right else f"{self.name}: {wanted} expected, not {outcome}"

    def find_fault(self, score: Score) -> str | None:
        """The difference from the outcome that the case requires, if there is one."""
        if self.stopped:
            stopped = score.metadata.get("stopped")
            right = (
                score.value is None and stopped in self.stopped and self.says in str(score.error)
            )
            wanted = f"{' or '.join(self.stopped)} {self.says!r}"
        elif self.refused:
            tries: dict[str, str] = score.metadata.get("details") or {}
            right = bool(tries) and not any(said.startswith("reached") for said in tries.values())
            wanted = "every try refused"
        else:
            right, wanted = score.value == self.score, f"the score {self.score}"
        return None if right else f"{self.name}: {wanted} expected, not {score.to_dict()}"


@functools.cache
def _read_suite() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def load_attacks(backend: str) -> list[Attack]:
    """The attacks for this backend, in the order of the file."""
    found = (
        Attack(**fields | {"stopped": tuple(fields.get("stopped", ()))})
        for fields in _read_suite()["case"]
    )
    return [case for case in found if case.backend in {"", backend}]


def host_paths() -> list[str]:
    """Paths that must not appear inside: of this installation, its user, and its folder."""
    known = (Path.home(), Path.cwd(), Path(sys.prefix), Path(sys.base_prefix), interpreter.OUR_CODE)
    named = (path for known_path in known for path in (known_path, known_path.resolve()))
    system = {"bin", "etc", "lib", "lib64", "sbin", "usr"}
    return sorted({str(path) for path in named if system.isdisjoint(path.parts[1:2] or system)})


class Conformance:
    """The plugins in a folder, and files and sockets of the host for them to attack."""

    def __init__(self, folder: Path) -> None:
        self._plugins, self._host = folder / "plugins", folder / "host"
        self._host.mkdir(parents=True)
        self._plugins.mkdir()
        (self._plugins / "data.txt").write_text("data", encoding="utf-8")
        calm = Attack(name="calm").source + "pass"
        (self._plugins / "calm.py").write_text(calm, encoding="utf-8")
        self._modules: dict[str, str] = {}
        for at, case in enumerate(load_attacks("bubblewrap")):
            self._modules[case.name] = f"case_{at}"
            (self._plugins / f"case_{at}.py").write_text(case.source, encoding="utf-8")
        self._secret = secrets.token_hex()
        self._secret_file.write_text(self._secret, encoding="utf-8")
        self._open = ExitStack()
        self._targets = {
            "secret": str(self._secret_file),
            "outside": str(self._host),
            "host_paths": [*host_paths(), str(folder)],
            "host_pid": os.getpid(),
            "port": self._listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1],
            "socket": str(self._host / "s"),
            "abstract": f"tally-{self._secret}",
        }
        self._listen(socket.AF_UNIX, self._targets["socket"])
        self._listen(socket.AF_UNIX, f"\0{self._targets['abstract']}")
        self._before = self._read_state()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def failures(self, sandbox: Sandbox, case: Attack) -> list[str]:
        """Failures of a case in this sandbox, in sentences."""
        if case.program:
            return self._find_program_failures(sandbox.policy, case)
        plugin = self._make_code(self._modules[case.name])
        found = []
        for _ in range(case.calls):
            score = sandbox.score(plugin, {}, self._targets, {}, timeout_s=case.timeout_s)
            found.append(case.find_fault(score))
        neighbours = [self._make_code("calm")] if case.always else [plugin, self._make_code("calm")]
        for code in neighbours:
            after = sandbox.score(code, {"calm": True}, {}, {}, timeout_s=_TIMEOUT_S)
            if after.value != 7.0:
                found.append(f"{case.name}: afterwards {code.name} gives {after.to_dict()}")
        if self._read_state() != self._before:
            found.append(f"{case.name}: it has changed the host's files")
        return [each for each in found if each]

    def _find_program_failures(self, policy: Policy, case: Attack) -> list[str]:
        several = policy.backend == "bubblewrap"
        outcome = run_program(
            ["python", "main.py"],
            files={"main.py": case.source},
            stdin=json.dumps(self._targets),
            limits=Limits(
                wall_s=case.timeout_s,
                cpu_s=case.cpu_s,
                memory_mb=64,
                processes=4 if several else 1,
            ),
            policy=policy,
        )
        found = [case.find_program_fault(outcome)]
        if self._read_state() != self._before:
            found.append(f"{case.name}: it has changed the host's files")
        return [each for each in found if each]

    @property
    def _secret_file(self) -> Path:
        return self._host / "secret"

    def _make_code(self, module: str) -> PluginCode:
        return PluginCode(f"{module}.py:Plugin", self._plugins, module, "Plugin", "conformance")

    def _listen(self, family: socket.AddressFamily, address: Any) -> socket.socket:
        listener = self._open.enter_context(socket.socket(family))
        listener.bind(address)
        listener.listen()
        return listener

    def _read_state(self) -> tuple[object, ...]:
        state = self._secret_file.stat()
        names = sorted(path.name for path in (*self._host.iterdir(), *self._plugins.iterdir()))
        text = self._secret_file.read_text(encoding="utf-8")
        return state.st_mode, state.st_mtime_ns, state.st_uid, text, names
