"""The review queue: what is disputed first, verdicts one after the other, who agrees with whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app, send
from tests.web.page_samples import fill_runs

from tallymark.service.app import App


@pytest.fixture
def own_app(tmp_path: Path) -> Iterator[App]:
    """Runs that a test may say something of."""
    with closing(open_app(tmp_path / "tally.db", fill_runs)) as opened:
        yield opened


def test_what_is_disputed_comes_first_then_what_nobody_has_seen(client: TestClient) -> None:
    told = client.get("/review?format=json").json()
    first, *rest = told["queue"]["items"]
    assert (first["run"], first["case"], first["disputed"]) == ("rntwo", "case-0", True)
    assert first["people"] == {"bob": "fail", "alice": "pass"}
    assert not any(each["disputed"] or each["people"] for each in rest)
    assert {each["run"] for each in rest} >= {"rnone", "rntwo", "rnprompt0"}
    assert ("rntwo", "case-1") not in {(each["run"], each["case"]) for each in rest}
    assert told["title"].startswith("To review: 1 disputed")


def test_agreement_is_told_with_its_table_or_with_the_reason(client: TestClient) -> None:
    lines = client.get("/review?format=json").json()["queue"]["agreement"]
    both = next(each for each in lines if {each["first"], each["second"]} == {"alice", "bob"})
    assert both["agreement"]["labels"] == ["fail", "pass"]
    people = lines[0]
    assert (people["first"], people["second"], people["undecided"]) == ("people", "judges", 1)
    assert "every time" in people["agreement"]["reason"]
    page = client.get("/review").text
    assert "both said &#39;pass&#39; every time" in page


def test_a_verdict_leads_to_the_next_case(own_app: App) -> None:
    client = browse(own_app)
    path = "/review?run=rnone"
    chosen = client.get(f"{path}&format=json").json()["chosen"]
    at = f"{chosen['run']}:{chosen['epoch']}:{chosen['case']}"
    done = send(client, path, "score", label="fail", name="verdict", at=at, comment="wrong")
    assert done.status_code == 303
    following = client.get(done.headers["location"] + "&format=json").json()
    assert following["chosen"]["case"] != chosen["case"]
    assert following["before"] == at
    first = following["queue"]["items"][0]
    assert first["case"] == chosen["case"]  # the judge had passed it, so it is disputed now
    assert first["mine"] == "fail"
    (given,) = own_app.store.reviews.all(run="rnone")
    assert (given.author, given.label, given.comment) == ("owner", "fail", "wrong")


def test_a_comment_alone_stays_with_its_case(own_app: App) -> None:
    client = browse(own_app)
    at = "rnone:0:case-1"
    done = send(client, f"/review?at={at}", "score", label="", at=at, comment="look at this")
    page = client.get(done.headers["location"])
    assert "look at this" in page.text
    assert page.text.count("case-1") >= 1
    refused = send(client, f"/review?at={at}", "score", label="", at=at, comment=" ")
    assert refused.status_code == 422
    assert "The review is empty" in refused.text


def test_who_may_look_sees_it_and_says_nothing(own_app: App) -> None:
    viewer = browse_as(own_app, "viewer")
    page = viewer.get("/review?run=rnone")
    assert page.status_code == 200
    assert 'data-key="p"' not in page.text
    assert send(viewer, "/review", "score", label="pass", at="rnone:0:case-1").status_code == 403
    assert browse_as(own_app, "agent", "bob").get("/review").status_code == 403
    assert browse_as(own_app).get("/review").status_code == 401


def test_two_people_are_told_apart(own_app: App) -> None:
    for who, label in (("rita", "pass"), ("alice", "fail")):
        reporter = browse_as(own_app, "reporter", owner=who)
        done = send(reporter, "/review", "score", label=label, at="rnone:0:case-2")
        assert done.status_code == 303, done.text[-300:]
    authors = {each.author: each.says for each in own_app.store.reviews.all(run="rnone")}
    assert authors == {"rita": "pass", "alice": "fail"}


@pytest.mark.parametrize("at", ["rnone:0:nothing", "rnone", "rnone:-1:case-1", "x:0:y", ":::"])
def test_a_case_that_is_not_there_is_said_so(client: TestClient, at: str) -> None:
    assert client.get(f"/review?at={at}").status_code == 404


def test_an_empty_queue_says_how_cases_come_to_it(empty_app: App) -> None:
    page = browse(empty_app).get("/review")
    assert page.status_code == 200
    assert "llm_judge" in page.text
