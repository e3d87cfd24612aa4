"""One agent's attempts that end a plugin's process cost that agent, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.sandbox.backends import EACH_WITH_ONE

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox import Policy
from tallymark.service.competition import Competition
from tallymark.store import open_store

RULE = """
    name: sums
    goal: "Be good."
    evaluator: {type: reported}
    scoring: {plugin: "scorer.py:Mine", strategy: custom, timeout: 0.3, config: {factor: 1}}
"""
LOOPS_AT_13 = """
class Mine:
    def score(self, metrics, config, ctx):
        while metrics.get("rating") == 13 and config["factor"] < 9: pass
        return {"score": metrics["rating"] * config["factor"]}
"""


pytestmark = pytest.mark.parametrize(("empty_url", "games"), EACH_WITH_ONE, indirect=True)


@pytest.fixture
def games(request: pytest.FixtureRequest, empty_url: str, tmp_path: Path) -> Iterator[Competition]:
    with open_store(empty_url) as store:
        competition = Competition(store, policy=Policy(request.param))
        competition.publish(folder_with(tmp_path / "sums", RULE, {"scorer.py": LOOPS_AT_13}))
        yield competition
        competition.close()


def report(games: Competition, agent: str, rating: float) -> Attempt:
    return games.report("sums", agent, Metrics(succeeded=True, rating=rating))


def scores(games: Competition, agent: str) -> list[Any]:
    found = games.store.attempts.of("sums", agent=agent, limit=None)
    return [each.outcome and each.outcome.score for each in found]


def in_another_process(games: Competition) -> Competition:
    """What a command does that is given after this one: nothing is remembered but the database."""
    return Competition(games.store, policy=games._policy)


def test_an_honest_agent_is_scored_after_another_ended_the_plugin_five_times(
    games: Competition,
) -> None:
    for _ in range(5):
        attempt = report(games, "mallory", 13)
        assert (attempt.state, attempt.outcome and attempt.outcome.error) == (
            "failed", "the plugin took longer than 0.3 s"
        )  # fmt: skip
    assert report(games, "alice", 7).state == "scored"
    with closing(in_another_process(games)) as later:
        paused = report(later, "mallory", 8)
        assert paused.outcome is not None
        assert str(paused.outcome.error).startswith("the plugin is paused for mallory: 5 of its")
        assert report(later, "bob", 8).state == "scored"
    (kept,) = games.store.plugin_quarantine.all()
    assert (kept.challenge, kept.agent, kept.deadly) == ("sums", "mallory", 5)
    assert [entry.event for entry in games.store.challenges.audit("sums")][-1] == "paused"


def test_rescoring_costs_no_honest_attempt_its_score(games: Competition) -> None:
    """More attempts that make the new rule loop than pause their agent, among others."""
    for agent in ("alice", "bob", "carol"):
        for rating in range(4):
            report(games, agent, rating)
    games.rescore("sums", apply=True, config={"factor": 9})  # by which nobody's attempt loops
    for _ in range(7):
        report(games, "mallory", 13)
    done = games.rescore("sums", apply=True, config={"factor": 2})
    assert (done.attempts, done.undefined) == (19, 7)
    for agent in ("alice", "bob", "carol"):
        assert sorted(scores(games, agent)) == [2.0 * rating for rating in range(4)]
    assert scores(games, "mallory") == [None] * 7
    assert [each.agent for each in games.store.boards.top("sums")][:3] == ["alice", "bob", "carol"]
    assert [each.agent for each in games.store.plugin_quarantine.all()] == ["mallory"]


def test_who_is_resumed_is_scored_again(games: Competition) -> None:
    report(games, "alice", 1)
    games.rescore("sums", apply=True, config={"factor": 9})
    ratings = [13.0] * 6 + [4.0, 5.0]
    for rating in ratings:
        report(games, "mallory", rating)
    games.rescore("sums", apply=True, config={"factor": 2})
    assert scores(games, "mallory") == [None] * 8
    with pytest.raises(InvalidInput, match="'alice' is not paused at sums"):
        games.resume("sums", "alice")
    with closing(in_another_process(games)) as later:
        again = later.resume("sums", "mallory")
    assert again.attempts == 8
    assert [each.deadly for each in games.store.plugin_quarantine.all()] == [
        5
    ]  # it loops as before
    games.rescore("sums", apply=True, config={"factor": 9})
    assert scores(games, "mallory") == [None] * 8  # the code is the same, and so is the pause
    assert games.resume("sums").undefined == 0
    assert scores(games, "mallory")[::-1] == [9 * rating for rating in ratings]
    assert games.store.plugin_quarantine.all() == []
    with pytest.raises(InvalidInput, match="nobody is paused at sums"):
        games.resume("sums")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import nowhere\nclass Mine:\n    def score(self, *_): pass",
            "scorer.py:Mine cannot score: the plugin raised ModuleNotFoundError",
        ),
        pytest.param(
            "import os; os._exit(3)\nclass Mine:\n    def score(self, *_): pass",
            "scorer.py:Mine cannot score: the plugin ended itself",
            marks=pytest.mark.proof,
        ),
        pytest.param(
            "class Mine:\n    def score(self, *_): raise ValueError('no')",
            "none of the 12 attempts",
            marks=pytest.mark.proof,
        ),
        ("import os\nclass Mine:\n    def score(self, *_): os._exit(3)", "none of the 12 attempts"),
    ],
    ids=["not there", "leaves at import", "raises", "leaves"],
)
def test_a_plugin_that_is_broken_for_everybody_changes_nothing(
    games: Competition, tmp_path: Path, source: str, said: str
) -> None:
    for at in range(12):
        report(games, f"agent-{at}", at)
    worse = folder_with(tmp_path / "worse", RULE, {"scorer.py": source})
    version = games.store.challenges.get("sums").version
    for apply in (False, True):
        with pytest.raises(WorkFailed, match=said):
            games.rescore("sums", apply=apply, folder=worse)
    assert games.store.challenges.get("sums").version == version
    assert [scores(games, f"agent-{at}") for at in range(12)] == [[float(at)] for at in range(12)]
    assert games.store.plugin_quarantine.all() == []
