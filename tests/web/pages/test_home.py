"""Home says what is new to whoever looks, and no more than they may know."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as
from tests.web.page_samples import NOW

from tallymark.challenges.attempt import Payload
from tallymark.runs.reviews import CaseKey, GivenScore
from tallymark.service.app import App


def test_what_fell_comes_first_and_leads_to_why(client: TestClient) -> None:
    page = client.get("/").text
    assert page.index("desk</bdi> is lower") < page.index("News")
    assert 'href="/runs/rntwo">Why it lost points' in page


def test_a_fall_within_the_interval_may_be_chance(client: TestClient) -> None:
    (alert,) = client.get("/?format=json").json()["alerts"]
    assert alert["fell"] > 0
    assert alert["may_be_chance"] == ("which may be chance" in client.get("/").text)


def test_who_moved_is_told_with_the_place(client: TestClient) -> None:
    news = client.get("/?format=json").json()["news"]
    assert any(each["what"] == "reached place 3 on The maze" for each in news)


def test_strangers_see_what_is_public_and_nothing_else(app: App) -> None:
    page = browse_as(app).get("/").text
    assert "The maze" in page
    assert "Frugal" not in page
    assert "desk" not in page
    assert "erin" not in page  # is at it now, which is nobody else's business


def test_a_competitor_sees_how_long_the_open_attempt_has(app: App) -> None:
    page = browse_as(app, "agent", "erin").get("/").text
    assert "Your attempt at The maze is open." in page
    assert "9 min 30 s left" in page
    assert "Your attempts" in browse_as(app, "agent", "alice").get("/").text


def test_an_organiser_sees_what_waits(app: App) -> None:
    assert "not scored yet" not in browse_as(app, "organiser").get("/").text
    store = app.store
    entered = store.attempts.enter("maze", "frank", at=NOW - 20, seed=1)
    store.attempts.submit(entered.id, "frank", Payload(), at=NOW - 10)
    assert "1 attempt not scored yet" in browse_as(app, "organiser").get("/").text
    assert "not scored yet" not in browse_as(app, "viewer").get("/").text


def test_who_judges_sees_what_is_disputed(app: App) -> None:
    key = CaseKey("rnone", "case-1")
    app.store.reviews.give(key, "alice", GivenScore(label="pass"), at=NOW)
    app.store.reviews.give(key, "bob", GivenScore(label="fail"), at=NOW)
    waiting = browse_as(app, "reporter").get("/?format=json").json()["waiting"]
    assert any("with disputed verdicts" in each["words"] for each in waiting)
    assert browse_as(app, "reporter").get("/review?show=disputed").status_code == 200
    assert "disagree" not in browse_as(app, "viewer").get("/").text


def test_an_empty_store_says_what_to_type_and_strangers_where_to_sign_in(empty_app: App) -> None:
    page = browse(empty_app).get("/").text
    assert "tally init &amp;&amp; tally run suite.yaml" in page
    assert "tally serve" in page
    assert "--demo" in page
    stranger = browse_as(empty_app).get("/").text
    assert "tally init" not in stranger
    assert 'href="/sign-in"' in stranger


def test_what_changes_can_be_asked_for_by_itself(client: TestClient) -> None:
    part = client.get("/?part=news").text
    assert "News" in part
    assert "<html" not in part


def test_noise_and_runs_that_were_cut_short_raise_no_alarm(app: App) -> None:
    store = app.store
    first = store.run("rnone")
    for name, score, total in (("rnnoise", 49.9998, 4), ("rncut", 20.0, 9)):
        record = replace(
            first,
            id=name,
            suite=f"suite of {name}",
            created_at=NOW,
            score=score,
            total=total,
            passed=2,
            failed=2,
            errors=0,
        )
        earlier = replace(record, id=f"{name}0", created_at=NOW - 60, score=50.0, total=4)
        for each in (earlier, record):
            store.create_run(each)
    told = browse(app).get("/?format=json").json()
    assert all(not each["suite"].startswith("suite of") for each in told["alerts"])
    page = browse(app).get("/").text
    assert "20.00 over 4 of 9" in page
    assert "5 of 9 not run (completed)" in page
