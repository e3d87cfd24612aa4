"""A plugin that does its worst costs its own challenge, never the scores of another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.sandbox.backends import SAFE

from tallymark.challenges.attempt import Payload
from tallymark.sandbox import Policy
from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.service.competition import Competition
from tallymark.store import open_store

CHALLENGE = """
    name: {name}
    goal: "Answer with {{sum: 42}}."
    time_limit: 100
    attempts: 3
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {{sum: {{primitive: exact_match}}}}
    scoring: {{plugin: "scorer.py:Plugin"}}
"""
SCORER = """
class Plugin:
    def score(self, metrics, config, ctx):
        return {"score": 7.0}
"""
POISONS = {
    "names": '"""\nimport unittest.__main__\n"""' + SCORER,
    "leaves": "import os; os._exit(1)" + SCORER,
    "aborts": "import os; os.abort()" + SCORER,
    "grows": SCORER.replace("7.0", "7.0, 'details': {'x': 'y' * 100_000_000}"),
}


@pytest.mark.parametrize("backend", SAFE)
def test_every_attempt_is_settled_whatever_other_plugins_do(
    backend: SafeBackend, empty_url: str, tmp_path: Path
) -> None:
    with open_store(empty_url) as store:
        games = Competition(store, policy=Policy(backend), clock=lambda: 1_700_000_000.0)
        for name, text in (POISONS | {"plain": SCORER}).items():
            files = {"truth.json": '{"sum": 42}', "scorer.py": text}
            games.publish(folder_with(tmp_path / name, CHALLENGE.format(name=name), files))
            entered = games.enter(name, "alice").attempt.id
            # Left as a host would leave it that was killed between storing and scoring.
            answer = Payload(submission={"sum": 42})
            store.attempts.submit(entered, "alice", answer, at=1_700_000_001.0, key=None)
        settled = {attempt.challenge: attempt.outcome for attempt in games.settle()}
        games.close()
    scores = {name: outcome and outcome.score for name, outcome in settled.items()}
    assert scores == {"plain": 7.0, "names": 7.0, "leaves": None, "aborts": None, "grows": None}
