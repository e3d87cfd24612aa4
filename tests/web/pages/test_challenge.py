"""One challenge and its board."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app
from tests.web.page_samples import NOW, fill_contests, play


def test_a_tie_is_said_and_the_earlier_stands_higher(client: TestClient) -> None:
    rows = client.get("/challenges/maze?format=json").json()["rows"]
    assert [(each["agent"], each["tied"]) for each in rows[:3]] == [
        ("alice", True),
        ("bob", True),
        ("charlie", False),
    ]
    assert "level with bob, and earlier" in client.get("/challenges/maze").text


def test_the_board_says_where_wins_end(client: TestClient) -> None:
    page = client.get("/challenges/maze").text
    assert "below 700: draw" in page
    assert "below 400: loss" in page


def test_who_is_not_on_this_page_of_the_board_is_shown_with_neighbours(client: TestClient) -> None:
    page = client.get("/challenges/maze?limit=2&around=dave&format=json").json()
    assert [each["agent"] for each in page["rows"]] == ["alice", "bob"]
    assert [each["agent"] for each in page["around"]] == ["alice", "bob", "charlie", "dave"]


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
        assert "what the public does not see" in live
