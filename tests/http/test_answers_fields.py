"""`fields=`: what may be asked for goes by what is declared, whatever data there are."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from tests.challenges.versus.versus_contest import a_challenge
from tests.http.conftest import Server, publish

from tallymark.challenges.challenge_folder import pack_files
from tallymark.server import PREFIX, make_api
from tallymark.wire import attempts, versus

WITH_FIELDS: dict[str, tuple[str, type[BaseModel]]] = {
    "/agents": ("/agents", attempts.AgentState),
    "/agents/{handle}": ("/agents/bob", attempts.WholeAgent),
    "/attempts/{attempt}": ("/attempts/{scored}", attempts.WholeAttempt),
    "/attempts/{attempt}/submission": (
        "/attempts/{scored}/submission",
        attempts.SubmissionState,
    ),
    "/challenges/{name}/attempts": ("/challenges/speed/attempts", attempts.AttemptState),
    "/challenges/{name}/submissions": ("/challenges/duel/submissions", versus.SideItem),
    "/challenges/{name}/submissions/{submission}": (
        "/challenges/duel/submissions/1",
        versus.WholeSide,
    ),
    "/challenges/{name}/leaderboard": ("/challenges/speed/leaderboard", attempts.Standing),
}


@pytest.fixture(scope="module", autouse=True)
def duel(shared: Server) -> None:
    """Red against blue, with a submission."""
    store = shared.service.tenant("default").store
    store.challenges.publish(a_challenge("duel"), pack_files({}), at=0.0)
    store.versus.submit("duel", "bob", "red", "attack", at=1.0)


def find_address(server: Server, shape: str) -> str:
    board = server.v1("ada", "GET", "/challenges/speed/leaderboard").json()
    trace = server.v1("ada", "GET", "/traces").json()["items"][0]["id"]
    return WITH_FIELDS[shape][0].format(scored=board["items"][0]["attempt"], trace=trace)


def list_documents(answered: Any) -> list[dict[str, Any]]:
    document = answered.json()
    return document["items"] if "items" in document else list(document.values())


def test_every_route_with_fields_is_looked_at(shared: Server) -> None:
    found = {
        route.path.removeprefix(PREFIX)
        for route in iter_route_contexts(make_api(shared.service).routes)
        if route.path is not None
        and route.path.startswith(PREFIX)
        and isinstance(route.original_route, APIRoute)
        and any(each.name == "fields" for each in route.dependant.query_params)
    }
    assert found == set(WITH_FIELDS)


@pytest.mark.parametrize("shape", WITH_FIELDS)
def test_all_that_is_declared_may_be_asked_for_and_nothing_else_is_told(
    shared: Server, shape: str
) -> None:
    address, declared = find_address(shared, shape), WITH_FIELDS[shape][1]
    whole = list_documents(shared.v1("ada", "GET", address))
    assert whole
    for each in whole:
        assert set(each) <= set(declared.model_fields)
    named = ",".join(declared.model_fields)
    picked = list_documents(shared.v1("ada", "GET", f"{address}?fields={named}"))
    for each, part in zip(whole, picked, strict=True):
        assert list(part) == list(declared.model_fields)
        assert {name: part[name] for name in each} == each
    refused = shared.v1("ada", "GET", f"{address}?fields=no-such-field")
    assert refused.status_code == 400


@pytest.mark.parametrize("address", ["/challenges/empty/leaderboard", "/challenges/empty/attempts"])
def test_an_empty_list_refuses_what_a_full_one_does(server: Server, address: str) -> None:
    publish(server, name="empty", scoring_formula="rating")
    assert server.v1("ada", "GET", f"{address}?fields=score").json()["items"] == []
    assert server.v1("ada", "GET", f"{address}?fields=scroe").status_code == 400
