"""Agents of before handles: each gets one, in every table, and keeps its name as what is shown."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from tests.store.test_migrations import make_old

from tallymark.errors import InvalidInput
from tallymark.store import Store, open_store
from tallymark.store.database import parse_address

OLD = ["Acme Bot", "acme-bot", "a", "bob", "Bob ", "b\u200bob", "\x1b[2Jeve", "日本"]
"""Which is also the order in which they came."""
NEW = {
    "Acme Bot": ("acme-bot-2", "Acme Bot (acme-bot-2)"),
    "acme-bot": ("acme-bot", None),
    "a": ("agent-a", "a (agent-a)"),
    "bob": ("bob", None),
    "Bob ": ("bob-2", "Bob (bob-2)"),
    "b\u200bob": ("bob-3", "bob (bob-3)"),
    "\x1b[2Jeve": ("2jeve", "[2Jeve (2jeve)"),
    "日本": ("agent", "日本 (agent)"),
}
CHALLENGE = (
    '{"name": "sums", "title": "Sums", "goal": "Add.", "version": "v1",'
    ' "evaluator": {"type": "reported"}}'
)


def fill_old(url: str) -> None:
    """What version 0004 kept of agents, straight into its tables."""
    engine = create_engine(parse_address(url).url)
    with engine.begin() as connection:
        run: Any = lambda statement, **values: connection.execute(text(statement), values)  # noqa: E731
        facts = "'default', 'sums', 'v1', 0, 1, :definition"
        run(
            "INSERT INTO challenges (tenant, name, version, published_at, revision, definition)"
            f" VALUES ({facts})",
            definition=CHALLENGE,
        )
        run(
            "INSERT INTO challenge_versions (tenant, challenge_id, version, published_at,"
            " definition, packed) VALUES ('default', 1, 'v1', 0, :definition, :packed)",
            definition=CHALLENGE,
            packed=b"files",
        )
        run(
            "INSERT INTO scorings (tenant, challenge_id, at, why)"
            " VALUES ('default', 1, 0, 'finish')"
        )
        for number, agent in enumerate(OLD, 1):
            known = {"agent": agent, "key": number, "at": float(number), "yes": True, "no": False}
            scores = "challenge_id, agent, attempt, tenant, scoring, score, ranks, submitted_at"
            for name, values in {
                "attempts": (
                    ":key, 'default', 1, 1, :agent, 1, 'scored', 1, :at, 99, :at, :at, :no, :no"
                ),
                f"attempt_scores ({scores}, number, succeeded, result)": (
                    "1, :agent, :key, 'default', 1, :at, :yes, :at, 1, :yes, 'win'"
                ),
                "score_history": "1, :agent, :key, 'default', :at, :at, 'win', NULL",
                "boards": "1, :no, :agent, 'default', -:at, :at, :key, :at, :at, 1",
                "matches": (
                    ":key, 'default', :agent, 1, :key, NULL, :at, 'contender', 'win', :no, :no"
                ),
                "ratings": "'default', :agent, 1016, 1, 1, 0, 0",
                "rating_pairs": "'default', :agent, 1, 1, 0, 0",
                "versus_submissions": ":key, 'default', 1, 'v1', :agent, 'red', 1, :at, '', '1'",
            }.items():
                run(f"INSERT INTO {name} VALUES ({values})", **known)
    engine.dispose()


@pytest.fixture
def store(empty_url: str) -> Any:
    make_old(empty_url, "0004")
    fill_old(empty_url)
    with open_store(empty_url, upgrade=True) as opened:
        yield opened


def test_every_agent_has_a_handle_and_keeps_its_name(store: Store) -> None:
    handles = [NEW[each][0] for each in OLD]
    standings = store.boards.top("sums")
    assert [each.agent for each in standings] == handles[::-1]
    labels = store.agents.labels(handles)
    assert [labels.get(each) for each in handles] == [NEW[each][1] for each in OLD]


def test_all_that_was_theirs_still_is(store: Store) -> None:
    for number, old in enumerate(OLD, 1):
        handle = NEW[old][0]
        (attempt,) = store.attempts.of("sums", agent=handle)
        assert attempt.outcome is not None
        assert attempt.outcome.score == number
        assert len(store.attempts.history(attempt.id)) == 1
        assert store.ratings.of(handle).rating == 1016
    assert {each.agent for each in store.ratings.pairs()} == {new for new, _ in NEW.values()}
    assert {match.agent for match in store.ratings.matches()} == {new for new, _ in NEW.values()}
    assert [each.player for each in store.versus.submissions("sums")] == [
        NEW[each][0] for each in OLD
    ]


def test_logs_can_only_be_added_to_as_before(store: Store) -> None:
    with (
        pytest.raises(DBAPIError, match="score_history is only ever added to"),
        store._database.engine.begin() as connection,
    ):
        connection.execute(text("UPDATE score_history SET agent = 'eve'"))


def test_who_was_there_first_is_guarded(store: Store) -> None:
    with pytest.raises(InvalidInput, match="'B0b' looks like the agent 'bob'"):
        store.agents.name_agent("agent", "B0b", at=1.0)
