"""A layer of the sandbox is taken away: untrusted code is not run, and the user is told why.

The kernel itself refuses the calls of the layer here, by a filter around the whole process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import TALLY
from tests.sandbox.backends import SAFE

from tallymark.sandbox.machine_probe import SafeBackend

pytestmark = pytest.mark.skipif(not SAFE, reason="no sandbox works on this machine")

WITHOUT = """
    import errno, os, pyseccomp, sys
    refused = {
        "landlock": [("landlock_create_ruleset", errno.EOPNOTSUPP, [])],
        "landlock that does nothing": [("landlock_restrict_self", 0, [])],
        "seccomp": [("prctl", errno.EINVAL, [(0, 22)]), ("seccomp", errno.ENOSYS, [])],
        "seccomp that does nothing": [("prctl", 0, [(0, 22)])],
        "pidfd": [("pidfd_open", errno.ENOSYS, [])],
        "limits": [
            ("setrlimit", errno.EPERM, []),
            # 7 and 4: open files and core files, which only our walls set.
            ("prlimit64", errno.EPERM, [(1, 7)]),
            ("prlimit64", errno.EPERM, [(1, 4)]),
        ],
    }
    refused["nothing"] = []
    spaces = [("clone3", errno.ENOSYS, [])]
    for bit in (0x00020000, 0x10000000, 0x20000000, 0x40000000):
        spaces += [(name, errno.EPERM, [(0, bit, bit)]) for name in ("clone", "unshare")]
    refused["namespaces"] = spaces
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name, error, arguments in refused[sys.argv[1]]:
        wanted = [
            pyseccomp.Arg(at, pyseccomp.MASKED_EQ, *given)
            if len(given) > 1
            else pyseccomp.Arg(at, pyseccomp.EQ, *given)
            for at, *given in arguments
        ]
        rules.add_rule(pyseccomp.ERRNO(error), name, *wanted)
    rules.load()
    os.execv(sys.argv[2], sys.argv[2:])
"""
SCORER = "class Mine:\n    def score(self, *_): return {'score': 1.0}\n"
TOLD = {
    "landlock": ("landlock: ", "use Linux 5.13 or later"),
    "landlock that does nothing": ("landlock: the kernel took the rules", "use Linux 5.13"),
    "seccomp": ("seccomp: ", "install the Debian package libseccomp2"),
    "seccomp that does nothing": ("seccomp: the kernel took the filter", "libseccomp2"),
    "pidfd": ("pidfd: ", "use Linux 5.4 or later"),
}


def run_without(layer: str, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(WITHOUT), layer, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


@pytest.mark.parametrize("layer", TOLD)
def test_a_plugin_is_not_run_without_a_layer_that_both_backends_need(
    tmp_path: Path, layer: str
) -> None:
    (tmp_path / "scorer.py").write_text(SCORER)
    done = run_without(layer, str(TALLY), "plugin", "check", "scorer.py:Mine", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, ""), done
    assert "untrusted code is not run: no sandbox works here" in done.stderr
    for text in TOLD[layer]:
        assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_without_namespaces_bubblewrap_is_refused_and_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text(SCORER)
    asked = [str(TALLY), "plugin", "check", "scorer.py:Mine"]
    done = run_without("namespaces", *asked, cwd=tmp_path, env={"TALLY_SANDBOX": "bubblewrap"})
    assert (done.returncode, done.stdout) == (3, ""), done
    assert "the sandbox 'bubblewrap' does not work here" in done.stderr
    assert "bwrap" in done.stderr


LATER = """
    import json, sys
    from pathlib import Path
    from tallymark.errors import WorkFailed
    from tallymark.sandbox import Limits, PluginCode, Policy, Sandbox, run_program
    backend, folder = sys.argv[1:]
    found = []
    try:
        ended = run_program(["echo", "it ran"], limits=Limits(), policy=Policy(backend))
        found.append(f"{ended}")
    except WorkFailed as error:
        found.append(f"WorkFailed: {error}")
    code = PluginCode("scorer.py:Mine", Path(folder), "scorer", "Mine", "x")
    try:
        with Sandbox(Policy(backend)) as sandbox:
            found.append(f"{sandbox.score(code, {}, {}, {}).to_dict()}")
    except WorkFailed as error:
        found.append(f"WorkFailed: {error}")
    print(json.dumps(found))
"""


SAID = {
    "landlock": "this kernel has no Landlock",
    "seccomp": "Invalid argument",
    "pidfd": "Function not implemented",
    "limits": "Operation not permitted",
    "namespaces": "bwrap: ",
}


def run_later(backend: SafeBackend, layer: str, folder: Path) -> list[str]:
    (folder / "scorer.py").write_text(SCORER)
    script = textwrap.dedent(LATER)
    done = run_without(layer, sys.executable, "-c", script, backend, str(folder))
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("backend", SAFE)
@pytest.mark.parametrize("layer", ["landlock", "seccomp", "pidfd", "limits", "namespaces"])
def test_a_layer_that_goes_away_while_a_server_runs_is_our_failure(
    tmp_path: Path, backend: SafeBackend, layer: str
) -> None:
    """What was found at the start no longer holds: nothing runs, and nobody loses by it."""
    if (backend, layer) == ("landlock", "namespaces"):
        return  # it needs none
    for told in run_later(backend, layer, tmp_path):
        assert told.startswith("WorkFailed: the sandbox")
        assert SAID[layer] in told


@pytest.mark.parametrize("backend", SAFE)
def test_with_every_layer_both_run(tmp_path: Path, backend: SafeBackend) -> None:
    program, plugin = run_later(backend, "nothing", tmp_path)
    assert "it ran" in program
    assert "'value': 1.0" in plugin
