"""Witnessed trajectories: what a server saw while an attempt ran, and the ways to feign it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.conftest import Server, run_server
from tests.traces.otlp_samples import as_json, model_call, span

from tallymark.store.contests import attempt_rows

NOW = 1_790_000_000.0
SUMS = """
name: sums
goal: Add up.
trajectory: witnessed
evaluator: {type: deterministic, truth: truth.json, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
"""


class Race:
    """A server with a clock of its own, and agents that compete."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.now = NOW
        server.service.clock = lambda: self.now

    def enter(self, agent: str = "bob") -> tuple[str, str]:
        told = self.server.v1(agent, "POST", "/challenges/sums/attempts", json={})
        assert told.status_code == 201, told.text
        return told.json()["attempt"]["id"], told.json()["token"]

    def send(self, token: str | None, *spans: Any, who: str = "bob") -> int:
        """How many spans were refused."""
        more = {} if token is None else {"tally__attempt": token}
        kind = {"Content-Type": "application/json"}
        body = as_json(*spans, **more)
        told = self.server.ask(who, "POST", "/v1/traces", content=body, headers=kind)
        assert told.status_code == 200, told.text
        return int(told.json().get("partialSuccess", {}).get("rejectedSpans", 0))

    def submit(self, attempt: str, agent: str = "bob", **more: Any) -> Any:
        path = f"/attempts/{attempt}/submission"
        told = self.server.v1(agent, "POST", path, json={"answer": {"sum": 42}, **more})
        assert told.status_code == 200, told.text
        return told.json()["attempt"]["trajectory_level"]

    def steps(self, trace: int = 1, start: float | None = None) -> list[Any]:
        start = self.now - 5 if start is None else start
        return [
            span(trace, 1, start=start, seconds=3.0),
            model_call(trace=trace, start=start, seconds=2.0),
        ]


@pytest.fixture
def race(tmp_path: Path) -> Iterator[Race]:
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "challenge.yaml").write_text(SUMS)
    (folder / "truth.json").write_text('{"sum": 42}')
    with run_server(str(tmp_path / "tally.db"), workers=0) as server:
        found = Race(server)
        server.service.tenant("default").competition.publish(folder)
        yield found


def test_steps_that_came_while_the_attempt_ran_are_witnessed(race: Race) -> None:
    attempt, token = race.enter()
    race.now += 10
    assert race.send(token, *race.steps()) == 0
    race.now += 5
    assert race.submit(attempt) == "witnessed"
    # Nothing of it is among the production traces, and the token is nowhere.
    assert race.server.v1("ada", "GET", "/traces").json()["items"] == []
    assert token not in race.server.v1("ada", "GET", f"/attempts/{attempt}").text


def test_without_spans_there_is_nothing_to_believe(race: Race) -> None:
    attempt, _ = race.enter()
    assert race.submit(attempt) == "none"


def test_what_comes_after_the_submission_does_not_count(race: Race) -> None:
    attempt, token = race.enter()
    race.now += 10
    race.submit(attempt)
    assert race.send(token, *race.steps()) == 2
    told = race.server.v1("bob", "GET", f"/attempts/{attempt}").json()["attempt"]
    assert told["trajectory_level"] == "none"


def test_a_made_up_token_is_of_no_attempt(race: Race) -> None:
    attempt, token = race.enter()
    race.now += 10
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    for each in (wrong, "tlw_a000000000001_x", "x", attempt, token.replace("0001", "0002")):
        assert race.send(each, *race.steps()) == 2


def test_an_agents_key_sends_nothing_but_spans_of_its_own_attempts(race: Race) -> None:
    _, of_bob = race.enter()
    race.now += 10
    assert race.send(of_bob, *race.steps(), who="charlie") == 2
    assert race.send(None, *race.steps()) == 2
    assert race.server.v1("ada", "GET", "/traces").json()["items"] == []


def test_spans_of_before_the_entry_are_only_claimed(race: Race) -> None:
    before = race.steps(start=race.now - 100)
    attempt, token = race.enter()
    race.now += 10
    race.send(token, *before)
    assert race.submit(attempt) == "claimed"


def test_one_burst_at_the_end_of_a_long_attempt_is_not_witnessed(race: Race) -> None:
    attempt, token = race.enter()
    early = race.steps(start=race.now + 5)
    race.now += 600
    race.send(token, *early)
    assert race.submit(attempt) == "consistent"


def test_spans_that_end_after_they_came_are_not_witnessed(race: Race) -> None:
    attempt, token = race.enter()
    race.now += 10
    ahead = race.steps(start=race.now + 20)
    race.send(token, *ahead)
    race.now += 60
    assert race.submit(attempt) == "consistent"


def test_the_steps_of_another_attempt_sent_again_are_only_claimed(race: Race) -> None:
    first, of_bob = race.enter()
    second, of_charlie = race.enter("charlie")
    race.now += 10
    steps = race.steps()
    race.send(of_bob, *steps)
    assert race.submit(first) == "witnessed"
    race.now += 1
    race.send(of_charlie, *steps, who="charlie")
    assert race.submit(second, "charlie") == "claimed"


def test_what_was_seen_counts_and_not_what_is_sent_along(race: Race) -> None:
    attempt, token = race.enter()
    race.now += 10
    race.send(token, *race.steps())
    thrifty = [{"spans": [{"span_type": "generation", "input_tokens": 1, "output_tokens": 1}]}]
    assert race.submit(attempt, trajectory=thrifty) == "witnessed"


def test_a_span_is_what_it_was_when_it_first_came(race: Race) -> None:
    attempt, token = race.enter()
    race.now += 10
    race.send(token, *race.steps())
    cheaper = model_call(start=race.now - 5, gen_ai__usage__input_tokens=1)
    race.send(token, cheaper)
    assert race.submit(attempt) == "witnessed"
    payload = race.server.service.tenant("default").store.attempts.payload(attempt)
    assert payload.trajectory is not None
    assert '"input_tokens":100' in payload.trajectory


def test_spans_of_an_attempt_have_a_bound_in_bytes(race: Race) -> None:
    attempt, token = race.enter()
    text = "x" * 900_000
    sent = [race.send(token, span(1, n, text=text, start=race.now)) for n in range(1, 21)]
    assert sum(sent) == 2, "18 of them are 16 MB"
    told = race.server.ask(
        "bob",
        "POST",
        "/v1/traces",
        content=as_json(span(1, 99, text=text), tally__attempt=token),
        headers={"Content-Type": "application/json"},
    )
    assert "an attempt has at most 16,777,216 bytes of spans" in told.text
    assert race.submit(attempt) == "claimed"


def test_what_an_agent_sends_in_a_day_is_bounded(
    race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_rows, "AGENT_BYTES_A_DAY", 100_000)
    noise = [random.Random(n).randbytes(15_000).hex() for n in range(9)]
    answers = []
    for text in noise:
        attempt, _ = race.enter()
        steps = {"spans": [{"span_id": "1", "span_type": "generation", "output": text}]}
        path, body = f"/attempts/{attempt}/submission", {"answer": {"sum": 42}, "trajectory": steps}
        answers.append(race.server.v1("bob", "POST", path, json=body))
    assert [each.status_code for each in answers[:6]] == [200] * 6
    assert {each.status_code for each in answers[6:]} == {409}
    assert "are used up" in answers[-1].text
    attempt, token = race.enter()
    assert race.send(token, span(1, 7, text=noise[0], start=race.now)) == 1
    race.now += 86_400
    attempt, token = race.enter()
    assert race.send(token, span(1, 7, text=noise[0], start=race.now)) == 0


def test_trajectories_are_stored_packed(race: Race) -> None:
    attempt, _ = race.enter()
    steps = {"spans": [{"span_id": "1", "span_type": "generation", "output": "x" * 1_000_000}]}
    race.submit(attempt, trajectory=steps)
    query = "SELECT packed_trajectory FROM attempt_details"
    with race.server.service.app.store._database.read() as connection:
        packed = connection.exec_driver_sql(query).scalar_one()
    assert len(packed) < 1_000
    told = race.server.v1("bob", "GET", f"/attempts/{attempt}/submission").json()
    assert json.loads(told["submission"]["trajectory"]) == steps
