"""Winning by words: a trajectory that shows nothing is not believed, and leads no board."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges.attempt import LEVELS, Attempt
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_format import challenge_schema
from tallymark.errors import InvalidInput
from tallymark.service.competition import Competition
from tallymark.store import Store, open_store

SUMS = """
    name: sums
    goal: Add up.
    constraints: {tokens: 1000}
    evaluator: {type: deterministic, truth: truth.json, fields: {sum: exact_match}}
    scoring: {strategy: fewest_tokens}
"""
TRUTH = {"truth.json": '{"sum": 42}'}
RIGHT = {"sum": 42}


class Clock:
    """Ten seconds pass whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


@pytest.fixture
def games(empty_url: str, tmp_path: Path) -> Iterator[Callable[..., Competition]]:
    """A competition with one challenge, published as it is given."""
    opened: list[Competition] = []
    with open_store(empty_url) as store:

        def open_games(text: str = SUMS) -> Competition:
            competition = Competition(store, clock=Clock())
            opened.append(competition)
            competition.publish(folder_with(tmp_path / "sums", text, TRUTH))
            return competition

        yield open_games
        for each in opened:
            each.close()


def step(entered: float, **changes: Any) -> dict[str, Any]:
    """A model call in time, or whatever it is changed to."""
    usual = {
        "span_type": "generation",
        "model": "openai/sample-1",
        "start_ms": (entered + 3) * 1000,
        "duration_ms": 2000.0,
        "input_tokens": 300,
        "output_tokens": 50,
    }
    return {key: value for key, value in (usual | changes).items() if value is not None}


def play(games: Competition, agent: str, *steps: dict[str, Any] | None) -> Attempt:
    """An attempt with the right answer; each step is what it has of its own."""
    attempt = games.enter("sums", agent).attempt
    spans = [step(attempt.entered_at, **(each or {})) for each in steps]
    trajectory = json.dumps({"trace_id": agent, "spans": spans}) if steps else None
    return games.submit(attempt.id, agent, RIGHT, trajectory=trajectory)


NONE = {"input_tokens": None, "output_tokens": None}
ZERO = {"input_tokens": 0, "output_tokens": 0}
FORGED: dict[str, list[dict[str, Any]]] = {
    "no tokens at all": [NONE],
    "zero tokens": [ZERO],
    "a tool call alone": [{"span_type": "tool", "tool_name": "x", **NONE}],
    "tokens of a tool": [{"span_type": "tool", "input_tokens": 1}],
    "one call counted, one not": [{"input_tokens": 1}, NONE],
    "one call that cost something": [{"input_tokens": 1, "output_tokens": 0}, ZERO],
    "one step twice": [{"span_id": "a", "input_tokens": 1}, {"span_id": "a", "input_tokens": 1}],
    "before the entry": [{"start_ms": 1.0, "input_tokens": 1}],
    "at no time": [{"start_ms": None, "input_tokens": 1}],
    "for ever": [{"duration_ms": 1e12, "input_tokens": 1}],
}


def test_it_is_only_claimed_and_does_not_lead_fewest_tokens(
    games: Callable[..., Competition],
) -> None:
    arena = games()
    for way, steps in FORGED.items():
        agent = way.replace(" ", "-").replace(",", "")
        forged = play(arena, agent, *steps)
        assert forged.outcome is not None
        assert (forged.outcome.trajectory_level, forged.verified) == ("claimed", False), agent
        assert forged.outcome.metrics.tokens_total is None, agent
        assert forged.outcome.details["unverified"], agent
    honest = play(arena, "alice", None)
    assert honest.outcome is not None
    assert (honest.outcome.trajectory_level, honest.verified) == ("consistent", True)
    first, *others = arena.store.boards.top("sums")
    assert (first.agent, first.value, first.trajectory_level) == ("alice", 350.0, "consistent")
    assert {(each.value, each.trajectory_level) for each in others} == {(None, "claimed")}
    assert len(others) == len(FORGED)
    ratings = {agent: each.rating for agent, each in arena.store.ratings.elo()}
    assert ratings.pop("alice") > max(ratings.values())  # the bonus


def test_numbers_that_no_run_has_are_not_even_read(games: Callable[..., Competition]) -> None:
    arena = games()
    for agent, wrong in (("ann", {"input_tokens": -5}), ("ben", {"cost": float("nan")})):
        with pytest.raises(InvalidInput, match="the trajectory cannot be read"):
            play(arena, agent, wrong)
        (attempt,) = arena.store.attempts.of("sums", agent=agent)
        assert attempt.state == "entered"  # nothing was stored: it can be sent again


def test_a_challenge_says_the_least_level_that_ranks(games: Callable[..., Competition]) -> None:
    arena = games(SUMS + "    trajectory: {least: consistent}\n")
    assert [play(arena, "alice", None), play(arena, "bob"), play(arena, "mallory", ZERO)]
    assert [each.agent for each in arena.store.boards.top("sums")] == ["alice"]
    told = arena.store.attempts.of("sums", agent="mallory")[0].outcome
    assert told is not None
    assert told.result == "loss"  # who sends none breaks no constraint, and must not win by that
    assert told.details["unranked"] == (
        "the board is for trajectories that are consistent, and this one is claimed"
    )


def test_another_least_level_moves_the_board(
    games: Callable[..., Competition], tmp_path: Path
) -> None:
    arena = games()
    play(arena, "alice", None)
    play(arena, "bob")
    store: Store = arena.store
    asked = SUMS + "    trajectory: claimed\n"
    arena.rescore("sums", apply=True, folder=folder_with(tmp_path / "sums", asked, TRUTH))
    assert [each.agent for each in store.boards.top("sums")] == ["alice"]
    arena.rescore("sums", apply=True, folder=folder_with(tmp_path / "sums", SUMS, TRUTH))
    assert [each.agent for each in store.boards.top("sums")] == ["alice", "bob"]
    assert [each.trajectory_level for each in store.boards.top("sums")] == ["consistent", "none"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SUMS + "    trajectory: {least: proven}\n", "proven"),
        ("name: x\ntrajectory: claimed\nevaluator: {type: reported}\n", "no trajectory is sent"),
    ],
)
def test_a_level_that_nobody_reaches_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        load_challenge(folder_with(tmp_path / "sums", text, TRUTH))


def test_why_it_is_not_believed_is_said_to_people_too(tmp_path: Path) -> None:
    folder_with(tmp_path / "sums", SUMS + "    trajectory: consistent\n", TRUTH)
    (tmp_path / "right.json").write_text(json.dumps(RIGHT), encoding="utf-8")
    tally = Tally(tmp_path)
    tally("challenge", "publish", "sums")
    entered = tally.json("attempt", "enter", "sums", "--agent", "alice")["attempt"]["entered_at"]
    forged = {"trace_id": "t", "spans": [step(entered, start_ms=entered * 1000, **ZERO)]}
    (tmp_path / "forged.json").write_text(json.dumps(forged), encoding="utf-8")
    sent = ("right.json", "--agent", "alice", "--trajectory", "forged.json")
    submitted = tally("attempt", "submit", "a000000000001", *sent).stdout
    for told in (submitted, tally("attempt", "show", "a000000000001").stdout):
        assert "(loss, trajectory claimed)" in told
        assert "trajectory claimed: 1 model call of the trajectory used no tokens" in told
        assert "not on the board: the board is for trajectories that are consistent" in told


def test_nobodys_steps_are_anothers_too(games: Callable[..., Competition]) -> None:
    arena = games()
    agents = ("alice", "mallory")
    entered = [arena.enter("sums", agent).attempt for agent in agents]
    spans = [step(entered[1].entered_at, start_ms=entered[1].entered_at * 1000)]
    renamed = [{"span_id": "other", **each} for each in spans]
    sent = ({"trace_id": "a", "spans": spans}, {"trace_id": "b", "spans": renamed})
    done = [
        arena.submit(attempt.id, agent, RIGHT, trajectory=json.dumps(trajectory, indent=2))
        for attempt, agent, trajectory in zip(entered, agents, sent, strict=True)
    ]
    first, second = (each.outcome for each in done)
    assert first is not None
    assert second is not None
    assert (first.trajectory_level, second.trajectory_level) == ("consistent", "claimed")
    assert second.details["unverified"] == ["the same steps were sent with an earlier attempt"]
    assert second.metrics.tokens_total is None


def test_the_level_is_in_the_schema_and_shown_to_who_wants_to_enter(tmp_path: Path) -> None:
    parts = challenge_schema()["$defs"]
    assert list(LEVELS) in [each.get("enum") for each in parts["trajectory"]["anyOf"]]
    assert parts["constraints"]["properties"]["on_violation"]["enum"] == ["note", "zero", "fail"]
    asked = SUMS.replace("tokens: 1000", "tokens: 1000, on_violation: zero")
    folder_with(tmp_path / "sums", asked + "    trajectory: consistent\n", TRUTH)
    tally = Tally(tmp_path)
    tally("challenge", "publish", "sums")
    told = " ".join(tally("challenge", "show", "sums").stdout.split())
    assert "ranks with a trajectory that is consistent" in told
    assert "a constraint broken a score of 0, and a loss" in told
