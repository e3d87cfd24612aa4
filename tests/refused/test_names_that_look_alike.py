"""No agent can be taken for another: by its handle, by its name, through whatever door."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.store.contest_samples import a_challenge, an_outcome, quick_store, scored

from tallymark.challenges.attempt import Metrics, Payload
from tallymark.challenges.challenge import Versus, VersusJudge
from tallymark.errors import InvalidInput
from tallymark.store import Store

GUARD = a_challenge(
    name="guard",
    kind="versus",
    versus=Versus(categories=("leak",), judge=VersusJudge(type="script")),
)


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with quick_store(empty_url) as opened:
        opened.challenges.publish(a_challenge(), b"files", at=0.0)
        opened.challenges.publish(GUARD, b"files", at=0.0)
        opened.attempts.enter("sums", "acme", at=1.0, seed=1)
        yield opened


DOORS: dict[str, Callable[[Store, str], object]] = {
    "enter": lambda store, agent: store.attempts.enter("sums", agent, at=2.0, seed=1),
    "report": lambda store, agent: store.attempts.report(
        "sums", agent, Payload(), Metrics(), at=2.0
    ),
    "load": lambda store, agent: store.attempts.load("sums", [scored(agent, an_outcome())], at=2.0),
    "versus": lambda store, agent: store.versus.submit("guard", agent, "red", "x", at=2.0),
}


NO_HANDLES = [
    *("Acme", "acme ", "acme\u200b", "\x1b[31macme", "acme\u202e", "acme.", "-acme", "..", "a"),
    *("\u0430cme", "x" * 41, "system", ""),  # the first begins with a Cyrillic letter
]


def test_no_door_lets_in_what_is_no_handle(store: Store) -> None:
    for enter in DOORS.values():
        for name in NO_HANDLES:
            with pytest.raises(InvalidInput, match="is no handle of an agent; take '"):
                enter(store, name)


def test_no_door_lets_in_the_twin_of_another(store: Store) -> None:
    twins = {"b0b": "bob", "bernie": "bemie", "acme-bot_2": "acme_bot-2", "team.1": "team.l"}
    for known in twins.values():
        DOORS["enter"](store, known)
    for door, enter in DOORS.items():
        enter(store, "bob")
        for twin, known in twins.items():
            with pytest.raises(InvalidInput, match=f"'{twin}' looks like the agent '{known}'"):
                enter(store, twin)
        assert [each.agent for each in store.attempts.of("sums") if each.agent in twins] == [], door


def test_of_twins_that_race_one_gets_in(store: Store) -> None:
    refused: list[str] = []

    def enter(handle: str) -> None:
        try:
            store.attempts.enter("sums", handle, at=2.0, seed=1)
        except InvalidInput:
            refused.append(handle)

    twins = [threading.Thread(target=enter, args=(each,)) for each in ("b0b", "bob", "bob", "b0b")]
    for each in twins:
        each.start()
    for each in twins:
        each.join()
    assert refused in (["bob", "bob"], ["b0b", "b0b"])


def test_a_name_that_looks_like_another_agents_is_refused(store: Store) -> None:
    store.attempts.enter("sums", "mallory", at=2.0, seed=1)
    for name in (
        "Acme",
        "ACME",
        "Acm\u00e9",
        "\u0410\u0421\u041c\u0415",  # all Cyrillic
    ):
        with pytest.raises(InvalidInput, match=f"'{name}' looks like the agent 'acme'"):
            store.agents.name_agent("mallory", name, at=1.0)
    with pytest.raises(InvalidInput, match="mixes letters of several scripts"):
        store.agents.name_agent("mallory", "\u0391cme", at=1.0)  # a Greek alpha
    store.agents.name_agent("acme", "Globe Bot", at=1.0)
    with pytest.raises(InvalidInput, match="'Gl0be Bot' looks like the agent 'acme'"):
        store.agents.name_agent("mallory", "Gl0be Bot", at=1.0)
    assert store.agents.labels(["mallory"]) == {}


def test_a_name_that_is_taken_cannot_be_entered_as_a_handle(store: Store) -> None:
    store.agents.name_agent("acme", "Globe Bot", at=1.0)
    with pytest.raises(InvalidInput, match="'globe-bot' looks like the agent 'acme'"):
        store.attempts.enter("sums", "globe-bot", at=2.0, seed=1)
    store.agents.name_agent("acme", "Acme", at=1.0)
    store.attempts.enter("sums", "globe-bot", at=2.0, seed=1)


def test_other_names_are_free(store: Store) -> None:
    for name in ("Acme Corp.", "Ünïted Agents & Söhne", "日本 Bot 2", "Ελλάς", "R2-D2"):
        store.agents.name_agent("acme", name, at=1.0)
        assert store.agents.labels(["acme"]) == {"acme": f"{name} (acme)"}


def test_who_is_not_there_cannot_be_named(store: Store) -> None:
    with pytest.raises(InvalidInput, match="there is no agent 'nobody'"):
        store.agents.name_agent("nobody", "Somebody", at=1.0)
