"""Rescoring: who would move is in the address; doing it takes the challenge's name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse_as, send

from tallymark.service import challenges
from tallymark.service.app import App
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store.jobs import Job

FRUGAL = "/organiser/challenges/frugal/rescore?by=formula&formula=tokens_total"
MAZE = "/organiser/challenges/maze/rescore?by=weights&w-correctness=0.1&w-speed=0.9"


def test_the_preview_is_the_answer_and_changes_nothing(own_app: App, organiser: TestClient) -> None:
    page = organiser.get(FRUGAL)
    assert "Rescore: 2 of 2 would move" in page.text
    told = organiser.get(f"{FRUGAL}&format=json").json()
    assert [(each["agent"], each["was"], each["rank"]) for each in told["moves"]] == [
        ("bob", 2, 1),
        ("alice", 1, 2),
    ]
    assert own_app.store.challenges.get("frugal").scoring.formula == "1000 - tokens_total"


def test_the_sum_of_weights_is_the_sum_of_what_was_typed(organiser: TestClient) -> None:
    path = "/organiser/challenges/maze/rescore?by=weights&w-correctness=0.1&w-speed="
    assert "They add up to 1." in organiser.get(f"{path}0.9").text
    assert "They add up to 0.7, but must add up to 1." in organiser.get(f"{path}0.6").text


def test_weights_that_move_nobody_say_so(organiser: TestClient) -> None:
    assert "no agent would move" in organiser.get(MAZE).text


def test_ratings_become_what_the_preview_told(own_app: App, organiser: TestClient) -> None:
    """By these weights nobody moves, and results of matches change."""
    store, address = own_app.store, MAZE
    before = read_elo(own_app)
    told = organiser.get(f"{address}&format=json").json()
    lines = {each["agent"]: (each["was"], each["rating"]) for each in told["ratings"]}
    assert lines
    assert told["preview"]["rated"] == len(lines)
    assert {agent: was for agent, (was, _) in lines.items()} == {
        agent: before[agent] for agent in lines
    }
    page = organiser.get(address).text
    assert all(f'id="rating-{agent}"' in page for agent in lines)
    assert read_elo(own_app) == before
    sent = {"base": store.challenges.get("maze").version, "name": "maze", "reason": "speed"}
    assert send(organiser, address, "apply", **sent).status_code == 303
    after = read_elo(own_app)
    changed = {agent: (before[agent], now) for agent, now in after.items() if now != before[agent]}
    assert changed == lines


def read_elo(app: App) -> dict[str, float]:
    return {agent: each.rating for agent, each in app.store.ratings.elo(as_frozen=False)}


def test_scores_that_would_be_lost_are_told_before(organiser: TestClient) -> None:
    page = organiser.get(FRUGAL.replace("tokens_total", "1/(tokens_total-100)")).text
    assert "1 attempt would have no score" in page
    assert "would lose its score" in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("by=formula&formula=tokens_totl", "tokens_total"),
        ("by=formula&formula=1%20%2B", "Column 4"),
        ("by=config&config=nonsense", "no JSON object"),
        ("by=weights&w-speed=much", "no number"),
        ("by=weights&w-luck=1", "weighs no dimensions"),
        ("by=plugin&plugin=nothing.here", "nothing.here"),
        ("by=formula&formula=1000%20-%20tokens_total", "scored so already"),
    ],
)
def test_a_rule_that_cannot_be_is_a_sentence_at_the_form(
    organiser: TestClient, query: str, words: str
) -> None:
    page = organiser.get(f"/organiser/challenges/frugal/rescore?{query}")
    assert page.status_code == 200
    assert "This rule is not valid" in page.text
    assert words in page.text


def test_applied_only_with_the_name_and_by_what_was_looked_at(
    own_app: App, organiser: TestClient
) -> None:
    base = own_app.store.challenges.get("frugal").version
    typed = {"base": base, "reason": "it was upside down"}
    refused = send(organiser, FRUGAL, "apply", **typed, name="frugl")
    assert refused.status_code == 422
    assert "not the name of the challenge" in refused.text
    assert 'value="it was upside down"' in refused.text
    assert send(organiser, FRUGAL, "apply", **typed, name="frugal").status_code == 303
    entry = own_app.store.audit_log.entries(event="rescored")[0]
    assert entry.note is not None
    assert entry.note["reason"] == "it was upside down"
    second = FRUGAL.replace("tokens_total", "2")
    late = send(browse_as(own_app, "admin"), second, "apply", **typed, name="frugal")
    assert late.status_code == 409
    assert "since you looked" in late.text


def test_very_many_are_previewed_and_applied_by_a_worker(
    own_app: App, organiser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(challenges, "MOST_AT_ONCE", 1)
    assert "too many for a page" in organiser.get(MAZE).text
    queued = send(organiser, MAZE, "queue")
    address = queued.headers["location"]
    job = address.rpartition("job=")[2]
    assert "Show progress" in organiser.get(address).text
    assert _work(own_app, job).state == "done"
    assert "no agent would move" in organiser.get(address).text
    base = own_app.store.challenges.get("maze").version
    applied = send(organiser, address, "apply", base=base, name="maze", reason="faster")
    path = applied.headers["location"]
    assert _work(own_app, path.rpartition("/")[2]).state == "done"
    assert "4 attempts rescored" in organiser.get(path).text


def _work(app: App, job: str) -> Job:
    """Has a worker of another process do what is queued."""
    service = Service(ServiceSettings(db=str(Path(app.db or "")), workers=1))
    service.open()
    try:
        return asyncio.run(service.tenant("default").jobs.await_end(job))
    finally:
        service.close()
