"""Which policy follows from what a machine has: without walls, none."""

from __future__ import annotations

import pytest
from tests.sandbox.machines import ALL, machine

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.policy import Policy, choose_policy


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
    assert choose_policy() == Policy(backend)  # type: ignore[arg-type]


def test_a_weaker_backend_names_what_the_stronger_lacks(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    assert choose_policy().fallback == ""
    on(pretend, "bubblewrap")
    assert choose_policy().fallback == "bubblewrap: no bubblewrap here"
    assert choose_policy(backend="landlock").fallback == ""


def test_a_policy_and_limits_make_one_line_to_keep() -> None:
    assert Policy("landlock").describe(Limits()) == (
        "landlock: 5 s, 256 MB of memory, 16 MB of disk, 1 MB of output, 64 open files, 1 process"
    )
    more = Limits(wall_s=0.5, cpu_s=2, processes=4)
    assert Policy("bubblewrap").describe(more).startswith("bubblewrap: 0.5 s (2 s of a processor),")
    assert more.describe().endswith(", 4 processes")


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
        choose_policy()
    assert f"{missing[0]}: no {missing[0]} here" in str(refused.value)
    assert f"install {missing[0]}" in str(refused.value)


def test_a_backend_asked_for_is_not_replaced_by_another(pretend: pytest.MonkeyPatch) -> None:
    on(pretend, "bubblewrap")
    assert choose_policy(backend="landlock").backend == "landlock"
    with pytest.raises(WorkFailed, match="the sandbox 'bubblewrap' does not work here"):
        choose_policy(backend="bubblewrap")


def test_the_environment_may_ask_for_a_backend(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    pretend.setenv("TALLY_SANDBOX", "landlock")
    assert choose_policy().backend == "landlock"
    assert choose_policy(backend="bubblewrap").backend == "bubblewrap"


def test_the_environment_cannot_switch_the_sandbox_off(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    pretend.setenv("TALLY_SANDBOX", "insecure-local")
    with pytest.raises(InvalidInput, match="give --insecure-local on the command line"):
        choose_policy()


def test_insecure_local_is_had_by_its_name_only(pretend: pytest.MonkeyPatch) -> None:
    on(pretend, *ALL)
    chosen = choose_policy(insecure_local=True)
    assert chosen.backend == "insecure-local"
    assert len(chosen.warnings) == 1
    with pytest.raises(InvalidInput, match="cannot be set"):
        choose_policy(backend="insecure-local")
    with pytest.raises(InvalidInput, match="contradict"):
        choose_policy(insecure_local=True, backend="bubblewrap")


def test_an_unknown_backend_is_corrected(pretend: pytest.MonkeyPatch) -> None:
    on(pretend)
    with pytest.raises(InvalidInput, match="did you mean 'landlock'"):
        choose_policy(backend="landlok")
    with pytest.raises(InvalidInput, match="it is bubblewrap or landlock"):
        choose_policy(backend="docker")
