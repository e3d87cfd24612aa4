"""What fails on our side never ends an attempt, uses nothing up, and keeps nobody else waiting."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.sandbox.backends import EACH_WITH_ONE, SAFE

from tallymark.challenges.attempt import Attempt, Payload
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox import Policy
from tallymark.service.competition import Competition
from tallymark.store import Store, open_store

EVERY = "name: {name}\ngoal: Do it.\nattempts: {{total: 1, per_day: 1}}\n"
PLAIN = (
    "evaluator: {type: deterministic, truth: truth.json, fields: {a: {primitive: exact_match}}}\n"
)
CHALLENGES: dict[str, tuple[str, dict[str, str]]] = {
    "program": (
        "submission: {format: text}\nevaluator: {type: tests, cases: cases.json}\n",
        {"cases.json": '[{"name": "c", "args": ["1"], "stdout": "1"}]'},
    ),
    "call": (
        "submission: {format: text}\nevaluator: {type: tests, cases: cases.json}\n",
        {"cases.json": '[{"name": "c", "call": "f", "value": 1}]'},
    ),
    "script": (
        "evaluator: {type: script, script: judge.py}\n",
        {"judge.py": "def evaluate(*_): return {'succeeded': True}"},
    ),
    "plugin": (
        PLAIN + "scoring: {plugin: 'scorer.py:Mine', strategy: custom}\n",
        {
            "truth.json": '{"a": 1}',
            "scorer.py": "class Mine:\n    def score(self, *_): return {'score': 1}",
        },
    ),
}
ANSWERS: dict[str, Any] = {
    "program": "import sys\nprint(sys.argv[1])",
    "call": "def f(): return 1",
    "script": 1,
    "plugin": {"a": 1},
}

PAYLOAD = Payload(submission={"a": 1})


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with open_store(empty_url) as opened:
        yield opened


@pytest.fixture
def games(request: pytest.FixtureRequest, store: Store) -> Iterator[Competition]:
    competition = Competition(store, policy=Policy(request.param))
    yield competition
    competition.close()


def publish(games: Competition, folder: Path, name: str) -> None:
    text, files = CHALLENGES[name]
    games.publish(folder_with(folder / name, EVERY.format(name=name) + text, files))


def submit(games: Competition, name: str, agent: str = "alice") -> Attempt:
    entry = games.enter(name, agent)
    return games.submit(entry.attempt.id, agent, ANSWERS[name])


FAULTS = {
    "no bubblewrap": FileNotFoundError(errno.ENOENT, "No such file or directory", "bwrap"),
    "no process": BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
    "no memory": OSError(errno.ENOMEM, "Cannot allocate memory"),
    "a bug of ours": ValueError("something that nobody thought of"),
}


@pytest.mark.parametrize(("empty_url", "games"), EACH_WITH_ONE, indirect=True)
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("program", "no bubblewrap"),
        ("call", "no process"),
        ("script", "no memory"),
        ("plugin", "no process"),
        ("program", "a bug of ours"),
    ],
)
def test_a_sandbox_that_does_not_start_leaves_the_attempt_waiting(
    games: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FAULTS[fault]

    publish(games, tmp_path, name)
    with monkeypatch.context() as broken:
        broken.setattr(subprocess, "Popen", fail)
        waiting = submit(games, name)
        assert (waiting.state, waiting.outcome) == ("submitted", None)
        said = getattr(FAULTS[fault], "strerror", str(FAULTS[fault]))
        assert said in str(waiting.waiting)
        assert [each.waiting for each in games.settle()] == [waiting.waiting]
        assert games.store.ratings.of("alice").matches == 0
        games.enter(name, "alice")  # its one attempt, of all and of today, is not used up
    events = [each.event for each in games.store.attempts.audit(waiting.id)]
    assert events == ["entered", "submitted", "waiting"]
    (settled,) = games.settle()
    assert (settled.state, settled.waiting) == ("scored", None)
    assert settled.outcome is not None
    assert settled.outcome.result == "win"


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many as a server has while thousands of idle clients are connected to it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("this user may open too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    with ExitStack() as opened:
        for _ in range(2000):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize(("empty_url", "games"), EACH_WITH_ONE, indirect=True)
@pytest.mark.parametrize("name", CHALLENGES)
def test_many_open_descriptors_cost_nobody_a_score(
    games: Competition, tmp_path: Path, name: str
) -> None:
    publish(games, tmp_path, name)
    attempt = submit(games, name)
    assert attempt.state == "scored", attempt.outcome


def test_a_full_disk_leaves_the_attempt_waiting(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without bubblewrap the scratch folder lies on it."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    games = Competition(store, policy=Policy("landlock"))
    for name in ("program", "plugin"):
        publish(games, tmp_path, name)
        entered = games.enter(name, "alice").attempt
        with monkeypatch.context() as broken:
            broken.setattr("tempfile.mkdtemp", fail)
            waiting = games.submit(entered.id, "alice", ANSWERS[name])
        assert (waiting.state, "No space" in str(waiting.waiting)) == ("submitted", True)
    assert [each.state for each in games.settle()] == ["scored", "scored"]
    games.close()


def test_what_cannot_be_scored_keeps_no_other_from_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One plugin cannot be loaded, one evaluation trips over an error of ours."""
    games = Competition(store, policy=Policy(SAFE[0]))
    text, files = CHALLENGES["plugin"]
    broken = files | {"scorer.py": "import nowhere\n" + files["scorer.py"]}
    games.publish(folder_with(tmp_path / "p", EVERY.format(name="plugin") + text, broken))
    publish(games, tmp_path, "script")
    with monkeypatch.context() as all_down:
        all_down.setattr(Competition, "_score_submitted", lambda *_: 1 / 0)
        submit(games, "plugin")
        submit(games, "script", "mallory")
        submit(games, "script")
    real = Competition._evaluate

    def trip(self: Competition, attempt: Attempt, *given: Any) -> Any:
        return 1 / 0 if attempt.agent == "mallory" else real(self, attempt, *given)

    monkeypatch.setattr(Competition, "_evaluate", trip)
    found = [(each.challenge, each.agent, each.state, each.waiting) for each in games.settle()]
    said = "scorer.py:Mine cannot score: the plugin raised ModuleNotFoundError"
    assert found[0][:3] == ("plugin", "alice", "submitted")
    assert str(found[0][3]).startswith(said)
    assert found[1:] == [
        ("script", "mallory", "submitted", "internal error: ZeroDivisionError"),
        ("script", "alice", "scored", None),
    ]
    games.close()


def test_data_that_cannot_be_made_start_no_clock(store: Store, tmp_path: Path) -> None:
    script = "def generate(seed):\n    raise ValueError('the truth is 42')\n"
    text = EVERY.format(name="made") + PLAIN.replace("truth: truth.json, ", "")
    text += "data: {generate: generate.py}\n"
    games = Competition(store, policy=Policy(SAFE[0]))
    games.publish(folder_with(tmp_path / "made", text, {"generate.py": script}))
    with pytest.raises(WorkFailed) as caught:
        games.enter("made", "alice")
    assert "42" not in str(caught.value)
    assert store.attempts.of("made") == []
    games.close()


def test_who_could_make_attempts_wait_has_no_more_of_them(store: Store, tmp_path: Path) -> None:
    text = "name: some\ngoal: x\nattempts: 1\n" + PLAIN
    games = Competition(store)
    games.publish(folder_with(tmp_path / "some", text, {"truth.json": '{"a": 1}'}))
    for at in (1.0, 4.0):
        made = store.attempts.enter("some", "mallory", at=at, seed=1)
        store.attempts.submit(made.id, "mallory", PAYLOAD, at=at + 1)
        store.attempts.wait(made.id, "the judge did not answer", at=at + 2)
    with pytest.raises(InvalidInput, match="has made"):
        store.attempts.enter("some", "mallory", at=8.0, seed=1)


@pytest.mark.parametrize("per_day", [True, False])
def test_only_what_waits_is_not_held_against_anybody(
    store: Store, tmp_path: Path, per_day: bool
) -> None:
    text = (
        "name: some\ngoal: x\n"
        + ("attempts: {per_day: 2}\n" if per_day else "attempts: 2\n")
        + PLAIN
    )
    games = Competition(store)
    games.publish(folder_with(tmp_path / "some", text, {"truth.json": '{"a": 1}'}))
    first = games.store.attempts.enter("some", "alice", at=1.0, seed=1)
    games.store.attempts.submit(first.id, "alice", PAYLOAD, at=2.0)
    games.store.attempts.wait(first.id, "the machine is on fire", at=3.0)
    for at in (4.0, 6.0):
        made = games.store.attempts.enter("some", "alice", at=at, seed=1)
        games.store.attempts.submit(made.id, "alice", PAYLOAD, at=at + 1)
    with pytest.raises(InvalidInput, match="has made"):
        games.store.attempts.enter("some", "alice", at=8.0, seed=1)
    assert [each.waiting for each in store.attempts.of("some")] == [
        None, None, "the machine is on fire"
    ]  # fmt: skip
