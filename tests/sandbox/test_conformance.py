"""Hostile plugins: each case of the conformance suite, on every backend that this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.sandbox.backends import ORDINARY, SAFE

from tallymark.sandbox import Policy, Sandbox
from tallymark.sandbox.conformance import Attack, Conformance, load_attacks


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(Policy(request.param)) as made:
        yield made


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conformance]:
    with Conformance(tmp_path_factory.mktemp("conformance")) as made:
        yield made


def list_cases() -> list[Any]:
    """All for the first backend; for others those that are about them, and for a proof the rest."""
    return [
        pytest.param(
            backend,
            case,
            id=f"{backend}-{case.name}",
            marks=() if backend in (SAFE[0], case.backend) or ORDINARY else pytest.mark.proof,
        )
        for backend in SAFE
        for case in load_attacks(backend)
    ]


@pytest.mark.parametrize(("sandbox", "case"), list_cases(), indirect=["sandbox"])
def test_no_attack_succeeds(sandbox: Sandbox, suite: Conformance, case: Attack) -> None:
    assert suite.failures(sandbox, case) == []


@pytest.mark.parametrize("sandbox", SAFE, indirect=True)
def test_a_case_says_what_it_misses(suite: Conformance, sandbox: Sandbox) -> None:
    """The suite itself can fail: an ordinary case, expected to be stopped, or to be another."""
    ordinary = next(case for case in load_attacks(SAFE[0]) if case.name == "types of scoring")
    for wrong in ({"score": 4.0}, {"stopped": ("refused",)}, {"refused": True}):
        expected = Attack(**{"name": ordinary.name, "body": ordinary.body} | wrong)
        assert "expected, not" in suite.failures(sandbox, expected)[0]


def test_names_are_unique() -> None:
    names = [case.name for case in load_attacks("bubblewrap")]
    assert len(set(names)) == len(names) >= 100
