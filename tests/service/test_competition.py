"""The life of an attempt: entered, submitted, evaluated, scored; once, and by one rule."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scripts.server_process import require_as_logged
from tests.challenges.challenge_folders import folder_with

from tallymark.challenges.attempt import Attempt, Metrics, Payload
from tallymark.errors import InvalidInput
from tallymark.sandbox.policy import UNSAFE_WARNING, choose_policy
from tallymark.service import competition as competition_module
from tallymark.service.competition import AttemptReport, Competition
from tallymark.store import Store, open_store
from tallymark.store.quick_statements import QuickStatements

SUMS = """
    name: sums
    goal: "Answer with {sum: 42}."
    time_limit: 100
    attempts: 3
    constraints: {tokens: 1000}
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {sum: {primitive: exact_match}}
    scoring: {formula: "1000 * succeeded - elapsed_s"}
"""
RACE = SUMS.replace("name: sums", "name: race").replace(
    'formula: "1000 * succeeded - elapsed_s"', "strategy: fewest_tokens"
)
RIGHT = {"sum": 42}


class Clock:
    """Time stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tally.db")) as opened:
        yield opened


@pytest.fixture
def games(store: Store, clock: Clock) -> Iterator[Competition]:
    competition = Competition(store, clock=clock, draw=lambda: 7)
    yield competition
    competition.close()


def publish(games: Competition, tmp_path: Path, text: str = SUMS) -> None:
    name = text.split("name: ")[1].split("\n", maxsplit=1)[0]
    games.publish(folder_with(tmp_path / name, text, {"truth.json": '{"sum": 42}'}))


def played(
    games: Competition, clock: Clock, agent: str = "alice", answer: Any = None, **said: Any
) -> Attempt:
    """An attempt that takes ten seconds."""
    entry = games.enter(said.pop("name", "sums"), agent)
    clock.now += 10
    return games.submit(entry.attempt.id, agent, RIGHT if answer is None else answer, **said)


def test_a_submission_is_scored_and_ranked(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    attempt = played(games, clock)
    assert attempt.state == "scored"
    assert attempt.outcome is not None
    assert (attempt.outcome.score, attempt.outcome.result) == (990.0, "win")
    assert [each.agent for each in games.store.boards.top("sums")] == ["alice"]
    assert games.store.ratings.of("alice").rating == 1016


def test_submitting_the_same_again_changes_nothing(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    first = played(games, clock)
    clock.now += 1
    assert games.submit(first.id, "alice", RIGHT) == first
    assert games.store.ratings.of("alice").matches == 1


def test_the_score_keeps_its_origin(games: Competition, clock: Clock, tmp_path: Path) -> None:
    publish(games, tmp_path)
    outcome = played(games, clock).outcome
    assert outcome is not None
    assert outcome.origin is not None
    assert outcome.origin.scorer == "formula"
    assert outcome.origin.config["seed"] == 7
    assert outcome.origin.config["challenge_version"] == games.store.challenges.get("sums").version


def test_a_second_attempt_is_number_two_and_the_fourth_is_refused(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    assert [played(games, clock).number for _ in range(3)] == [1, 2, 3]
    with pytest.raises(InvalidInput, match="3"):
        games.enter("sums", "alice")


def test_an_attempt_left_open_expires_and_is_a_loss(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")
    clock.now += 101
    with pytest.raises(InvalidInput, match="expired"):
        games.submit(entry.attempt.id, "alice", RIGHT)
    assert games.store.ratings.of("alice").losses == 1


def test_settle_expires_what_nobody_submitted(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")
    clock.now += 101
    assert games.settle() == []
    assert games.store.attempts.get(entry.attempt.id).state == "expired"


KILLED = """
    import os, signal, sys
    from tallymark.service import competition
    from tallymark.store import open_store

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(competition, sys.argv[3], die)
    with open_store(sys.argv[1]) as store:
        games = competition.Competition(store, clock=lambda: float(sys.argv[4]))
        games.submit(sys.argv[2], "alice", {"sum": 42})
"""


@pytest.mark.parametrize("moment", ["evaluate", "score_attempts"])
def test_an_attempt_whose_scorer_was_killed_is_scored_exactly_once(
    games: Competition, clock: Clock, tmp_path: Path, moment: str
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")
    clock.now += 10
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "tally.db")]
    done = subprocess.run(
        [*script, entry.attempt.id, moment, str(clock.now)], check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert games.store.attempts.get(entry.attempt.id).state == "submitted"
    assert [each.outcome.score for each in games.settle() if each.outcome] == [990.0]
    assert games.settle() == []
    assert games.store.ratings.of("alice").matches == 1
    assert len(games.store.attempts.history(entry.attempt.id)) == 1
    require_as_logged(games.store, "scores", "boards", "ratings")


def test_a_rule_that_changes_while_an_attempt_is_scored_scores_it(
    games: Competition, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(games, tmp_path)
    scored = vars(competition_module)["score_attempts"]
    other = SUMS.replace("1000 * succeeded", "500 * succeeded")

    def slow(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(competition_module, "score_attempts", scored)
        outcome = scored(*given, **named)
        publish(games, tmp_path, other)
        return outcome

    monkeypatch.setattr(competition_module, "score_attempts", slow)
    outcome = played(games, clock).outcome
    assert outcome is not None
    assert outcome.score == 490.0


def test_a_submission_reads_its_challenge_once_besides_locking_it(
    games: Competition, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")
    later = Competition(games.store, clock=clock)  # another process knows nothing yet
    read: list[str] = []
    ask = QuickStatements.read

    def note(statements: QuickStatements, text: str, *values: Any) -> Any:
        read.append(text)
        return ask(statements, text, *values)

    monkeypatch.setattr(QuickStatements, "read", note)
    assert later.submit(entry.attempt.id, "alice", RIGHT).outcome is not None
    later.close()
    definitions = [each for each in read if "definition" in each and "FROM challenges" in each]
    assert sum("WHERE tenant = ? AND name = ?" in each for each in definitions) == 1
    assert sum("WHERE id = ?" in each for each in definitions) == len(definitions) - 1 == 2


def test_a_rule_that_changed_since_it_was_read_scores_nothing(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")  # reads the rule, and keeps it
    other = Competition(games.store, clock=clock)
    publish(other, tmp_path, SUMS.replace("1000 * succeeded", "500 * succeeded"))
    other.close()
    clock.now += 10
    outcome = games.submit(entry.attempt.id, "alice", RIGHT).outcome
    assert outcome is not None
    assert outcome.score == 490.0


def trajectory(clock: Clock, tokens: int) -> str:
    """One model call, five seconds ago."""
    call = {"span_type": "generation", "name": "m", "start_ms": (clock.now - 5) * 1000}
    call |= {"duration_ms": 1000.0, "input_tokens": tokens, "output_tokens": 0}
    return json.dumps({"trace_id": "t", "spans": [call]})


def test_tokens_that_nobody_could_check_do_not_win(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path, RACE)
    claimed = played(games, clock, "bob", name="race", metadata={"tokens": 1})
    entry = games.enter("race", "alice")
    clock.now += 10
    shown = games.submit(
        entry.attempt.id,
        "alice",
        RIGHT,
        metadata={"tokens": 400},
        trajectory=trajectory(clock, 400),
    )
    assert (claimed.verified, shown.verified) == (False, True)
    board = [(each.agent, each.value) for each in games.store.boards.top("race")]
    assert board == [("alice", 400.0), ("bob", None)]


def test_a_constraint_that_was_passed_is_reported(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")
    clock.now += 10
    done = games.submit(entry.attempt.id, "alice", RIGHT, trajectory=trajectory(clock, 5000))
    assert done.outcome is not None
    assert "5,000" in done.outcome.details["constraint_violations"][0]


REPORTED = """
    name: reports
    goal: Be quick.
    evaluator: {type: reported, metrics: [style]}
    scoring: {plugin: builtin.weighted_scorer}
"""


def test_a_reported_attempt_is_scored_by_the_plugin(games: Competition, tmp_path: Path) -> None:
    publish(games, tmp_path, REPORTED)
    metrics = Metrics(succeeded=True, rating=8, elapsed_ms=20_000, tokens_total=500)
    outcome = games.report("reports", "alice", metrics).outcome
    assert outcome is not None
    assert outcome.score == 100 + 80 - 20 - 5


def test_a_metric_that_the_challenge_does_not_know_is_refused(
    games: Competition, tmp_path: Path
) -> None:
    publish(games, tmp_path, REPORTED)
    with pytest.raises(InvalidInput, match="did you mean 'rating'"):
        games.report("reports", "alice", Metrics(more={"ratng": 8}))
    assert games.store.attempts.of("reports") == []


@pytest.mark.parametrize(
    ("text", "wish", "words"),
    [
        pytest.param(REPORTED, "enter", "reported by a trusted system", id="enter-reported"),
        pytest.param(SUMS, "report", "judged here, not reported", id="report-judged"),
    ],
)
def test_the_wrong_door_is_said_to_be_wrong(
    games: Competition, tmp_path: Path, text: str, wish: str, words: str
) -> None:
    publish(games, tmp_path, text)
    name = "reports" if text is REPORTED else "sums"
    knocks: dict[str, Callable[[], object]] = {
        "enter": lambda: games.enter(name, "alice"),
        "report": lambda: games.report(name, "alice", Metrics()),
    }
    with pytest.raises(InvalidInput, match=words):
        knocks[wish]()


def test_without_a_sandbox_every_result_says_so(store: Store, clock: Clock, tmp_path: Path) -> None:
    games = Competition(store, clock=clock, policy=choose_policy(insecure_local=True))
    publish(games, tmp_path)
    outcome = played(games, clock).outcome
    games.close()
    assert outcome is not None
    assert outcome.details["warning"] == UNSAFE_WARNING


PLUGIN = """
    class Half:
        def score(self, metrics, config, ctx):
            if metrics["elapsed_ms"] > 10_000:
                raise ValueError("too slow for me")
            return {"score": metrics["elapsed_ms"] / 2}
"""


def test_a_plugin_of_the_challenge_scores_in_the_sandbox(
    games: Competition, clock: Clock, tmp_path: Path
) -> None:
    text = SUMS.replace('formula: "1000 * succeeded - elapsed_s"', "plugin: half.py:Half")
    files = {"truth.json": '{"sum": 42}', "half.py": PLUGIN}
    games.publish(folder_with(tmp_path / "sums", text, files))
    good = played(games, clock)
    assert good.outcome is not None
    assert good.outcome.score == 5000.0
    entry = games.enter("sums", "bob")
    clock.now += 20
    bad = games.submit(entry.attempt.id, "bob", RIGHT)
    assert bad.outcome is not None
    assert (bad.state, bad.outcome.score) == ("failed", None)
    assert "too slow for me" in (bad.outcome.error or "")
    assert games.store.ratings.of("bob").losses == 1


def test_closing_leaves_no_folder_behind(
    games: Competition, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    publish(games, tmp_path)
    played(games, clock)
    games.close()
    assert list(temporary.iterdir()) == []


# Reports, many at once


BY_FORMULA = """
    name: reported
    goal: Report.
    evaluator: {type: reported}
    scoring: {formula: "1000 * succeeded - tokens_total + number"}
"""


def report_of(agent: str, tokens: int, **fields: Any) -> AttemptReport:
    return AttemptReport("reported", agent, Metrics(succeeded=True, tokens_total=tokens), **fields)


def scores(found: Sequence[object]) -> list[float | None]:
    return [each.outcome.score for each in found if isinstance(each, Attempt) and each.outcome]


def test_many_reports_are_answered_in_order_each_by_itself(
    games: Competition, tmp_path: Path
) -> None:
    games.publish(folder_with(tmp_path, BY_FORMULA))
    given = [report_of("alice", 1), report_of("bob", 2), report_of("alice", 3)]
    wrong = [AttemptReport("none", "alice", Metrics()), report_of("No!", 1)]
    found = games.report_many([*given, *wrong])
    assert scores(found) == [1000.0, 999.0, 999.0]
    assert [isinstance(each, InvalidInput) for each in found] == [False] * 3 + [True] * 2
    assert games.store.attempts.pending() == []


def test_reports_of_an_event_loop_are_what_single_ones_are(
    games: Competition, tmp_path: Path
) -> None:
    games.publish(folder_with(tmp_path, BY_FORMULA))

    async def report_all() -> list[Attempt]:
        asked = (
            games.areport("reported", f"agent-{n}", Metrics(succeeded=True, tokens_total=n))
            for n in range(40)
        )
        return await asyncio.gather(*asked)

    found = asyncio.run(report_all())
    assert scores(found) == [1001.0 - n for n in range(40)]
    single = games.report("reported", "agent-x", Metrics(succeeded=True, tokens_total=7))
    assert single.outcome is not None
    assert single.outcome.score == 994.0
    assert games.store.attempts.get(found[3].id) == found[3]


BY_RULE = """
    name: reported
    goal: Report.
    evaluator: {type: reported}
    scoring: {plugin: "rule.py:Rule"}
"""
RULE = """
class Rule:
    def score(self, metrics, config, ctx):
        return {"score": metrics["tokens_total"] * 2}
"""


def test_reports_that_a_plugin_scores_are_stored_first_and_scored_by_several_threads(
    games: Competition, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path, BY_RULE)
    (folder / "rule.py").write_text(RULE)
    games.publish(folder)
    found = games.report_many([report_of(f"agent-{n}", n) for n in range(12)])
    assert scores(found) == [2.0 * n for n in range(12)]

    async def report_all() -> list[Attempt]:
        asked = (games.areport(*report_of(f"agent-{n}", n)[:3]) for n in range(12))
        return await asyncio.gather(*asked)

    assert scores(asyncio.run(report_all())) == [2.0 * n for n in range(12)]


DEADLY_RULE = """
import os
seen = []
class Rule:
    def score(self, metrics, config, ctx):
        if ctx["end_user_id"].startswith("deadly"):
            os._exit(1)
        seen.append(1)
        return {"score": metrics["tokens_total"] * 2 + len(seen) - 1}
"""


class Unshuffled(random.SystemRandom):
    """Those who came last stay last."""

    def shuffle(self, x: Any) -> None:
        """Leaves all where it is."""


def test_reports_that_wait_together_are_scored_as_if_alone(
    games: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though some end the process that they share, and the plugin remembers who came before."""
    monkeypatch.setattr(random, "SystemRandom", Unshuffled)
    folder = folder_with(tmp_path, BY_RULE)
    (folder / "rule.py").write_text(DEADLY_RULE)
    games.publish(folder)
    given = [report_of(f"deadly-{n}", n) for n in range(11)]
    given += [report_of(f"agent-{n}", n) for n in range(14)]
    told = [games.store.attempts.do(games._make_report(each)) for each in given]
    waiting = [(each, report.metrics) for each, report in zip(told, given, strict=True)]
    found = games._score_together(waiting)  # type: ignore[arg-type]
    assert scores(found[11:]) == [2.0 * n for n in range(14)]
    ends = [each.outcome.details["scorer"]["stopped"] for each in found[:11] if each.outcome]
    assert ends == ["crashed"] * 11
    assert [games.store.attempts.get(each.id) for each in found] == found


def test_a_submission_may_be_taken_here_and_settled_elsewhere(
    games: Competition, tmp_path: Path
) -> None:
    publish(games, tmp_path)
    entry = games.enter("sums", "alice")
    known = games.store.attempts.find(entry.attempt.id, "alice")
    taken = games.take_submission(known, Payload(submission=RIGHT), None).attempt
    assert taken.state == "submitted"
    other = Competition(games.store, clock=games._clock)
    assert other.settle_attempt(taken.id).state == "scored"
    other.close()
    assert games.settle_attempt(taken.id).state == "scored"
