"""One case."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app, send
from tests.web.page_samples import fill_runs

from tallymark.service.app import App


def test_failing_cost_what_passing_would_have_given(client: TestClient) -> None:
    losses = client.get("/runs/rntwo/cases/case-0?format=json").json()["losses"]
    found = {each["what"]: each["points"] for each in losses}
    assert abs(found["Failing"] + 20.0) < 1e-9  # one of four cases, at 0.8 a point
    assert abs(found["Cost"] + 0.1) < 1e-9


def test_cases_lead_to_their_neighbours(client: TestClient) -> None:
    case = client.get("/runs/rntwo/cases/case-1?format=json").json()
    assert (case["before"], case["after"]) == (["case-0", 0], ["case-2", 0])


def test_of_many_spans_the_page_holds_the_first(client: TestClient) -> None:
    page = client.get("/runs/rntwo/cases/case-0").text
    assert page.count("<rect") < 150
    assert "300 spans" in page
    spans = client.get("/runs/rntwo/cases/case-0?format=json").json()["spans"]
    assert len(spans) == 300


def test_people_score_a_case_change_it_and_withdraw_it(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_runs)) as app:
        client, path = browse(app), "/runs/rnone/cases/case-1"
        given = send(client, path, "score", name="tone", value="0.25", comment="curt")
        assert given.headers["location"] == f"{path}#people"
        (score,) = app.store.reviews.all(run="rnone")
        assert (score.name, score.value, score.author) == ("tone", 0.25, "owner")
        edit = client.get(f"{path}?edit={score.id}").text
        assert 'value="0.25"' in edit
        send(client, f"{path}?edit={score.id}", "change", score=score.id, value="0.75")
        assert "0.75" in client.get(path).text
        wrong = send(client, path, "score", name="tone", value="much", comment="kept")
        assert wrong.status_code == 422
        assert "is no number from 0 to 1" in wrong.text
        assert "kept" in wrong.text
        send(client, path, "withdraw", score=score.id)
        assert app.store.reviews.all(run="rnone") == []


def test_what_another_said_has_no_buttons(app: App) -> None:
    page = browse_as(app, "reporter", owner="alice").get("/runs/rntwo/cases/case-0").text
    assert "it refuses" in page
    assert page.count(">Withdraw<") == 1
