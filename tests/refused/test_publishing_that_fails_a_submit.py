"""Whoever publishes often cannot make a submission fail, nor have it scored by an old rule."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.store.contest_samples import quick_store

from tallymark.challenges.attempt_scores import score_attempts
from tallymark.service import competition as competition_module
from tallymark.service.competition import Competition
from tallymark.store import Store

SUMS = """
    name: sums
    goal: "Answer with {{sum: 42}}."
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {{sum: {{primitive: exact_match}}}}
    scoring: {{formula: "{worth} * succeeded"}}
"""


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with quick_store(empty_url) as opened:
        yield opened


@pytest.fixture
def games(store: Store) -> Iterator[Competition]:
    with closing(Competition(store)) as competition:
        yield competition


@pytest.fixture
def organiser(store: Store) -> Iterator[Competition]:
    with closing(Competition(store)) as competition:
        yield competition


def publish(games: Competition, folder: Path, worth: int) -> None:
    games.publish(folder_with(folder, SUMS.format(worth=worth), {"truth.json": '{"sum": 42}'}))


def test_a_rule_that_changes_at_every_try_scores_in_the_end(
    games: Competition,
    organiser: Competition,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worths = itertools.count(2)
    publishers: list[threading.Thread] = []

    def score_while_somebody_publishes(challenge: Any, *given: Any, **known: Any) -> Any:
        outcome = score_attempts(challenge, *given, **known)
        more = threading.Thread(target=publish, args=(organiser, tmp_path, next(worths)))
        more.start()
        publishers.append(more)
        if len(publishers) < 3:  # the third waits: the rule is held for this score
            more.join()
        return outcome

    publish(games, tmp_path, 1)
    entry = games.enter("sums", "alice")
    monkeypatch.setattr(competition_module, "score_attempts", score_while_somebody_publishes)
    attempt = games.submit(entry.attempt.id, "alice", {"sum": 42})
    for each in publishers:
        each.join()
    assert attempt.state == "scored"
    assert attempt.outcome is not None
    # Every publisher but the last was quicker than the score.
    assert attempt.outcome.score == 3
    assert games.store.challenges.get("sums").scoring.formula == "4 * succeeded"


@pytest.mark.proof
def test_publishing_in_a_loop_stops_no_submission(
    games: Competition, organiser: Competition, tmp_path: Path
) -> None:
    over = threading.Event()

    def publish_on_and_on() -> None:
        for worth in itertools.count(2):
            if over.is_set():
                return
            publish(organiser, tmp_path, worth)

    publish(organiser, tmp_path, 1)
    busy = threading.Thread(target=publish_on_and_on)
    busy.start()
    try:
        for number in range(60):
            agent = f"agent-{number}"
            entry = games.enter("sums", agent)
            assert games.submit(entry.attempt.id, agent, {"sum": 42}).state == "scored"
    finally:
        over.set()
        busy.join()
