"""Agents: whose they are, and that what is done to them is in the log."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert
from tests.store.contest_samples import an_outcome, play, scored

from tallymark.errors import InvalidInput, NotFound
from tallymark.store import Store
from tallymark.store.contests.agents import _make_row, claim_agent
from tallymark.store.contests.tables import agents


def test_an_agent_is_nobodys_until_it_is_given(contest: Store) -> None:
    play(contest, "bot-a", an_outcome())
    assert contest.agents.get("bot-a").owner is None
    contest.agents.give("bot-a", "ann", at=20.0)
    found = contest.agents.get("bot-a")
    assert (found.owner, found.name, found.created_at) == ("ann", "bot-a", 10.0)
    contest.agents.give("bot-a", None, at=30.0)
    assert contest.agents.get("bot-a").owner is None


def test_agents_are_listed_page_by_page_and_by_owner(contest: Store) -> None:
    for agent in ("bot-c", "bot-a", "bot-b"):
        play(contest, agent, an_outcome())
    contest.agents.give("bot-b", "ann", at=20.0)
    contest.disqualifications.disqualify("bot-c", at=30.0, reason="a test")
    assert [each.handle for each in contest.agents.all(limit=2)] == ["bot-a", "bot-b"]
    (last,) = contest.agents.all(after="bot-b")
    assert (last.handle, last.disqualified_at) == ("bot-c", 30.0)
    assert [each.handle for each in contest.agents.all(owner="ann")] == ["bot-b"]


def test_what_is_done_to_an_agent_is_in_the_log(contest: Store) -> None:
    play(contest, "bot-a", an_outcome())
    contest.agents.give("bot-a", "ann", at=20.0)
    contest.agents.give("bot-a", "ann", at=21.0)
    contest.agents.name_agent("bot-a", "Ann's bot", at=22.0)
    named, given = contest.audit_log.entries(agent="bot-a")
    assert (given.event, given.at) == ("agent given", 20.0)
    assert given.note == {"owner": "ann", "before": None}
    assert (named.event, named.note) == ("agent named", {"name": "Ann's bot"})


@pytest.mark.parametrize("handle", ["operator", "organiser", "admin", "anonymous", "0perator"])
def test_no_new_agent_is_called_what_the_log_calls_others(contest: Store, handle: str) -> None:
    ways = (
        lambda: play(contest, handle, an_outcome()),
        lambda: contest.attempts.load("sums", [scored(handle, an_outcome())], at=20.0),
        lambda: contest._database.write(
            lambda connection: claim_agent(connection, contest.tenant, handle, owner="ann", at=1.0)
        ),
    )
    for way in ways:
        with pytest.raises(
            InvalidInput, match=f"'{handle}' cannot be the handle of an agent: logs"
        ):
            way()


def test_an_agent_that_was_called_operator_before_goes_on(contest: Store) -> None:
    made = insert(agents).values(_make_row(contest.tenant, "operator", 1.0))
    contest._database.write(lambda connection: connection.execute(made))
    play(contest, "operator", an_outcome(), 30.0)
    contest.attempts.load("sums", [scored("operator", an_outcome())], at=40.0)
    contest.agents.name_agent("operator", "Ann's bot", at=50.0)
    assert contest.agents.get("operator").name == "Ann's bot"


def test_an_agent_of_another_tenant_is_not_there(contests: Any) -> None:
    with contests() as here, contests() as there:
        play(here, "bot-a", an_outcome())
        unknown = "there is no agent 'bot-a'"
        with pytest.raises(NotFound, match=unknown):
            there.agents.get("bot-a")
        with pytest.raises(NotFound, match=unknown):
            there.agents.give("bot-a", "eve", at=20.0)
        with pytest.raises(NotFound, match=unknown):
            there.agents.name_agent("bot-a", "Eve", at=20.0)
        assert here.agents.get("bot-a").owner is None
