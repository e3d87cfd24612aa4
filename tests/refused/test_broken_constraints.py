"""Going beyond a constraint: noted always, and worth what the challenge says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.challenges.challenge_folders import folder_with

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.challenges.challenge_check import check_challenge
from tallymark.challenges.challenge_file import load_challenge
from tallymark.errors import InvalidInput
from tallymark.service.competition import Competition
from tallymark.store import open_store

SUMS = """
    name: {name}
    goal: Add up.
    constraints: {{tokens: {most}, on_violation: {effect}}}
    evaluator: {{type: deterministic, truth: truth.json, fields: {{sum: exact_match}}}}
    scoring: {scoring}
"""
TRUTH = {"truth.json": '{"sum": 42}'}
DIMENSIONS = "{dimensions: {correctness: 0.5, token_efficiency: 0.5}}"
BROKEN = ["it used 350 tokens, and 100 are allowed"]


class Games:
    """One challenge whose rule changes, and two agents: bob keeps to it, mallory does not."""

    def __init__(self, competition: Competition, folder: Path) -> None:
        self.competition = competition
        self.folder = folder
        self.name = "sums-0"

    def begin(self, effect: str, scoring: str) -> None:
        """Another challenge, in the same database."""
        self.name = f"sums-{int(self.name[5:]) + 1}"
        self.competition.publish(self.say(effect, scoring))

    def say(self, effect: str, scoring: str = DIMENSIONS, most: int = 100) -> Path:
        text = SUMS.format(name=self.name, effect=effect, scoring=scoring, most=most)
        return folder_with(self.folder / self.name, text, TRUTH)

    def play(self, agent: str, tokens: int) -> Attempt:
        attempt = self.competition.enter(self.name, agent).attempt
        span = {
            "span_type": "generation",
            "start_ms": attempt.entered_at * 1000,
            "input_tokens": tokens,
        }
        sent = json.dumps({"trace_id": agent, "spans": [span]})
        return self.competition.submit(attempt.id, agent, {"sum": 42}, trajectory=sent)

    def board(self) -> list[tuple[str, float | None]]:
        found = self.competition.store.boards.top(self.name)
        return [(each.agent, each.score) for each in found]

    def latest(self, agent: str) -> Attempt:
        return self.competition.store.attempts.of(self.name, agent=agent)[0]


@pytest.fixture
def games(empty_url: str, tmp_path: Path) -> Iterator[Games]:
    with open_store(empty_url) as store:
        competition = Competition(store)
        yield Games(competition, tmp_path)
        competition.close()


COSTS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("note", DIMENSIONS, (500.0, "draw", "scored", True)),
    ("zero", DIMENSIONS, (0.0, "loss", "scored", True)),
    ("fail", DIMENSIONS, (None, "loss", "failed", False)),
    # Where less is better, or less than 0 can be, a 0 would lead: it is off the board.
    ("note", "{strategy: fewest_tokens}", (350.0, "win", "scored", True)),
    ("zero", "{strategy: fewest_tokens}", (0.0, "loss", "scored", False)),
    ("zero", "{formula: 0 - tokens_total}", (0.0, "loss", "scored", False)),
    ("fail", "{formula: 0 - tokens_total}", (None, "loss", "failed", False)),
]


def test_the_challenge_says_what_it_costs(games: Games) -> None:
    for effect, scoring, found in COSTS:
        games.begin(effect, scoring)
        kept, broken = games.play("bob", 50), games.play("mallory", 350)
        assert kept.outcome is not None
        assert broken.outcome is not None
        outcome = broken.outcome
        assert (outcome.score, outcome.result, broken.state, outcome.ranks) == found
        assert outcome.details["constraint_violations"] == BROKEN
        assert outcome.details.get("constraint_effect", "note") == effect
        assert (kept.outcome.result, kept.outcome.ranks) == ("win", True)
        assert games.board()[0][0] == "bob"


@pytest.mark.parametrize("scoring", [DIMENSIONS, "{formula: 0 - tokens_total}"])
def test_rescoring_gives_what_scoring_would_have_given(games: Games, scoring: str) -> None:
    for effect in ("zero", "fail"):
        games.begin(effect, scoring)
        games.play("bob", 50)
        at_once = games.play("mallory", 350)
        board = games.board()
        lenient = games.say(effect, scoring, most=400)
        games.competition.rescore(games.name, apply=True, folder=lenient)
        mended = games.latest("mallory")
        assert mended.outcome is not None
        assert not mended.outcome.details.get("constraint_violations")
        assert len(games.board()) == 2
        games.competition.rescore(games.name, apply=True, folder=games.say(effect, scoring))
        again = games.latest("mallory")
        assert again.outcome is not None
        assert at_once.outcome is not None
        assert replace(again.outcome, origin=at_once.outcome.origin) == at_once.outcome
        assert games.board() == board


def test_another_formula_does_not_undo_a_zero(games: Games) -> None:
    games.begin("zero", "{formula: 0 - tokens_total}")
    games.play("bob", 50)
    games.play("mallory", 350)
    games.competition.rescore(games.name, apply=True, formula="0 - 2 * tokens_total")
    mended = games.latest("mallory")
    assert mended.outcome is not None
    assert (mended.outcome.score, games.board()) == (0.0, [("bob", -100.0)])


def test_what_a_trusted_system_reports_is_held_against_the_bounds(
    games: Games, tmp_path: Path
) -> None:
    text = """
        name: cup
        constraints: {tokens: 100, on_violation: fail}
        evaluator: {type: reported}
        scoring: {strategy: highest_rating}
    """
    games.competition.publish(folder_with(tmp_path / "cup", text))
    metrics = Metrics(succeeded=True, rating=9.0, tokens_total=350)
    done = games.competition.report("cup", "mallory", metrics)
    assert done.outcome is not None
    assert (done.state, done.outcome.details["constraint_violations"]) == ("failed", BROKEN)


def test_an_effect_without_a_bound_is_refused(tmp_path: Path) -> None:
    text = "name: x\nconstraints: {on_violation: zero}\n"
    with pytest.raises(InvalidInput, match="there is no bound to pass"):
        load_challenge(folder_with(tmp_path, text))


def test_who_sends_nothing_passes_no_bound_and_the_organiser_is_told(games: Games) -> None:
    report = check_challenge(games.say("fail"), samples=1)
    told = [each.detail for each in report.findings if each.level == "warning"]
    assert any("who sends no trajectory passes no bound" in each for each in told)
