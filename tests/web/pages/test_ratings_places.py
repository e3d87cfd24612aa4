"""Places in the table of ratings."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from tests.store.contest_samples import a_challenge
from tests.web.conftest import browse, open_app

from tallymark.challenges.attempt import Metrics
from tallymark.service.app import App
from tallymark.service.competition import Competition
from tallymark.service.ratings import find_likely_places
from tallymark.service.resources import Resources
from tallymark.store import Store


def test_a_likely_place_is_what_no_interval_rules_out() -> None:
    drawn = random.Random(7)
    middles = {f"a{nth}": drawn.gauss(1000, 200) for nth in range(60)}
    spans = {
        name: (middle - drawn.random() * 150, middle + drawn.random() * 150)
        for name, middle in middles.items()
    }
    found = find_likely_places(spans)
    for name, (low, high) in spans.items():
        above = sum(each > high for each, _ in spans.values())
        below = sum(each < low for _, each in spans.values())
        assert found[name] == (1 + above, len(spans) - below)


def test_equal_results_are_a_tie_and_both_ratings_are_shown(app: App) -> None:
    found = browse(app).get("/ratings?format=json").json()["agents"]
    lines = {each["agent"]: each for each in found}
    alice, bob = lines["alice"], lines["bob"]
    # The same results at the same challenges.
    assert (alice["rank"], alice["tied"]) == (bob["rank"], bob["tied"]) == (1, True)
    assert lines["charlie"]["rank"] == 3
    assert not lines["charlie"]["tied"]
    for each in found:
        assert each["likely"][0] <= each["rank"] <= each["likely"][1]
        strength = each["strength"]
        assert strength["low"] <= strength["value"] <= strength["high"]
    page = browse(app).get("/ratings").text
    assert "Likely place" in page
    assert "Equal in every respect" in page


def play_unevenly(store: Store) -> None:
    """One challenge is won at once, the other lost three times."""
    with closing(Competition(store)) as games:
        for name, won, times in (("maze", True, 1), ("heist", False, 3)):
            store.challenges.publish(a_challenge(name=name), b"", at=0.0)
            for _ in range(times):
                games.report(name, "alice", Metrics(succeeded=won))


def test_rates_say_over_how_many_challenges_they_are_means(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", play_unevenly)) as app:
        (line,) = browse(app).get("/ratings?format=json").json()["agents"]
        assert (line["pass_rates"]["challenges"], line["pass_rates"]["enough"]) == (2, 1)
        assert browse(app).get("/ratings").text.count("1 of 2 challenges") == 2


def play_apart(store: Store) -> None:
    """Three share a maze; two others have each a challenge of their own, and win."""
    with closing(Competition(store)) as games:
        for name, results in {
            "maze": {"alice": True, "bob": True, "charlie": False},
            "easy-1": {"dave": True},
            "easy-2": {"erin": True},
        }.items():
            store.challenges.publish(a_challenge(name=name), b"", at=0.0)
            for agent, won in results.items():
                games.report(name, agent, Metrics(succeeded=won))


def test_places_are_those_among_agents_that_can_be_compared(tmp_path: Path) -> None:
    with closing(open_app(tmp_path / "tally.db", play_apart)) as app:
        client = browse(app)
        places = {
            "alice": (1, 1, True, 3),
            "bob": (1, 1, True, 3),
            "charlie": (1, 3, False, 3),
            "dave": (2, 1, False, 1),
            "erin": (3, 1, False, 1),
        }
        told = {each["agent"]: each for each in client.get("/ratings?format=json").json()["agents"]}
        names = ("group", "rank", "tied", "group_size")
        assert {
            agent: tuple(each[name] for name in names) for agent, each in told.items()
        } == places
        assert told["dave"]["likely"] == [1, 1]
        table = {each.agent: each for each in Resources.over(app.store).ratings.list(live=False)}
        assert {
            agent: tuple(getattr(each, name) for name in names) for agent, each in table.items()
        } == places
        assert list(table) == list(told) == list(places)
        assert "place 1 of 1 that it can be compared with" in client.get("/agents/erin").text
        assert "group 3" in client.get("/ratings").text
