"""One agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse, browse_as, open_app
from tests.web.page_samples import DAY, NOW, a_maze, fill_versus, play

from tallymark.challenges.versus.pairings import Ruling
from tallymark.service.app import App
from tallymark.store import Store


def test_a_profile_has_both_ratings_and_how_they_grew(client: TestClient) -> None:
    found = client.get("/agents/alice?format=json").json()
    rating = found["rating"]
    assert rating["elo_path"][0] == 1000
    assert rating["elo_path"][-1] == rating["elo"]["rating"] == found["agent"]["elo"]["rating"]
    assert [each["match"] for each in rating["fit_path"]] == [1, 2]
    assert abs(rating["fit_path"][-1]["value"] - rating["strength"]["value"]) < 1e-6


def test_places_in_red_against_blue_are_those_of_the_board(client: TestClient) -> None:
    board = client.get("/challenges/guard?format=json").json()["versus"]
    for side in ("red", "blue"):
        for line in board[side]:
            agent = client.get(f"/agents/{line['agent']}?format=json").json()["agent"]
            (found,) = agent["sides"]["guard"]
            assert (found["side"], found["rank"], found["agents"]) == (side, line["rank"], 2)
            assert (found["points"], found["against"]) == (line["points"], line["against"])
            assert (
                f"{line['points']} of {line['points'] + line['against']}"
                in client.get(f"/agents/{line['agent']}").text
            )
    assert "#blue-charlie" in client.get("/agents/charlie").text


def test_places_in_red_against_blue_stand_still_with_the_board(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", fill_versus)) as app:
        app.store.challenges.freeze("guard", at=NOW - 10, reason="the final hour")
        public, organiser = browse_as(app, "viewer"), browse_as(app, "organiser")
        before = public.get("/agents/charlie?format=json").json()["agent"]["sides"]
        assert [(each["tries"], each["agents"]) for each in before["guard"]] == [(1, 2)]
        app.store.versus.submit("guard", "charlie", "blue", {"text": "late"}, at=NOW - 9)
        app.store.versus.submit("guard", "erin", "blue", {"text": "late"}, at=NOW - 8)
        waiting = app.store.versus.unjudged("guard", failed=False)
        rulings = [(each, Ruling(breached=True)) for each in waiting]
        app.store.versus.rule(rulings, judge="judge", at=NOW - 7)
        assert public.get("/agents/charlie?format=json").json()["agent"]["sides"] == before
        assert public.get("/agents/erin?format=json").json()["agent"]["sides"] == {}
        live = organiser.get("/agents/charlie?live=1&format=json").json()["agent"]["sides"]
        assert [(each["tries"], each["agents"]) for each in live["guard"]] == [(2, 3)]


def test_whose_an_agent_is_shows_to_its_owner_and_to_organisers_alone(tmp_path: Path) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), b"", at=NOW - 9 * DAY)
        for agent in ("ann", "ben"):
            play(store, "maze", agent, 900.0, at=NOW - DAY)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        ann = browse_as(app, "agent", "ann")
        app.store.agents.give("ann", "jane.doe@example.com", at=NOW)
        for client in (ann, browse_as(app, "organiser")):
            assert "jane.doe" in client.get("/agents").text
            assert "jane.doe" in client.get("/agents/ann").text
        for client in (browse_as(app, "agent", "ben"), browse_as(app, "viewer")):
            for more in ("", "?format=json", "?format=csv"):
                assert "jane.doe" not in client.get(f"/agents{more}").text
                assert "jane.doe" not in client.get(f"/agents/ann{more}").text


def test_elo_grew_as_on_paper(client: TestClient) -> None:
    """Two wins against 1000: 32 * (1 - 0.5) = 16, then 32 * (1 - 1 / (1 + 10^(-16 / 400)))."""
    second = 32 * (1 - 1 / (1 + 10 ** (-16 / 400)))
    assert second == pytest.approx(15.26, abs=0.01)
    found = client.get("/agents/alice?format=json").json()["rating"]
    assert found["elo_path"] == [1000, 1016, 1031]


def test_every_step_of_the_elo_and_the_sum_of_the_fit_can_be_asked(client: TestClient) -> None:
    """What was won less what is expected is what the prior pulls: the equation that is solved."""
    found = client.get("/agents/bob?format=json").json()["rating"]
    steps = found["elo_steps"]
    assert [each["number"] for each in steps] == [len(steps) - nth for nth in range(len(steps))]
    assert all(each["before"] + each["change"] == each["after"] for each in steps)
    assert steps[0]["after"] == found["elo"]["rating"]
    told = found["fit_sum"]
    assert told["won"] - told["expected"] == pytest.approx(told["pull"], abs=1e-6)
    assert told["steps"]
    told = found["floor_sum"]
    above = told["won"] - told["expected"] - told["pull"]
    assert above == pytest.approx(1.96 * told["variance"] ** 0.5, abs=1e-4)
    page = client.get("/ratings").text
    assert '"/agents/bob#elo"' in page
    assert '"/agents/bob#floor"' in page
    assert '"/agents/bob#fit"' in page


def test_results_are_by_place(client: TestClient) -> None:
    agent = client.get("/agents/alice?format=json").json()["agent"]
    assert {name: each["rank"] for name, each in agent["places"].items()} == {
        "frugal": 1,
        "maze": 1,
    }
    assert [each["rank"] for each in agent["sides"]["guard"]] == [1]
    rows = client.get("/agents/alice?format=csv").text.splitlines()[1:]
    assert [row.partition(",")[0] for row in rows] == ["frugal", "guard", "maze"]


def test_rivals_are_counted_by_boards_and_a_tie_is_level(client: TestClient) -> None:
    rivals = {
        each["agent"]: (each["ahead"], each["level"], each["behind"])
        for each in client.get("/agents/alice?format=json").json()["rivals"]
    }
    # bob: level at the maze although later, and 100 behind at frugal.
    assert rivals == {"bob": (1, 1, 0), "charlie": (1, 0, 0), "dave": (1, 0, 0)}


def test_head_to_head_agrees_with_the_other_side(client: TestClient) -> None:
    mine = client.get("/agents/alice?against=bob&format=json").json()["head_to_head"]
    theirs = client.get("/agents/bob?against=alice&format=json").json()["head_to_head"]
    assert (mine["ahead"], mine["level"], mine["behind"]) == (1, 1, 0)
    assert (theirs["ahead"], theirs["level"], theirs["behind"]) == (0, 1, 1)
    assert mine["difference"] == pytest.approx(-theirs["difference"])
    assert mine["low"] == pytest.approx(-theirs["high"])
    assert mine["p_value"] == theirs["p_value"] == 1.0
    page = client.get("/agents/alice?against=bob").text
    assert "may be chance" in page


def test_dimensions_of_two_are_means_over_what_they_share(client: TestClient) -> None:
    duel = client.get("/agents/alice?against=charlie&format=json").json()["head_to_head"]
    found = {each["label"]: (each["mine"], each["theirs"]) for each in duel["dimensions"]}
    assert found == {"Correctness": (900.0, 620.0), "Speed": (900.0, 620.0)}


def test_who_shares_nothing_is_not_compared(client: TestClient) -> None:
    assert "no shared boards" in client.get("/agents/alice?against=erin").text
    assert client.get("/agents/alice?against=nobody").status_code == 404
    assert client.get("/agents/alice?against=alice").status_code == 422


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[App]:
    """A board that stands still, and an attempt after that."""

    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), b"", at=NOW - 9 * DAY)
        for agent, score in (("alice", 620.0), ("bob", 500.0)):
            play(store, "maze", agent, score, at=NOW - 5 * DAY)
        store.challenges.freeze("maze", at=NOW - 2 * DAY, reason="the last day")
        play(store, "maze", "bob", 900.0, at=NOW - DAY)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        yield app


def test_a_frozen_board_is_frozen_on_profiles_and_head_to_head(frozen: App) -> None:
    hidden = browse_as(frozen, "agent", "alice")
    found = hidden.get("/agents/bob?against=alice&format=json").json()
    assert found["agent"]["places"]["maze"]["value"] == 500
    assert found["head_to_head"]["behind"] == 1
    assert (found["rating"]["elo_path"], found["rating"]["fit_path"]) == ([], [])
    assert found["rating"]["elo"]["matches"] == 1
    assert ">900<" not in hidden.get("/agents/bob?against=alice").text
    live = browse(frozen).get("/agents/bob?against=alice&live=1&format=json").json()
    assert live["agent"]["places"]["maze"]["value"] == 900
    assert live["head_to_head"]["ahead"] == 1
