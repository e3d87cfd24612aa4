"""A plugin's text makes nobody act outside its walls, and no plugin makes a call raise."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.backends import SAFE, run_python
from tests.sandbox.forked_child import in_a_child
from tests.sandbox.sample_plugins import ORDINARY, plugin

import tallymark
from tallymark.sandbox import Limits, Policy, Sandbox
from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.sandbox.plugins import guest, guest_handle, guest_view
from tallymark.sandbox.plugins.plain_data import encode

SCORES = """
class Plugin:
    def score(self, metrics, config, ctx):
        import sys
        return {"score": float(sum(name in sys.modules for name in config.get("names", ())))}
"""


def places() -> list[set[str]]:
    """Where a module that acts when it is imported has left something: it starts in `/`."""
    code = Path(tallymark.__file__).parents[1]
    return [{path.name for path in place.iterdir()} for place in (Path("/"), code)]


@pytest.mark.parametrize("backend", SAFE)
@pytest.mark.parametrize(
    "text",
    [
        '"""\nimport unittest.__main__\n"""',
        "if 0:\n    import unittest.__main__",
        '"""\nimport wave\n"""',
    ],
    ids=["docstring", "never run", "harmless"],
)
def test_no_module_is_imported_because_a_text_names_it(
    backend: SafeBackend, tmp_path: Path, text: str
) -> None:
    before = places()
    code = plugin(tmp_path / "plugin", text + SCORES)
    config = {"names": ["unittest", "unittest.__main__", "wave"]}
    with Sandbox(Policy(backend)) as sandbox:
        score = sandbox.score(code, {}, config, {})
    assert (score.value, score.error) == (0.0, None)
    assert places() == before


def test_what_is_imported_ahead_is_the_same_for_everyone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def tell(setup: object) -> bytes:
        told.append(setup)
        return encode(setup)

    monkeypatch.setattr(guest_handle, "encode", tell)
    for at, text in enumerate((ORDINARY, "import asyncio, xml.dom.minidom" + SCORES)):
        guest_handle.GuestHandle(
            plugin(tmp_path / str(at), text), SAFE[0], Limits(), apart=False
        ).close()
    assert told[0]["modules"] == told[1]["modules"] == guest_view.MODULES_AHEAD


@pytest.mark.parametrize("backend", SAFE)
def test_a_file_beside_the_plugin_is_not_imported_for_the_guest(
    backend: SafeBackend, tmp_path: Path
) -> None:
    """What the guest imports ahead comes from us, though the plugin's folder has such a file."""
    code = plugin(tmp_path / "plugin", ORDINARY)
    for name in ("json", "statistics", "encodings", "tallymark", "msgspec"):
        (code.root / f"{name}.py").write_text("import os; os._exit(9)", encoding="utf-8")
    with Sandbox(Policy(backend)) as sandbox:
        assert sandbox.score(code, {"rating": 4}, {"factor": 2}, {}).value == 8.0


@pytest.mark.skipif("landlock" not in SAFE, reason="no Landlock here")
@pytest.mark.parametrize("work", ["read", "write"])
def test_the_guest_itself_is_walled_in(tmp_path: Path, work: str) -> None:
    """Not only the child that runs the plugin: what it could be tricked into stays inside."""
    code = plugin(tmp_path / "plugin", ORDINARY)
    handle = guest_handle.GuestHandle(code, "landlock", Limits(), apart=False)
    setup = handle._make_setup(code, "landlock", Limits())
    secret = tmp_path / "secret"
    secret.write_text("x", encoding="utf-8")

    def act() -> None:
        guest._confine(setup)
        assert handle.folder is not None
        (handle.folder / "own").write_bytes(b"x")
        (code.root / "scorer.py").read_bytes()
        if work == "read":
            secret.read_bytes()
        else:
            (tmp_path / "new").write_bytes(b"x")

    assert in_a_child(act) == 13  # EACCES
    handle.close()


MISDEEDS = {
    "crashes when imported": "1 / 0",
    "leaves when imported": "import sys; sys.exit(3)",
    "is gone when imported": "import os; os._exit(0)",
    "aborts when imported": "import os; os.abort()",
    "hangs when imported": "while True: pass",
    "kills its guest": "import os; os.kill(os.getppid(), 9)",
    "kills its group": "import os; os.killpg(0, 9)",
    "sends a signal without a name": "import signal; signal.raise_signal(40)",
    "closes everything": "import os; os.closerange(0, 256)",
    "raises what nobody knows": "class Odd(BaseException): pass\nraise Odd('\\ud800')",
    "is not Python": "class Plugin(:",
    "has a NUL": "x = 1\0",
    "replaces what answers": "import os, sys; sys.modules.clear(); os.write = None; del os._exit",
    "ends in threads": "import threading; threading.Thread(target=print).start()",
    "leaves folders that nobody can enter": "import os; os.umask(0o777); os.mkdir('a'); 1 / 0",
    "removes its folder": "import os; os.rmdir(os.getcwd()); 1 / 0",
}


@pytest.mark.parametrize("backend", [*SAFE, "insecure-local"])
def test_no_misdeed_makes_a_call_raise(backend: SafeBackend, tmp_path: Path) -> None:
    calm = plugin(tmp_path / "plugins", ORDINARY)
    codes = {}
    for at, (name, text) in enumerate(MISDEEDS.items()):
        (calm.root / f"misdeed_{at}.py").write_text(text, encoding="utf-8")
        codes[name] = replace(calm, module=f"misdeed_{at}")
    with Sandbox(Policy(backend)) as sandbox:
        for name, code in codes.items():
            timeout_s = 0.3 if "hangs" in name else 20.0
            score = sandbox.score(code, {}, {}, {}, timeout_s=timeout_s)
            assert (score.value, bool(score.error)) == (None, True), name
            assert sandbox.score(calm, {"rating": 4}, {}, {}).value == 4.0, f"after: {name}"


TAKES_A_LOCK = """
import fcntl, os
null = os.open(os.devnull, os.O_RDWR)
taken = 0
for lock in (fcntl.flock, fcntl.lockf):
    try:
        lock(null, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken += 1
    except OSError:
        pass
"""


@pytest.mark.parametrize("backend", SAFE)
def test_locks_of_the_host_are_not_seen_by_code(backend: SafeBackend, tmp_path: Path) -> None:
    """What can be seen can be told by: two sandboxes would talk through a file they both open."""
    inside = TAKES_A_LOCK.replace("\n", "\n        ")
    scorer = f"class Plugin:\n    def score(self, *_):{inside}\n        return {{'score': taken}}\n"
    with Path(os.devnull).open("r+b") as held, Sandbox(Policy(backend)) as sandbox:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.lockf(held, fcntl.LOCK_EX)
        score = sandbox.score(plugin(tmp_path / "plugin", scorer), {}, {}, {})
        outcome = run_python(backend, f"{TAKES_A_LOCK}\nprint(taken)")
    assert (score.value, score.error) == (2.0, None)
    assert outcome.stdout == b"2\n"
