"""A track's page shows who leads over several challenges, and no more than their boards do."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app
from tests.web.page_samples import DAY, NOW, fill_contests, play

from tallymark.service.app import App


def read_board(client: TestClient, address: str) -> list[tuple[str, float | None]]:
    """Who stands there, and with what."""
    rows = client.get(f"{address}{'&' if '?' in address else '?'}format=json").json()["board"][
        "items"
    ]
    return [(each["agent"], each["value"]) for each in rows]


def test_a_track_shows_places_with_the_part_of_each_challenge(client: TestClient) -> None:
    assert read_board(client, "/tracks/both") == [
        ("alice", 2700.0),
        ("bob", 2500.0),
        ("charlie", None),
        ("dave", None),
    ]
    page = client.get("/tracks/both").text
    assert 'href="/challenges/frugal?around=bob">800</a>' in page
    assert "<code>maze + 2 * frugal</code>" in page
    assert "Frugal has no value." in page


def test_a_place_on_another_page_is_shown_with_its_neighbours(client: TestClient) -> None:
    view = client.get("/tracks/both?around=dave&limit=1&format=json").json()
    assert [each["agent"] for each in view["board"]["items"]] == ["alice"]
    assert (view["around"][-1]["agent"], view["me"]) == ("dave", "dave")
    page = client.get("/tracks/both?around=dave&limit=1").text
    assert page.count('class="me"') == 1


def test_as_csv_each_challenge_has_a_column(client: TestClient) -> None:
    first, *_ = client.get("/tracks/both?format=csv").text.splitlines()
    assert "scores.maze,scores.frugal" in first


@pytest.mark.parametrize("address", ["/", "/challenges", "/tracks", "/search?q=cup"])
def test_tracks_are_found_from(address: str, app: App) -> None:
    assert 'href="/tracks/both"' in browse(app).get(address.replace("cup", "both")).text
    stranger = browse_as(app).get(address).text
    assert 'href="/tracks/spring"' in stranger
    assert "/tracks/both" not in stranger


def test_strangers_know_no_track_with_a_private_challenge(app: App) -> None:
    answered = browse_as(app).get("/tracks/both")
    assert answered.status_code == 404
    assert "frugal" not in answered.text
    assert browse_as(app).get("/tracks/spring").status_code == 200


def test_what_a_frozen_board_hides_the_track_hides_too(tmp_path: Path) -> None:
    app = open_app(tmp_path / "tally.db", fill_contests)
    app.store.challenges.freeze("maze", at=NOW - DAY / 2, reason="the end")
    play(app.store, "maze", "dave", 999.0, at=NOW - 600)
    public = browse_as(app, "viewer")
    assert read_board(public, "/tracks/spring")[0] == ("alice", 900.0)
    assert "boards hide later attempts: The maze" in public.get("/tracks/spring").text
    organiser = browse_as(app, "organiser")
    assert read_board(organiser, "/tracks/spring")[0] == ("alice", 900.0)
    assert read_board(organiser, "/tracks/spring?live=1")[0] == ("dave", 999.0)
    assert "The public does not see this" in organiser.get("/tracks/spring?live=1").text
    assert read_board(public, "/tracks/spring?live=1")[0] == ("alice", 900.0)
    app.close()


def test_an_unknown_track_is_said_to_be_none(client: TestClient) -> None:
    answered = client.get("/tracks/sprign")
    assert answered.status_code == 404
    assert "spring" in answered.text
