"""Who may see what."""

from __future__ import annotations

import pytest
from tests.web.conftest import browse_as

from tallymark.app.app import App
from tallymark.app.callers import Caller
from tallymark.web.visitor import Visitor, make_stranger

OF_RUNS = ("/runs", "/runs/rntwo", "/runs/rntwo/cases/case-0", "/compare?run=rnone&run=rntwo")


@pytest.mark.parametrize("address", OF_RUNS)
def test_runs_are_not_for_strangers(app: App, address: str) -> None:
    page = browse_as(app, make_stranger()).get(address)
    assert page.status_code == 401
    assert "sample-careful" not in page.text


def test_a_key_that_may_not_see_runs_is_told_so(app: App) -> None:
    visitor = Visitor(Caller(tenant="default", role="agent", name="alice", agent="alice"))
    assert browse_as(app, visitor).get("/runs").status_code == 403


def test_strangers_find_nothing_of_runs_elsewhere(app: App) -> None:
    client = browse_as(app, make_stranger())
    for address in ("/", "/search?q=rn", "/formula", "/formula?run=rntwo"):
        page = client.get(address)
        assert page.status_code == 200
        assert "rntwo" not in page.text.replace("/formula?run=rntwo", ""), address


def test_what_an_evaluator_told_is_for_its_own_agent(app: App) -> None:
    alice = Visitor(Caller(tenant="default", role="agent", name="alice", agent="alice"))
    assert "Evaluator output" in browse_as(app, alice).get("/attempts/a1").text
    assert "Evaluator output" not in browse_as(app, alice).get("/attempts/a2").text
    assert "Evaluator output" not in browse_as(app, make_stranger()).get("/attempts/a1").text


def test_another_tenant_sees_nothing(app: App) -> None:
    visitor = Visitor(Caller(tenant="other", role="viewer", name="v"), may_read_runs=True)
    client = browse_as(app, visitor)
    assert client.get("/runs/rntwo").status_code == 404
    assert "The maze" not in client.get("/challenges").text
