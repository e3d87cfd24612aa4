"""What rules do when something else happens at the worst moment: caps hold, nothing is set aside
for nobody, and what is said of costs is what they come to.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.app import rule_scorers
from tests.app.rule_samples import DAY, NOON, Desk, make_trace
from tests.app.test_rule_work import POLITE, judge

from tallymark.errors import Conflict
from tallymark.store import open_store
from tallymark.store.traces.trace_settings import TraceSettings

JUST_BEFORE = NOON + DAY / 2 - 1.0
"""A second before midnight UTC."""


@pytest.fixture
def desk(shared_url: str) -> Iterator[Desk]:
    with open_store(shared_url, tenant=uuid.uuid4().hex) as store:
        yield Desk(store)


def find_accounts(desk: Desk, name: str) -> list[tuple[int, float, int, float]]:
    return [
        (each.scored, round(each.spent, 6), each.reserved_count, each.reserved_cost)
        for each in desk.rules.spending(name)
    ]


def meanwhile(desk: Desk, name: str, happens: Callable[[], Any]) -> None:
    """Once, just before a step of whoever scores."""
    step = getattr(desk.store.decisions, name)

    def work(*args: Any, **more: Any) -> Any:
        setattr(desk.store.decisions, name, step)
        happens()
        return step(*args, **more)

    setattr(desk.store.decisions, name, work)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the judge was asked."""
    seen: list[str] = []
    answer = rule_scorers.judge_well

    def listen(prompt: str) -> dict[str, Any]:
        seen.append(prompt)
        return answer(prompt)

    monkeypatch.setattr(rule_scorers, "judge_well", listen)
    return seen


def test_nobody_is_asked_for_a_version_that_was_edited_meanwhile(
    desk: Desk, asked: list[str]
) -> None:
    rule = desk.rules.add(judge(cap_cost=1.0, reserve=0.01)).rule
    desk.load([make_trace(n) for n in range(3)])
    desk.work().decide()
    meanwhile(desk, "reserve", lambda: desk.rules.edit("kind", judge(cap_cost=0.02, reserve=0.01)))
    desk.work().score(rule.id)
    assert not asked
    desk.settle()
    assert len(asked) == 2
    assert find_accounts(desk, "kind") == [(2, 0.02, 0, 0.0)]
    assert desk.count("kind") == {"scored": 2, "filtered": 3, "capped": 1}


def test_nobody_is_asked_twice_by_two_who_took_the_same(desk: Desk, asked: list[str]) -> None:
    rule = desk.rules.add(judge(cap_cost=1.0, reserve=0.01)).rule
    desk.load([make_trace(n) for n in range(3)])
    desk.work().decide()
    meanwhile(desk, "reserve", lambda: desk.work().score(rule.id))
    desk.work().score(rule.id)
    assert len(asked) == 3
    assert find_accounts(desk, "kind") == [(3, 0.03, 0, 0.0)]


def test_a_rule_that_is_deleted_meanwhile_asks_nobody(desk: Desk, asked: list[str]) -> None:
    desk.load([make_trace(n) for n in range(3)])
    desk.settle()
    desk.rules.add(judge(cap_cost=1.0, reserve=0.01))
    made = desk.rules.start_backfill("kind", NOON, NOON + 100)
    meanwhile(desk, "reserve", lambda: desk.rules.archive("kind"))
    assert desk.work().backfill(made.id)["state"] == "superseded"
    assert not asked
    desk.rules.add(judge())  # its name is free
    assert desk.count("kind") == {}


def test_what_was_set_aside_for_a_trace_that_is_removed_is_given_up(desk: Desk) -> None:
    """The judge has been asked by then: it counts as spent, and others need not wait for it."""
    rule = desk.rules.add(judge(cap_cost=0.05, reserve=0.02)).rule
    desk.load([make_trace(n) for n in range(2)])
    desk.work().decide()

    def remove() -> None:
        keep = TraceSettings(keep_days=1.0)
        assert desk.store.traces.remove_outdated(keep, desk.clock() + 2 * DAY, 100) == 2

    meanwhile(desk, "settle", remove)
    desk.work().score(rule.id)
    assert find_accounts(desk, "kind") == [(0, 0.04, 0, 0.0)]
    desk.load([make_trace(n) for n in (7, 8)])
    desk.settle()
    assert desk.count("kind") == {"capped": 2}


def test_a_place_is_of_the_day_on_which_it_was_taken(desk: Desk) -> None:
    rule = desk.rules.add({**POLITE, "cap_count": 2}).rule
    desk.clock.now = JUST_BEFORE - 1.0
    desk.load([make_trace(n) for n in range(3)])
    desk.work().decide()
    meanwhile(desk, "settle", lambda: setattr(desk.clock, "now", JUST_BEFORE + 2.0))
    desk.work().score(rule.id)
    desk.load([make_trace(n) for n in (7, 8, 9)])
    desk.settle()
    assert [(each.day, each.scored) for each in desk.rules.spending("polite")] == [
        ("2026-01-02", 2),
        ("2026-01-01", 2),
    ]


def test_a_judge_who_does_not_say_what_it_cost_is_counted_by_what_was_set_aside(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = rule_scorers.judge_well("")
    plain = {name: value for name, value in said.items() if name == "output"}
    monkeypatch.setattr(rule_scorers, "judge_well", lambda _: plain)
    rule = judge(cap_cost=0.05, reserve=0.02)
    del rule["judge"]["pricing"]
    desk.rules.add(rule)
    desk.load([make_trace(n) for n in range(4)])
    desk.settle()
    assert desk.count("kind") == {"scored": 2, "capped": 2}
    assert find_accounts(desk, "kind") == [(2, 0.04, 0, 0.0)]


def test_a_backfill_costs_what_it_said(desk: Desk) -> None:
    """By what this version paid: the one before asked a judge of a tenth of the price."""
    cheap = judge()
    cheap["judge"]["pricing"] = {"input": 10.0, "output": 0.0}
    desk.rules.add(cheap)
    desk.load([make_trace(n) for n in range(12)])
    desk.settle()
    desk.rules.edit("kind", judge())
    said = desk.rules.preview_backfill("kind", NOON, NOON + 100)
    assert said.cost_by.startswith("prices, the length of 12 traces and a guess of 300 tokens")
    desk.load([make_trace(n) for n in range(20, 31)])
    desk.settle()
    said = desk.rules.preview_backfill("kind", NOON, NOON + 100)
    assert (said.to_score, said.cost_by) == (12, "the mean of 11 traces so far")
    done = desk.work().backfill(desk.rules.start_backfill("kind", NOON, NOON + 100).id)
    assert said.cost == pytest.approx(0.12)
    assert done["spent"] == pytest.approx(said.cost)


def test_a_backfill_by_a_scorer_that_is_paid_for_says_so(desk: Desk) -> None:
    desk.load([make_trace(n) for n in range(4)])
    desk.settle()
    desk.rules.add({**POLITE, "reserve": 0.5, "cap_cost": 100.0})
    said = desk.rules.preview_backfill("polite", NOON, NOON + 100)
    assert (said.cost, said.cost_by) == (2.0, "what is set aside for each")
    done = desk.work().backfill(desk.rules.start_backfill("polite", NOON, NOON + 100).id)
    assert done["spent"] == pytest.approx(2.0)


def test_of_two_backfills_that_are_started_at_once_one_is_refused(desk: Desk) -> None:
    desk.rules.add(POLITE)
    with pytest.raises(Conflict, match="has not ended"), ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: desk.rules.start_backfill("polite", NOON, NOON + 100), "ab"))
    assert len(desk.rules.backfills("polite")) == 1
