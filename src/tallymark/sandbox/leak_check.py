"""Checks from inside the sandbox that untrusted code cannot open files of the host."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallymark.errors import WorkFailed
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.plugin_sandbox import Sandbox
from tallymark.sandbox.plugins.plugin_files import PluginCode
from tallymark.sandbox.policy import Policy
from tallymark.sandbox.program_run import run_program

_LIMITS = Limits(wall_s=30.0)
_LOOK = """
import json, os, sys

def look(paths):
    return [find(path) for path in paths]

def find(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    state = os.fstat(descriptor)
    os.close(descriptor)
    return [state.st_dev, state.st_ino]

class Plugin:
    def score(self, metrics, config, ctx):
        return {"score": 1, "details": {"found": look(config["paths"])}}

if __name__ == "__main__":
    print(json.dumps(look(json.load(sys.stdin))))
"""


@dataclass(frozen=True, slots=True)
class CheckedPath:
    """A path of the host, and the untrusted code that could open it."""

    what: str
    path: Path
    seen_by: tuple[str, ...]
    """The kinds of code that could open it, "plugins" and "programs"; empty if none."""


def check_leaks(policy: Policy, places: Mapping[str, Path]) -> list[CheckedPath]:
    """Let a plugin and a program try to open each of these paths; missing ones are left out."""
    real = {what: path.resolve() for what, path in places.items() if path.exists()}
    paths = [str(path) for path in real.values()]
    seen = {"plugins": _look_as_plugin(policy, paths), "programs": _look_as_program(policy, paths)}
    found = []
    for at, (what, path) in enumerate(real.items()):
        state = path.stat()
        # A path of the host may name something else inside: only the same file is the host's.
        same = [state.st_dev, state.st_ino]
        who = tuple(name for name, opened in seen.items() if opened[at] == same)
        found.append(CheckedPath(what, path, who))
    return found


def _look_as_plugin(policy: Policy, paths: list[str]) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="tally-") as folder, Sandbox(policy) as sandbox:
        Path(folder, "look.py").write_text(_LOOK, encoding="utf-8")
        code = PluginCode("look.py:Plugin", Path(folder), "look", "Plugin", "look")
        score = sandbox.score(code, {}, {"paths": paths}, {}, timeout_s=_LIMITS.wall_s)
    if score.error is not None:
        raise WorkFailed(f"a plugin could not look around in the sandbox: {score.error}")
    found: list[Any] = score.metadata["details"]["found"]
    return found


def _look_as_program(policy: Policy, paths: list[str]) -> list[Any]:
    outcome = run_program(
        ["python", "look.py"],
        files={"look.py": _LOOK},
        stdin=json.dumps(paths),
        limits=_LIMITS,
        policy=policy,
    )
    if not outcome.ok:
        cause = outcome.stderr.decode(errors="replace").strip() or outcome.stopped
        raise WorkFailed(f"a program could not look around in the sandbox: {cause}")
    found: list[Any] = json.loads(outcome.stdout)
    return found
