"""Rules on pages: made, edited, paused and ended by organisers, and seen by the team."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.web.conftest import browse, browse_as, open_app, send
from tests.web.page_samples import fill_traces

from tallymark.service.app import App

FORM = {"kind": "scorer", "says": 'contains(values=["days"])', "rate": "50", "cap_count": "10"}


@pytest.fixture
def own_app(tmp_path: Path) -> Iterator[App]:
    with closing(open_app(tmp_path / "tally.db", fill_traces)) as app:
        yield app


def test_a_rule_is_made_as_the_form_says(own_app: App) -> None:
    client = browse_as(own_app, "organiser")
    done = send(client, "/rules", "add", name="polite", **FORM)
    assert (done.status_code, done.headers["location"]) == (303, "/rules/polite")
    told = client.get("/rules/polite?format=json").json()["rule"]["definition"]
    assert (told["rate"], told["cap_count"]) == (50, 10)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"says": "nothing_like_this()"}, "nothing_like_this"),
        ({"rate": "many"}, "no number"),
        ({"rate": "120"}, "rate"),
        ({"filter": "staus:ok"}, "status"),
        ({"kind": "judge"}, "model"),
        ({"name": "a b"}, "a b"),
    ],
)
def test_what_cannot_be_a_rule_is_said_and_nothing_typed_is_lost(
    own_app: App, change: dict[str, str], says: str
) -> None:
    done = send(browse(own_app), "/rules", "add", **{"name": "polite", **FORM, **change})
    assert done.status_code == 422
    assert says in done.text
    assert "contains" in done.text or "nothing_like_this" in done.text


def test_a_new_version_keeps_the_old_one(own_app: App) -> None:
    client = browse(own_app)
    send(client, "/rules/short", "edit", kind="formula", says="cost * 0")
    assert [
        each["number"] for each in client.get("/rules/short?format=json").json()["rule"]["versions"]
    ] == [
        2,
        1,
    ]


def test_a_rule_is_paused_resumed_and_ended(own_app: App) -> None:
    client = browse(own_app)
    for act, state in (("pause", "paused"), ("resume", "active")):
        send(client, "/rules/short", act)
        assert client.get("/rules/short?format=json").json()["rule"]["state"] == state
    send(client, "/rules/short", "archive")
    assert 'href="/rules/short"' not in client.get("/rules").text


def test_a_backfill_says_its_count_first(own_app: App) -> None:
    client = browse(own_app)
    page = client.get("/rules/short?since=2026-09-14&until=2026-09-22").text
    assert "8 traces to score" in page
    done = send(client, "/rules/short", "backfill", since="2026-09-14", until="2026-09-22")
    assert done.status_code == 303
    assert "Running" in client.get("/rules/short").text


@pytest.mark.parametrize("do", ["edit", "pause", "resume", "archive", "backfill"])
def test_only_organisers_change_rules(own_app: App, do: str) -> None:
    client = browse_as(own_app, "viewer")
    assert send(client, "/rules/short", do, **FORM).status_code == 403
    assert client.get("/rules/short?format=json").json()["rule"]["state"] == "active"
    assert send(client, "/rules", "add", name="mine", **FORM).status_code == 403
    assert browse_as(own_app).get("/rules/short").status_code == 401
