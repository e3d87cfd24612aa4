"""A seed before the score: with a known generator it would be the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally
from tests.sandbox.backends import SAFE

from tallymark.errors import WorkFailed
from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.sandbox.policy import Policy
from tallymark.service.attempts import describe_attempt
from tallymark.service.competition import Competition
from tallymark.store import Store, open_store

DICE = """
    name: dice
    goal: Say what fell.
    data: {generate: generate.py}
    evaluator: {type: deterministic, fields: {fell: exact_match}}
    scoring: {strategy: first}
"""
GENERATE = """
    import random

    def generate(seed):
        return {"public": {"die.txt": "a die"}, "truth": {"fell": random.Random(seed).random()}}
"""
BROKEN = """
    def generate(seed):
        raise ValueError(f"the seed is {seed}")
"""


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with open_store(empty_url) as opened:
        yield opened


def find_numbers(document: Any) -> set[int]:
    """Every number and every text of digits in a document, however deep."""
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        return set().union(*map(find_numbers, document))
    return {int(document)} if str(document).isdigit() else set()


def test_the_command_tells_the_seed_with_the_score_and_not_before(tmp_path: Path) -> None:
    folder_with(tmp_path / "dice", DICE, {"generate.py": GENERATE})
    tally = Tally(tmp_path)
    tally("challenge", "publish", "dice")
    enter = (
        "attempt",
        "enter",
        "dice",
        "--agent",
        "alice",
        "--idempotency-key",
        "k",
        "--data",
        "files",
    )
    told = [tally.json(*enter), tally.json(*enter)]  # the second is the answer of the first
    attempt = told[0]["attempt"]["id"]
    told += [tally.json("attempt", "show", attempt), tally.json("attempt", "list", "dice")]
    (tmp_path / "answer.json").write_text('{"fell": 1}', encoding="utf-8")
    done = tally.json("attempt", "submit", attempt, "answer.json", "--agent", "alice")
    seed = done["attempt"]["seed"]
    assert isinstance(seed, int)
    assert tally.json("attempt", "show", attempt)["seed"] == seed
    assert seed not in find_numbers(told)
    written = [path.read_text() for path in (tmp_path / "files").iterdir()]
    assert written == ["a die"]


def test_a_seed_is_told_of_no_attempt_without_an_outcome(store: Store, tmp_path: Path) -> None:
    games = Competition(store)
    text = DICE.replace("data: {generate: generate.py}", "").replace(
        "fields", "truth: t.json, fields"
    )
    games.publish(folder_with(tmp_path / "dice", text, {"t.json": '{"fell": 1}'}))
    entered = games.enter("dice", "alice").attempt
    withdrawn = store.attempts.withdraw(entered.id, "alice", entered.entered_at + 1)
    games.close()
    assert [describe_attempt(each).seed for each in (entered, withdrawn)] == [None, None]


@pytest.mark.parametrize("backend", SAFE)
def test_a_generator_that_fails_tells_nothing_and_costs_no_attempt(
    store: Store, tmp_path: Path, backend: SafeBackend
) -> None:
    games = Competition(store, policy=Policy(backend))
    once = DICE + "    attempts: 1\n"
    games.publish(folder_with(tmp_path / "dice", once, {"generate.py": BROKEN}))
    with pytest.raises(WorkFailed) as refused:
        games.enter("dice", "alice")
    assert "the seed is" not in str(refused.value)
    assert not find_numbers(str(refused.value).split())
    assert store.attempts.of("dice") == []
    note = store.challenges.audit("dice")[-1].note
    assert note is not None
    assert f"the seed is {note['seed']}" in note["why"]  # the organiser's log
    games.publish(folder_with(tmp_path / "dice", once, {"generate.py": GENERATE}))
    assert games.enter("dice", "alice").attempt.number == 1
    games.close()
