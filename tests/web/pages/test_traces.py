"""Lists of traces, one trace, two periods, and the suite that is made of them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app, send, squeeze
from tests.web.page_samples import fill_traces

from tallymark.service.app import App
from tallymark.suites.suite_file import load_suite

FIRST = f"{1:032x}"


@pytest.fixture
def own_app(tmp_path: Path) -> Iterator[App]:
    with closing(open_app(tmp_path / "tally.db", fill_traces)) as app:
        yield app


def test_a_filter_says_at_its_column_what_is_wrong(client: TestClient) -> None:
    page = client.get("/traces?q=tool:x staus:error").text
    assert "did you mean &#39;status&#39;" in page
    assert "^^^^^" in page


def test_what_is_shown_is_what_fits(client: TestClient) -> None:
    told = client.get("/traces?q=status:error&format=json").json()
    assert [each["id"] for each in told["traces"]] == [f"{3:032x}", f"{6:032x}"]
    assert told["whole"]["traces"] == 2


def test_means_are_those_of_the_scores(client: TestClient) -> None:
    told = client.get("/traces?measure=people.polite&by=version&format=json").json()
    assert told["whole"]["mean"] == pytest.approx(sum(range(1, 7)) / 8 / 6)
    by = {each["group"]: each["mean"] for each in told["groups"]}
    assert by["1.0"] == pytest.approx((2 + 4 + 6) / 8 / 3)
    assert by["1.1"] == pytest.approx((1 + 3 + 5) / 8 / 3)


def test_a_comparison_leads_with_its_answer(client: TestClient) -> None:
    page = client.get("/traces/compare?first=version:1.0&second=version:1.1").text
    assert "<h1>No significant difference</h1>" in page
    assert '<th scope="row">Duration</th><td class="n">1.50 s<' in squeeze(page)
    assert '<th scope="row">Cost</th>' in page


def test_chosen_traces_become_a_suite(own_app: App) -> None:
    client = browse(own_app)
    done = send(client, "/traces", "make-test", trace=FIRST)
    assert done.status_code == 200
    assert "1 case from production" in done.text
    assert "May I send it back? 1" in done.text


def test_a_persons_own_score_is_kept_under_their_name(own_app: App) -> None:
    client = browse_as(own_app, "reporter", owner="rita")
    done = send(client, f"/traces/{FIRST}", "score", name="right", value="0.25", reason="too late")
    assert done.status_code == 303
    told = json.loads(client.get(f"/traces/{FIRST}?format=json").text)
    mine = next(each for each in told["trace"]["scores"] if each["name"] == "right")
    assert (mine["value"], mine["author"]) == (0.25, "rita")
    viewer = browse_as(own_app, "viewer")
    assert "Score it yourself" not in viewer.get(f"/traces/{FIRST}").text
    assert send(viewer, f"/traces/{FIRST}", "score", name="right", value="1").status_code == 403


@pytest.mark.parametrize("value", ["2", "-1", "nan", "many"])
def test_what_is_no_score_is_refused_and_nothing_typed_is_lost(own_app: App, value: str) -> None:
    done = send(browse(own_app), f"/traces/{FIRST}", "score", name="right", value=value)
    assert done.status_code == 422
    assert f'value="{value}"' in done.text


@pytest.mark.parametrize("address", ["/traces", f"/traces/{FIRST}", "/traces/compare"])
def test_traces_are_the_teams(app: App, address: str) -> None:
    assert browse_as(app).get(address).status_code == 401
    assert browse_as(app, "agent", "alice").get(address).status_code == 403


def test_a_viewer_of_another_tenant_finds_nothing(app: App) -> None:
    client = browse_as(app, "viewer", tenant="other")
    assert client.get(f"/traces/{FIRST}").status_code == 404
    assert "No traces yet" in client.get("/traces").text


def test_a_suite_of_production_is_one(own_app: App, tmp_path: Path) -> None:
    page = send(browse(own_app), "/traces", "make-test", q="status:ok").text
    found = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)
    assert found is not None
    path = tmp_path / "suite.yaml"
    path.write_text(html.unescape(found[1]))
    assert len(load_suite(path).cases) == 6
