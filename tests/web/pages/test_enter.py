"""Entering a challenge."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import ADDRESS, browse, browse_as, find_token, open_app, send
from tests.web.page_samples import EXAMPLES, NOW, publish_beans

from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_folder import pack
from tallymark.service.app import App
from tallymark.store import Store

PAGE = "/challenges/bean-counter/enter"


@pytest.fixture
def beans(tmp_path: Path) -> App:
    def fill(store: Store) -> None:
        publish_beans(store)

    return open_app(tmp_path / "tally.db", fill)


def list_attempts(app: App) -> list[tuple[str, str, bool]]:
    found = app.store.attempts.of("bean-counter")
    return [(each.agent, each.state, each.memoryless) for each in found]


def test_what_is_asked_stands_there_before_the_clock_starts(beans: App) -> None:
    page = browse_as(beans, "agent", "bob").get(PAGE).text
    for words in ("layers.json holds the sizes", "16 min 40 s from entering", "Correctness"):
        assert words in page, words
    assert 'class="emerald" x="0%" width="50%"' in page
    assert list_attempts(beans) == []


def test_an_agent_enters_for_itself_and_is_led_to_its_answer(beans: App) -> None:
    client = browse_as(beans, "agent", "bob")
    done = send(client, PAGE, "enter", memoryless="yes")
    assert done.status_code == 303
    assert client.get(done.headers["location"]).status_code == 200
    assert list_attempts(beans) == [("bob", "entered", True)]


def test_entering_again_gives_the_open_attempt_back(beans: App) -> None:
    client = browse_as(beans, "agent", "bob")
    first, again = (send(client, PAGE, "enter").headers["location"] for _ in range(2))
    assert first == again
    assert "Continue your open attempt" in client.get(PAGE).text


def test_an_agent_cannot_enter_as_another(beans: App) -> None:
    refused = send(browse_as(beans, "agent", "bob"), PAGE, "enter", agent="alice")
    assert refused.status_code == 403
    assert list_attempts(beans) == []


@pytest.mark.parametrize("role", ["viewer", "reporter"])
def test_who_does_not_compete_cannot_enter(beans: App, role: str) -> None:
    client = browse_as(beans, role)
    assert "cannot compete" in client.get(PAGE).text
    assert send(client, PAGE, "enter", agent="alice").status_code == 403
    assert list_attempts(beans) == []


@pytest.mark.parametrize("role", ["organiser", "owner"])
def test_an_organiser_and_the_owner_name_an_agent(beans: App, role: str) -> None:
    client = browse(beans) if role == "owner" else browse_as(beans, role)
    unnamed = send(client, PAGE, "enter")
    assert unnamed.status_code == 422
    assert "No agent is named" in unnamed.text
    assert send(client, PAGE, "enter", agent="alice").status_code == 303
    assert list_attempts(beans) == [("alice", "entered", False)]


def test_a_stranger_reads_a_public_one_and_is_asked_to_sign_in(tmp_path: Path) -> None:
    def fill(store: Store) -> None:
        publish_beans(store, visibility="public")

    app = open_app(tmp_path / "tally.db", fill)
    client = browse_as(app)
    assert "Sign in to enter" in client.get(PAGE).text
    assert send(client, PAGE, "enter", agent="bob").status_code == 401
    assert list_attempts(app) == []


def test_data_that_everybody_gets_is_not_shown_before_entering(beans: App) -> None:
    for client in (browse_as(beans, "agent", "bob"), browse(beans)):
        page = client.get(PAGE).text + client.get(f"{PAGE}?format=json").text
        assert "layers.json" in page
        assert "bean_ml&#34;: 0.5" not in page
        assert '"side"' not in page


def test_a_sample_of_generated_data_is_no_attempts_own(tmp_path: Path) -> None:
    folder = EXAMPLES / "log-detective"

    def fill(store: Store) -> None:
        store.challenges.publish(load_challenge(folder), pack(folder), at=NOW)

    app = open_app(tmp_path / "tally.db", fill)
    client = browse_as(app, "agent", "bob")
    page = "/challenges/log-detective/enter"
    (sample,) = client.get(f"{page}?format=json").json()["sample"]
    assert sample["name"] == "access.log"
    where = send(client, page, "enter").headers["location"]
    mine = client.get(f"{where}?file=access.log").text
    assert len(mine) > 1000
    assert not mine.startswith(sample["excerpt"])


def test_ones_own_attempts_are_listed_and_nobody_elses(beans: App) -> None:
    alice, bob = (browse_as(beans, "agent", name) for name in ("alice", "bob"))
    theirs = send(alice, PAGE, "enter").headers["location"]
    mine = send(bob, PAGE, "enter").headers["location"]
    shown = bob.get(f"{PAGE}?format=json&agent=alice").json()["attempts"]
    assert [f"/attempts/{each['id']}/answer" for each in shown] == [mine]
    assert theirs not in bob.get(PAGE).text


def test_what_cannot_be_entered_by_hand_says_why(client: TestClient) -> None:
    assert "reported by a trusted system" in client.get("/challenges/maze/enter").text
    assert "red against blue" in client.get("/challenges/guard/enter").text


def test_a_challenge_that_has_closed_cannot_be_entered(beans: App) -> None:
    client = browse_as(beans, "agent", "bob")
    sent = {"do": "enter", "csrf": find_token(client)}
    beans.store.challenges.close("bean-counter", at=NOW - 1, reason="over")
    assert "Entries are not possible now" in client.get(PAGE).text
    refused = client.post(PAGE, data=sent, headers={"Origin": ADDRESS})
    assert refused.status_code == 409
    assert list_attempts(beans) == []


def test_red_against_blue_is_told_in_its_own_terms(client: TestClient) -> None:
    command = client.get("/challenges/guard/enter?format=json").json()["command"]
    assert command == "tally versus submit guard FILE --agent NAME --side red"
    page = client.get("/challenges/guard/enter").text
    assert "red attacks, blue defends" in page
    for words in ("from entering", "attempt enter", "yours after you enter"):
        assert words not in page, words
