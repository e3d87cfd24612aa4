"""Requests of operations: refusals before anything runs."""

from __future__ import annotations

import pytest
from tests.http.conftest import Server

HOOK = {"url": "https://example.com/hooks"}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=null", "state"),
        ("state=queud", None),
        ("limit=1e3", "limit"),
        ("limit=1&limit=2", "limit"),
        ("fields=id&fields=kind", "fields"),
        ("sort=id", "sort"),
    ],
)
def test_a_query_that_is_mistaken_is_refused(shared: Server, query: str, field: str | None) -> None:
    refused = shared.v1("ada", "GET", f"/jobs?{query}")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == field


@pytest.mark.parametrize("query", ["validate_only=ture", "validate_only=1&validate_only=0"])
def test_a_mistaken_validate_only_changes_nothing(server: Server, query: str) -> None:
    refused = server.v1("alice", "POST", f"/webhooks?{query}", json=HOOK)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "validate_only")
    assert server.v1("alice", "GET", "/webhooks").json()["items"] == []


@pytest.mark.parametrize(("given", "status"), [("true", 200), ("on", 200), ("no", 201)])
def test_validate_only_is_true_or_false(server: Server, given: str, status: int) -> None:
    answered = server.v1("alice", "POST", f"/webhooks?validate_only={given}", json=HOOK)
    assert answered.status_code == status
    kept = server.v1("alice", "GET", "/webhooks").json()["items"]
    assert len(kept) == (status == 201)


def test_a_mistake_in_a_list_names_the_value_that_was_meant(shared: Server) -> None:
    body = HOOK | {"events": ["run.finished", "gate.faild"]}
    refused = shared.v1("alice", "POST", "/webhooks", json=body)
    assert refused.status_code == 422
    assert "did you mean 'gate.failed'" in refused.json()["detail"]


def test_what_only_answers_keeps_nothing_for_a_key(shared: Server) -> None:
    body = {"formula": "success_pct"}
    for _ in range(2):
        answered = shared.v1(
            "rita", "POST", "/formula/check", json=body, headers={"Idempotency-Key": "same"}
        )
        assert (answered.status_code, answered.headers.get("idempotency-replayed")) == (200, None)
