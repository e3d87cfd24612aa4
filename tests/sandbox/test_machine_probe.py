"""What is found on a machine, layer by layer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sandbox.machines import ALL, machine

from tallymark.sandbox.machine_probe import examine, probe


def test_the_probe_names_every_layer_and_is_asked_once() -> None:
    found = probe()
    assert tuple(layer.name for layer in found.layers) == ALL
    assert all(layer.guards and layer.install for layer in found.layers)
    assert probe() is found


def test_a_machine_without_bwrap_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (missing, *_) = (layer for layer in examine().layers if layer.name == "bubblewrap")
    assert missing.why_not == "there is no bwrap on the PATH"
    assert missing.install == "install the Debian package bubblewrap"


def test_a_bwrap_that_fails_is_not_present(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (layer, *_) = (each for each in examine().layers if each.name == "bubblewrap")
    assert layer.why_not is not None
    assert layer.why_not.endswith("bwrap: No permissions to create new namespace")
    assert "max_user_namespaces" in layer.install


ONLY_EXITS = "exit 0"
SAYS_NO_MORE = "echo done"
CONFINES_NOTHING = f"""
for word; do shift; [ "$word" = -- ] && break; done
shift
exec {sys.executable} "$@"
"""
LEAVES_OUT = """
first=$#
for word; do
  case "$word" in {options}) ;; *) set -- "$@" "$word" ;; esac
done
shift $first
exec {bwrap} "$@"
"""


def made_of(text: str, **given: str) -> str:
    return text.format(bwrap=shutil.which("bwrap"), **given) if given else text


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
@pytest.mark.parametrize(
    ("script", "says"),
    [
        (ONLY_EXITS, "what it should start did not run"),
        (SAYS_NO_MORE, "what it should start did not run"),
        (CONFINES_NOTHING, "code in it has the files of the host, its processes, its network"),
        (made_of(LEAVES_OUT, options="--clearenv"), "code in it has its environment"),
        (made_of(LEAVES_OUT, options="--as-pid-1"), "code in it has its processes"),
    ],
    ids=["only exits", "only talks", "confines nothing", "lets variables in", "another process"],
)
def test_a_bwrap_that_does_not_confine_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, says: str
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (layer, *_) = (each for each in examine().layers if each.name == "bubblewrap")
    assert layer.why_not is not None
    assert says in layer.why_not


def test_a_library_that_is_missing_is_a_layer_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(**_: bool) -> bytes:
        raise RuntimeError("Unable to find libseccomp")

    monkeypatch.setattr("tallymark.sandbox.seccomp.program", no_library)
    found = examine()
    (layer, *_) = (each for each in found.layers if each.name == "seccomp")
    assert layer.why_not == "no filter can be made: Unable to find libseccomp"
    assert found.missing("bubblewrap") == found.missing("landlock") == (layer,)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")
def test_a_layer_that_the_kernel_refuses_is_found_out() -> None:
    """In a process that may make no more filters and namespaces, the trials fail one by one."""
    code = """
from tallymark.sandbox import seccomp
from tallymark.sandbox.machine_probe import examine
filtered = seccomp.program(fork=True, exec=True)
seccomp.load(filtered)
for layer in examine().layers:
    print(layer.name, layer.present)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {f"{name} False" for name in ALL}


def test_another_system_has_no_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert [layer.why_not for layer in examine().layers] == ["this is Darwin, not Linux"] * len(ALL)


def test_a_machine_lists_what_a_backend_lacks() -> None:
    bare = replace(machine("bubblewrap", "landlock signals"), landlock_abi=3)
    assert [layer.name for layer in bare.missing("bubblewrap")] == ["bubblewrap"]
    assert [layer.name for layer in bare.missing("landlock")] == ["landlock signals"]
