"""Nothing of the dead is left where the host is the first process, as it is in a container."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.backends import FIRST
from tests.sandbox.sample_plugins import BY_WISH, plugin

from tallymark.sandbox.kernel_calls import name_signal

AS_FIRST = """
import os, sys
from pathlib import Path
from tallymark.sandbox import Limits, PluginCode, Policy, Sandbox, run_program

def find_zombies():
    said = (path.read_text().rpartition(")")[2] for path in Path("/proc").glob("[0-9]*/stat"))
    return sum(words.split()[0] == "Z" for words in said)

assert os.getpid() == 1
backend, root = sys.argv[1:]
code = PluginCode("scorer.py:Plugin", Path(root), "scorer", "Plugin", "x")
for _ in range(2):
    with Sandbox(Policy(backend)) as sandbox:
        for wish in ("", "exit", "loop"):
            sandbox.score(code, {"rating": 4, "wish": wish}, {}, {}, timeout_s=0.2 if wish else 9)
print("plugins", find_zombies())
several = backend != "landlock"
leave = "import os, time\\nif os.fork() == 0: time.sleep(99)" if several else "pass"
for program in (leave, "while True: pass"):
    limits = Limits(wall_s=0.5, processes=4 if several else 1)
    run_program(["python", "-c", program], limits=limits, policy=Policy(backend))
print("programs", find_zombies())
"""


@functools.cache
def find_unshare() -> list[str] | None:
    """The command that makes the next one the first process of its world; None if we may not."""
    words = ["unshare", "--pid", "--fork", "--mount-proc"]
    words += [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
    try:
        done = subprocess.run([*words, "true"], check=False, capture_output=True)
    except OSError:
        return None
    return None if done.returncode else words


@pytest.mark.parametrize(
    "backend", [*FIRST, pytest.param("insecure-local", marks=pytest.mark.proof)]
)
def test_the_first_process_of_a_machine_has_no_zombies(tmp_path: Path, backend: str) -> None:
    words = find_unshare()
    if words is None:
        pytest.skip("may not make a namespace of processes")
    code = plugin(tmp_path / "plugin", BY_WISH)
    done = subprocess.run(
        [*words, sys.executable, "-c", AS_FIRST, backend, str(code.root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("plugins 0\nprograms 0\n", "")


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV"), (40, "signal 40")])
def test_every_signal_can_be_named(number: int, name: str) -> None:
    assert name_signal(number) == name
