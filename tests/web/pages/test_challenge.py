"""One challenge and its board."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app, squeeze
from tests.web.page_samples import DAY, NO_FILES, NOW, a_maze, fill_contests, play

from tallymark.service.app import App
from tallymark.store import Store
from tallymark.web import rendering
from tallymark.web.rendering import Renderer


def test_a_tie_is_said_and_the_earlier_stands_higher(client: TestClient) -> None:
    page = client.get("/challenges/maze").text
    assert list_tied(page) == ["alice", "bob"]
    assert "level with bob, but earlier" in page


def list_tied(page: str) -> list[str]:
    rows = re.findall(r'<tr data-row data-key="([^"]+)"(.*?)</tr>', squeeze(page), re.DOTALL)
    return [agent for agent, row in rows if ">tie<" in row]


def test_the_board_says_where_wins_end(client: TestClient) -> None:
    page = client.get("/challenges/maze").text
    assert "below 700: draw" in page
    assert "below 400: loss" in page


def test_who_is_not_on_this_page_of_the_board_is_shown_with_neighbours(client: TestClient) -> None:
    page = client.get("/challenges/maze?limit=2&around=dave&format=json").json()
    assert [each["agent"] for each in page["board"]["items"]] == ["alice", "bob"]
    around = [each["agent"] for each in page["around"]["items"]]
    assert around == ["alice", "bob", "charlie", "dave"]


def test_the_matrix_counts_verdicts_of_a_category(client: TestClient) -> None:
    whole = client.get("/challenges/guard?format=json").json()["versus"]
    part = client.get("/challenges/guard?category=leak&format=json").json()["versus"]
    judged = [
        sum(cell["breached"] + cell["held"] for row in each["cells"] for cell in row)
        for each in (whole, part)
    ]
    assert judged == [8, 4]


def test_a_frozen_board_says_so_and_tells_nothing_new_anywhere(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_contests)) as app:
        app.store.challenges.freeze("maze", at=NOW - 10, reason="the final hour")
        play(app.store, "maze", "dave", 999.0, at=NOW - 9)
        public = browse_as(app, "viewer")
        page = public.get("/challenges/maze").text
        assert "The board is frozen" in page
        for address in (
            "/", "/challenges/maze", "/challenges/maze?tv=1", "/challenges/maze?part=charts",
            "/agents/dave", "/ratings", "/attempts/a9", "/challenges", "/challenges/maze?live=1",
        ):  # fmt: skip
            assert "999" not in public.get(address).text, address
        live = browse(app).get("/challenges/maze?live=1").text
        assert "999" in live
        assert "The public does not see this" in live


def test_a_part_is_made_once_for_all_who_see_the_same(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    render = Renderer.render

    def count(self: Renderer, template: str, **values: object) -> str:
        made.append(template)
        return render(self, template, **values)

    monkeypatch.setattr(Renderer, "render", count)
    client = browse_as(app)
    first = client.get("/challenges/maze?part=board")
    again = client.get(
        "/challenges/maze?part=board", headers={"If-None-Match": first.headers["etag"]}
    )
    plain = client.get("/challenges/maze?part=board", headers={"Accept-Encoding": "identity"})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert plain.text == first.text
    assert made == ["challenge_board.html"]


def test_a_part_marks_nobody_and_has_no_token(app: App) -> None:
    page = browse_as(app, "agent", "alice")
    assert 'class="me"' in page.get("/challenges/maze").text
    part = page.get("/challenges/maze?part=board").text
    assert 'class="me"' not in part
    assert "csrf" not in part


def test_a_score_on_a_frozen_board_does_not_show_in_the_tag_of_its_part(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_contests)) as app:
        app.store.challenges.freeze("maze", at=NOW - 10, reason="the end")
        public = browse_as(app)
        before = public.get("/challenges/maze?part=board&limit=3").headers["etag"]
        play(app.store, "maze", "dave", 999.0, at=NOW - 9)
        assert public.get("/challenges/maze?part=board&limit=3").headers["etag"] == before


def test_strangers_are_not_led_to_what_they_may_not_open(app: App) -> None:
    for path in ("/challenges/maze", "/challenges/guard", "/challenges"):
        page = browse_as(app).get(path).text
        assert 'href="/agents/' not in page, path
    assert 'href="/agents/alice"' in browse_as(app, "viewer").get("/challenges/maze").text


def test_another_formula_is_framed_and_says_who_moves(client: TestClient) -> None:
    page = client.get("/challenges/maze?formula=-total").text
    assert "What-if order, not the official board" in page
    assert "would lead" in page
    told = client.get("/challenges/maze?formula=-total&format=json").json()["what_if"]
    items = told["board"]["items"]
    assert [(each["agent"], each["before"], each["moved"]) for each in items][:2] == [
        ("dave", 4, 3),
        ("charlie", 3, 1),
    ]
    rows = client.get("/challenges/maze?formula=-total&format=csv").text.splitlines()
    assert rows[1].startswith("1,dave,")


def test_a_score_on_a_board_says_what_made_it(client: TestClient) -> None:
    board = client.get("/challenges/maze").text
    assert 'data-tip="540 Correctness + 360 Speed = 900, rounded down"' in board
    tried = client.get("/challenges/maze?formula=total-1").text
    assert 'href="/attempts/a000000000001?formula=total-1#by-rule"' in tried
    assert 'id="by-rule"' in client.get("/attempts/a1?formula=total-1").text


def test_weights_are_shares_whatever_they_sum_to(client: TestClient) -> None:
    for weights in ("correctness:20,speed:60", "correctness:0.25,speed:0.75"):
        form = client.get(f"/challenges/maze?weights={weights}&format=json").json()["form"]
        assert [each["weight"] for each in form["sliders"]] == [0.25, 0.75]


def test_sliders_sent_without_script_lead_to_the_shared_address(client: TestClient) -> None:
    sent = client.get(
        "/challenges/maze?around=dave&w.correctness=20&w.speed=60", follow_redirects=False
    )
    assert sent.status_code == 303
    assert sent.headers["location"] == (
        "/challenges/maze?around=dave&weights=correctness%3A20%2Cspeed%3A60"
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("formula=total+%2B+sped", "Column 9:"),
        ("weights=correctness", "weights cannot be read"),
        ("weights=correctness:0,speed:0", "All weights are 0"),
        ("weights=courage:5,speed:5", "no dimension"),
        ("weights=correctness:nan,speed:1", "weights cannot be read"),
        ("config=%7B", "no JSON object"),
    ],
)
def test_a_wrong_rule_is_said_on_the_page(client: TestClient, query: str, words: str) -> None:
    page = client.get(f"/challenges/maze?{query}")
    assert page.status_code == 200
    assert words.casefold() in page.text.casefold()


def test_a_board_is_filtered_and_sorted_on_the_server(client: TestClient) -> None:
    def list_agents(query: str) -> list[str]:
        rows = client.get(f"/challenges/maze?format=json&{query}").json()["board"]["items"]
        return [f"{each['rank']} {each['agent']}" for each in rows]

    assert list_agents("q=LI") == ["1 alice", "3 charlie"]
    assert list_agents("sort=submitted")[0] == "4 dave"
    assert list_agents("sort=agent&order=asc")[0] == "4 dave"
    assert client.get("/challenges/maze?sort=luck").status_code == 422


def test_a_tie_with_the_next_page_is_a_tie(client: TestClient) -> None:
    page = client.get("/challenges/maze?limit=1&offset=1").text
    assert list_tied(page) == ["bob"]


def test_who_may_see_a_challenge_is_said(client: TestClient) -> None:
    assert "anyone may read this page" in client.get("/challenges/maze").text
    assert "signed-in users" in client.get("/challenges/frugal").text


def test_where_attempts_are_reported_no_entry_is_offered(client: TestClient) -> None:
    view = client.get("/challenges/maze?format=json").json()
    terms = [each["name"] for each in view["rules"]]
    assert "Entry" in terms
    assert not {"Time", "Answer"} & set(terms)
    assert "/challenges/maze/enter" not in client.get("/challenges/maze").text
    assert "tally attempt report maze" in client.get("/challenges/maze/enter").text
    assert "/challenges/bean-counter/enter" in client.get("/challenges/bean-counter").text


def test_a_handle_stands_beside_another_name(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_contests)) as app:
        app.store.agents.name_agent("alice", "The Great One", at=NOW)
        owner = browse(app)
        beside = '<span class="sub">alice</span>'
        for address in ("/", "/challenges", "/challenges/guard"):
            assert beside in owner.get(address).text, address
        assert '<span class="quiet">alice</span>' in owner.get("/challenges/maze?tv=1").text
        assert 'href="/agents/alice" title="alice"' in owner.get("/challenges/maze").text
        assert "<code>alice</code>" in owner.get("/attempts/a1").text


@pytest.mark.parametrize(
    ("value", "shown"), [(-0.04, "0.0"), (0.04, "0.0"), (-1.0, "\N{MINUS SIGN}1.0"), (1.0, "+1.0")]
)
def test_a_lead_of_nothing_has_no_sign(value: float, shown: str) -> None:
    assert rendering._sign(f"{value:.1f}", value) == shown


def test_a_likely_place_says_among_how_many_it_is_one(tmp_path: Path) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), NO_FILES, at=NOW - DAY)
        for agent, scores in {"ann": (990, 970, 120), "ben": (995, 900, 80), "cat": (999,)}.items():
            for nth, score in enumerate(scores):
                play(store, "maze", agent, float(score), at=NOW - 9000 + 100 * nth)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        page = browse(app).get("/challenges/maze").text
        assert squeeze(page).count('2<span class="sub">of 2 with three tries</span>') == 2
        rows = browse(app).get("/challenges/maze?format=json").json()["board"]["items"]
        likely = {each["agent"]: each["likely"] for each in rows if "likely" in each}
        assert "cat" not in likely
        assert 0 <= likely["ann"]["low"] < likely["ann"]["high"] <= 1000
        for nth in (1, 2):
            play(app.store, "maze", "cat", 500.0 + nth, at=NOW - 5000 + 100 * nth)
        assert "with three tries</span>" not in browse(app).get("/challenges/maze").text
