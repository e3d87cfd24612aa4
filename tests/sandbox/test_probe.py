"""What is found on a machine, and which policy follows: without walls, none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox.policy import Policy, policy
from tallymark.sandbox.probe import Layer, Machine, examine, probe

ALL = ("bubblewrap", "user namespaces", "landlock", "landlock signals", "seccomp", "pidfd")


def machine(*missing: str) -> Machine:
    layers = tuple(
        Layer(
            name=name,
            guards="something",
            why_not=f"no {name} here" if name in missing else None,
            install=f"install {name}",
        )
        for name in ALL
    )
    return Machine("6.12", "3.11.7", 6, layers)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing asked for by the environment; `probe` may be replaced."""
    monkeypatch.delenv("TALLY_SANDBOX", raising=False)
    return monkeypatch


def on(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    monkeypatch.setattr("tallymark.sandbox.policy.probe", lambda: machine(*missing))


FOLLOWS = {
    "everything": ((), "bubblewrap"),
    "no signals scoped": (("landlock signals",), "bubblewrap"),
    "no bubblewrap": (("bubblewrap",), "landlock"),
    "no user namespaces": (("bubblewrap", "user namespaces"), "landlock"),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_the_strongest_backend_that_works_is_chosen(pretend: pytest.MonkeyPatch, name: str) -> None:
    missing, backend = FOLLOWS[name]
    on(pretend, *missing)
    assert policy() == Policy(backend)  # type: ignore[arg-type]


REFUSED = {
    "seccomp": ("seccomp",),
    "landlock": ("landlock", "landlock signals"),
    "pidfd": ("pidfd",),
    "bubblewrap and signals": ("bubblewrap", "landlock signals"),
    "all": ALL,
}


@pytest.mark.parametrize("name", REFUSED)
def test_without_a_layer_nothing_is_run(pretend: pytest.MonkeyPatch, name: str) -> None:
    missing = REFUSED[name]
    on(pretend, *missing)
    with pytest.raises(WorkFailed, match="untrusted code is not run: no sandbox works") as refused:
        policy()
    assert f"{missing[0]}: no {missing[0]} here" in str(refused.value)
    assert f"install {missing[0]}" in str(refused.value)


def test_a_backend_asked_for_is_not_replaced_by_another(pretend: pytest.MonkeyPatch) -> None:
    on(pretend, "bubblewrap")
    assert policy(backend="landlock").backend == "landlock"
    with pytest.raises(WorkFailed, match="the sandbox 'bubblewrap' does not work here"):
        policy(backend="bubblewrap")


def test_the_environment_may_ask_for_a_backend(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    pretend.setenv("TALLY_SANDBOX", "landlock")
    assert policy().backend == "landlock"
    assert policy(backend="bubblewrap").backend == "bubblewrap"


def test_the_environment_cannot_switch_the_sandbox_off(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    pretend.setenv("TALLY_SANDBOX", "insecure-local")
    with pytest.raises(InvalidInput, match="say --insecure-local on the command line"):
        policy()


def test_insecure_local_is_had_by_its_name_only(pretend: pytest.MonkeyPatch) -> None:
    on(pretend, *ALL)
    chosen = policy(insecure_local=True)
    assert chosen.backend == "insecure-local"
    assert len(chosen.warnings) == 1
    with pytest.raises(InvalidInput, match="cannot be asked for"):
        policy(backend="insecure-local")
    with pytest.raises(InvalidInput, match="contradict"):
        policy(insecure_local=True, backend="bubblewrap")


def test_an_unknown_backend_is_corrected(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    with pytest.raises(InvalidInput, match="did you mean 'landlock'"):
        policy(backend="landlok")
    with pytest.raises(InvalidInput, match="it is bubblewrap or landlock"):
        policy(backend="docker")


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
from tallymark.sandbox.probe import examine
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
