"""A judged submission has one verdict: whoever asks again, in whatever way, gets the first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.models.provider_server import Fail, ProviderServer, Reply
from tests.store.contest_samples import quick_store

from tallymark.challenges.attempt import Attempt
from tallymark.challenges.evaluators.judge import make_rating_task
from tallymark.judging.judge_dialogue import fence
from tallymark.service import competition as competition_module
from tallymark.service.competition import Competition

RUBRIC = "10 for the moon and the sun."
GOAL = "Explain the tides."
TIDES = f"""
    name: tides
    goal: {GOAL}
    submission: {{format: text}}
    evaluator: {{type: judge, rubric: rubric.md}}
    scoring: {{formula: "rating"}}
"""
GUARD = """
    name: guard
    goal: Get past the guard.
    kind: versus
    submission: {format: text}
    versus: {categories: [leak], judge: {type: judge, rubric: rubric.md}}
"""
ANSWER = "The moon pulls."
PROMPT = make_rating_task(GOAL, RUBRIC, ANSWER, 10).material.text


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


@pytest.fixture
def games(empty_url: str, tmp_path: Path, server: ProviderServer) -> Iterator[Competition]:
    model = f"{server.url}/v1#fickle"
    with (
        quick_store(empty_url) as store,
        closing(Competition(store, judge_model=model)) as competition,
    ):
        publish(competition, tmp_path / "tides", TIDES)
        yield competition


def publish(games: Competition, folder: Path, text: str, rubric: str = RUBRIC) -> None:
    games.publish(folder_with(folder, text, {"rubric.md": rubric}))


def rating(value: float) -> Reply:
    return Reply(json.dumps({"reason": f"worth {value}", "rating": value}))


def submit(games: Competition, agent: str) -> Attempt:
    entry = games.enter("tides", agent)
    return games.submit(entry.attempt.id, agent, ANSWER)


def scores(*attempts: Attempt) -> list[float | None]:
    return [each.outcome.score for each in attempts if each.outcome]


def facts(attempt: Attempt) -> dict[str, Any]:
    assert attempt.outcome is not None
    told: dict[str, Any] = attempt.outcome.details["evaluation"]["judge"]
    return told


def test_submitting_the_same_text_again_draws_no_other_verdict(
    games: Competition, server: ProviderServer
) -> None:
    server.on(PROMPT, rating(7), rating(9))
    first, second, another = (submit(games, agent) for agent in ("alice", "alice", "bob"))
    assert scores(first, second, another) == [7, 7, 7]
    assert server.count[PROMPT] == 1
    told = [(each["tries"], each["cost"], each["kept"]) for each in map(facts, (second, another))]
    assert told == [(0, 0.0, True)] * 2
    assert "kept" not in facts(first)


def test_a_crash_after_the_verdict_asks_nobody_again(
    games: Competition, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on(PROMPT, rating(7), rating(9))

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(competition_module, "score_attempts", crash)
        with pytest.raises(KeyboardInterrupt):
            submit(games, "alice")
    assert scores(*games.settle()) == [7]
    assert server.count[PROMPT] == 1


def test_rescoring_by_the_same_rubric_keeps_the_verdict(
    games: Competition, server: ProviderServer, tmp_path: Path
) -> None:
    server.on(PROMPT, rating(7), rating(9))
    submit(games, "alice")
    new = folder_with(
        tmp_path / "new",
        TIDES.replace('"rating"', '"2 * rating"'),
        {"rubric.md": RUBRIC, "more.txt": "another file, so that all is evaluated again"},
    )
    for apply in (False, True):
        games.rescore("tides", folder=new, apply=apply)
    assert games.store.boards.top("tides")[0].score == 14
    assert server.count[PROMPT] == 1


def test_another_rubric_is_another_question(
    games: Competition, server: ProviderServer, tmp_path: Path
) -> None:
    other = "0 for all."
    asked = make_rating_task(GOAL, other, ANSWER, 10).material.text
    server.on(PROMPT, rating(7))
    server.on(asked, rating(0))
    submit(games, "alice")
    publish(games, tmp_path / "tides", TIDES, other)
    assert scores(submit(games, "alice")) == [0]


def test_a_failure_is_no_verdict(games: Competition, server: ProviderServer) -> None:
    server.on(PROMPT, Fail(400), rating(8))
    failed, judged = submit(games, "alice"), submit(games, "alice")
    assert scores(failed, judged) == [None, 8]


def test_an_answer_to_a_suite_is_judged_once(
    games: Competition, server: ProviderServer, tmp_path: Path
) -> None:
    suite = f"""
        metadata: {{name: sums, judge: "{server.url}/v1#fickle"}}
        evals: [{{name: four, prompt: "2+2", checks: [llm_judge: is it right?]}}]
    """
    text = """
        name: asked
        goal: Be right.
        submission: {format: agent}
        evaluator: {type: suite, suite: suite.yaml, allow: [echo]}
        scoring: {formula: "100 * succeeded"}
    """
    games.publish(folder_with(tmp_path / "asked", text, {"suite.yaml": suite}))

    def ask() -> Attempt:
        entry = games.enter("asked", "alice")
        return games.submit(entry.attempt.id, "alice", "echo/any")

    assert scores(ask()) == [None]  # what the judge says by itself cannot be read
    prompt, _and_once_more = sorted(server.count, key=len)
    server.on(prompt, Reply("Choice: met"), Reply("Choice: not met"))
    assert scores(ask(), ask()) == [100, 100]


def test_an_attack_taken_back_and_sent_again_is_judged_as_before(
    games: Competition, server: ProviderServer, tmp_path: Path
) -> None:
    publish(games, tmp_path / "guard", GUARD)
    arena = games.arena("guard")
    met = {
        attack: fence({"ATTACK": attack, "DEFENCE": "wall"}).text for attack in ("push", "shout")
    }
    for each in met.values():
        held, breached = (
            Reply(json.dumps({"reason": "", "breached": said})) for said in (False, True)
        )
        server.on(each, held, breached)
    arena.submit("blue", "blue", "wall")
    verdicts = [arena.submit("red", "red", each)[1][0] for each in ("push", "shout", "push")]
    assert [each.breached for each in verdicts] == [False, False, False]
    assert [server.count[each] for each in met.values()] == [1, 1]
