"""`max_latency` and `max_cost`."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import checked


@pytest.mark.parametrize(("latency", "passed"), [(0.0, True), (2.0, True), (2.01, False)])
def test_latency(latency: float, passed: bool) -> None:
    assert checked("max_latency", 2, latency=latency).passed is passed


@pytest.mark.parametrize(("cost", "passed"), [(0.0, True), (0.01, True), (0.011, False)])
def test_cost(cost: float, passed: bool) -> None:
    assert checked("max_cost", 0.01, cost=cost).passed is passed


def test_reasons() -> None:
    assert checked("max_latency", 2, latency=2.5).reason == "2.50 s (needs at most 2 s)"
    assert checked("max_cost", 0.01, cost=0.00025).reason == "$0.00025 (needs at most $0.0100)"


def test_a_latency_that_is_not_known_is_no_pass() -> None:
    result = checked("max_latency", 1, latency=None)
    assert result.passed is False
    assert result.error == (
        "max_latency: the latency is not known; a replay gives it as `latency`, in seconds"
    )


def test_a_cost_that_is_not_known_is_no_pass() -> None:
    result = checked("max_cost", 1, cost=None)
    assert result.passed is False
    assert result.error == (
        "max_cost: the cost is not known; give the model's prices in metadata.pricing"
    )
