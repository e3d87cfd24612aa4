"""Rules whose judge hangs, refuses for ever, or is paid and says nothing: by a server that does so.

Each request may cost a cent, whether its answer comes or not: what the server counts is the bill.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.scorers.local_server import LocalServer, Reply, serving
from tests.service.rule_samples import DAY, NOON, Desk, make_trace

from tallymark.models.token_count import count_tokens
from tallymark.service import rule_work
from tallymark.store import open_store

CENT = 0.01
HANG = Reply(hangs=True)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serving() as found:
        yield found


@pytest.fixture
def judge(server: LocalServer) -> LocalServer:
    for kept in (server.bodies, server.headers, server.paths):
        kept.clear()
    return server


@pytest.fixture
def desk(shared_url: str) -> Iterator[Desk]:
    with open_store(shared_url, tenant=uuid.uuid4().hex) as store:
        yield Desk(store)


def make_rule(judge: LocalServer, *, timeout: float = 60.0, **more: Any) -> dict[str, Any]:
    """A short timeout is for a judge that hangs: on a busy machine, others would look so too."""
    asked = {
        "rubric": "Is it polite?",
        "model": f"{judge.url}/v1#judge",
        "pricing": {"input": 100.0, "output": 0.0},
        "timeout": timeout,
    }
    return {"name": "kind", "judge": asked, "reserve": CENT, **more}


def say(content: str) -> Reply:
    """For a cent."""
    usage = {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100}
    choice = {"index": 0, "message": {"role": "assistant", "content": content}}
    return Reply({"choices": [choice], "usage": usage, "model": "judge"})


VERDICT = say('{"reasoning": "because", "choice": "met"}')


def go_on(desk: Desk, rounds: int, pause: float = DAY / 100) -> None:
    """All that is to be done, time and again."""
    (rule,) = desk.store.rules.list()
    desk.work().decide()
    for _ in range(rounds):
        if (desk.store.rules.get("kind").again_at or 0.0) <= desk.clock():
            desk.work().score(rule.id)
        desk.clock.now += pause


def find_spent(desk: Desk) -> float:
    """Nothing is set aside for what has ended."""
    days = desk.rules.spending("kind").days
    assert not any(each.reserved_count or each.reserved_cost for each in days)
    return sum(each.spent for each in days)


def test_a_judge_that_hangs_is_counted_as_paid_until_the_cap_ends_it(
    desk: Desk, judge: LocalServer
) -> None:
    judge.will(HANG)
    desk.rules.add(make_rule(judge, cap_cost=3 * CENT, timeout=0.05))
    desk.load([make_trace(n) for n in range(2)])
    go_on(desk, 1)
    found = desk.rules.decisions("kind")
    assert {each.decision for each in found} == {"waiting"}
    assert all("did not answer in 0.05 s" in each.reason for each in found)
    assert all(each.reason.endswith("counts as spent") for each in found)
    assert [each.cost for each in found] == [CENT, CENT]
    go_on(desk, 9)
    assert desk.count("kind") == {"capped": 2}
    assert find_spent(desk) == pytest.approx(3 * CENT)
    assert len(judge.bodies) == 3


def test_a_judge_that_refuses_for_ever_costs_nothing_and_is_left_alone(
    desk: Desk, judge: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_work, "_MOST_TRIES", 3)
    judge.will(Reply({"error": "slow down"}, 429, headers={"Retry-After": "3600"}))
    desk.rules.add(make_rule(judge, cap_cost=CENT))
    desk.load([make_trace(n) for n in range(3)])
    go_on(desk, 1, pause=0.0)
    told = desk.rules.get("kind")
    assert "429" in (told.trouble or "")
    assert told.again_at == desk.clock() + 3600
    asked = len(judge.bodies)
    go_on(desk, 1)
    go_on(desk, 1, pause=DAY)
    assert len(judge.bodies) == asked  # the hour was not over
    go_on(desk, 1, pause=DAY)
    assert len(judge.bodies) == asked + 1  # about one, to see whether it answers
    go_on(desk, 12, pause=DAY)
    assert (desk.count("kind"), find_spent(desk)) == ({"failed": 3}, 0.0)
    assert all("429" in each.reason for each in desk.rules.decisions("kind"))


def test_an_answer_that_was_paid_before_a_refusal_is_counted(
    desk: Desk, judge: LocalServer
) -> None:
    judge.will(say("What a nice day."), Reply(b"", 429, headers={"Retry-After": "60"}), VERDICT)
    desk.rules.add(make_rule(judge, cap_cost=5 * CENT))
    desk.load([make_trace(1)])
    go_on(desk, 1)
    (waiting,) = desk.rules.decisions("kind")
    assert waiting.decision == "waiting"
    assert waiting.cost == pytest.approx(CENT)
    go_on(desk, 1)
    assert desk.count("kind") == {"scored": 1}
    assert find_spent(desk) == pytest.approx(2 * CENT)
    assert desk.rules.get("kind").trouble is None


def test_two_workers_at_a_judge_that_answers_now_and_then_pay_no_more_than_the_cap(
    desk: Desk, judge: LocalServer
) -> None:
    judge.will(HANG, VERDICT, Reply(b"{", 200), say("no"), VERDICT, HANG, say("no"), HANG, VERDICT)
    made = make_rule(judge, cap_cost=12 * CENT, reserve=2 * CENT, timeout=0.05)
    rule = desk.add_rule(made)
    desk.load([make_trace(n) for n in range(8)])
    desk.work().decide()
    with ThreadPoolExecutor(2) as threads:
        for _ in range(6):
            list(threads.map(lambda _: desk.work().score(rule.id), "ab"))
            desk.clock.now += 900.0
    assert "waiting" not in desk.count("kind")
    assert len(judge.bodies) * CENT <= find_spent(desk) + 1e-9 <= 12 * CENT + 2e-9


@pytest.mark.parametrize("answer", ["It was sent on Monday. " * 50, "包裹已于星期一寄出。" * 50])
def test_what_a_backfill_says_first_is_what_tokens_cost(
    desk: Desk, judge: LocalServer, answer: str
) -> None:
    """By the tokens of what the judge was really sent, and of an answer as is guessed."""
    judge.will(VERDICT)
    desk.load([make_trace(n, answer=answer) for n in range(4)])
    desk.settle()
    rule = make_rule(judge)
    del rule["reserve"]
    rule["judge"] |= {"pricing": {"input": 1.0, "output": 4.0}}
    desk.rules.add(rule)
    said = desk.rules.preview_backfill("kind", NOON, NOON + 100)
    desk.work().backfill(desk.start_backfill("kind", NOON, NOON + 100).id)
    sent = sum(count_tokens(each["content"]) for body in judge.bodies for each in body["messages"])
    assert said.cost == pytest.approx((sent * 1.0 + 4 * 300 * 4.0) / 1e6, rel=0.1)
    assert said.cost_by == (
        "prices, the length of 4 traces and a guess of 300 tokens for an answer"
    )
