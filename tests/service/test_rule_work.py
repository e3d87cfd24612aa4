"""Rules at work: each trace version once by each rule version, caps that hold, nothing lost."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.service.rule_samples import DAY, NOON, Desk, make_trace

from tallymark.service.rule_scoring import make_context
from tallymark.service.rule_work import is_drawn
from tallymark.store import open_store
from tallymark.store.traces.trace_scores import StoredScore
from tallymark.traces.trace_query import TraceQuery

POLITE = {"name": "polite", "scorer": 'contains(values=["sorry"])'}
PRICES = {"input": 100.0, "output": 0.0}
"""Of a judge of ours, in dollars for a million tokens."""


@pytest.fixture
def desk(shared_url: str) -> Iterator[Desk]:
    with open_store(shared_url, tenant=uuid.uuid4().hex) as store:
        yield Desk(store)


@pytest.fixture(scope="module")
def lone_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("rules") / "tally.db")


@pytest.fixture
def lone(lone_url: str) -> Iterator[Desk]:
    """Where it is the same on every database."""
    with open_store(lone_url, tenant=uuid.uuid4().hex) as store:
        yield Desk(store)


def test_traces_are_scored_as_they_come(desk: Desk) -> None:
    desk.rules.add(POLITE)
    desk.load([make_trace(1), make_trace(2, answer="no")])
    desk.settle()
    assert desk.count("polite") == {"scored": 2}
    assert desk.values("polite") == [1.0, 0.0]


def test_a_trace_is_scored_once(lone: Desk) -> None:
    rule = lone.add_rule(POLITE)
    lone.load([make_trace(1)])
    lone.settle()
    assert lone.work().decide() == {"traces": 0, "waiting": 0}
    assert lone.work().score(rule.id) == 0


def test_two_who_score_the_same_store_it_once(desk: Desk) -> None:
    """One whose lease ran out goes on beside the other who took over."""
    rule = desk.add_rule(POLITE)
    desk.load([make_trace(n) for n in range(20)])
    desk.work().decide()
    together = threading.Barrier(2)
    due = desk.store.rule_outcomes.due

    def find_due(*args: Any, **more: Any) -> Any:
        found = due(*args, **more)
        if found:
            together.wait(30)
        return found

    desk.store.rule_outcomes.due = find_due  # type: ignore[method-assign]
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda: done.append(desk.work().score(rule.id))) for _ in "ab"
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(done) == 20
    assert desk.count("polite") == {"scored": 20}


def load_scores(desk: Desk, value: float) -> None:
    """As a file brings them: scores by the rule of all traces, and no decisions."""
    rule = desk.store.rules.get("polite")
    desk.store.loads.scores(
        [
            StoredScore(
                trace=each.key,
                version=each.version,
                rule_version=rule.version_id,
                rule=rule.id,
                name="polite",
                value=value,
                at=NOON,
                started_at=each.started_at,
            )
            for each in desk.store.traces.page(TraceQuery(), limit=1000).items
        ],
        [],
    )


def test_scores_that_were_loaded_stay_and_what_is_new_is_scored(desk: Desk) -> None:
    desk.rules.add(POLITE)
    desk.load([make_trace(n) for n in range(6)])
    load_scores(desk, 0.25)
    desk.load([make_trace(6)])
    desk.settle()
    assert desk.count("polite") == {"scored": 7}
    assert desk.values("polite") == [0.25] * 6 + [1.0]


def test_a_backfill_keeps_scores_that_were_loaded(desk: Desk) -> None:
    desk.load([make_trace(n) for n in range(6)])
    desk.settle()
    desk.rules.add(POLITE)
    load_scores(desk, 0.25)
    desk.load([make_trace(n) for n in range(6, 12)])
    done = desk.work().backfill(desk.start_backfill("polite", NOON, NOON + 100).id)
    assert (done["state"], done["scored"]) == ("done", 12)
    assert desk.values("polite") == [0.25] * 6 + [1.0] * 6


def test_late_spans_count_instead_of_a_score_that_was_loaded(desk: Desk) -> None:
    desk.rules.add(POLITE)
    desk.load([make_trace(1)])
    load_scores(desk, 0.25)
    desk.load([make_trace(1, spans=2)])
    desk.settle()
    assert desk.values("polite") == [1.0]


def test_late_spans_make_a_version_that_is_scored_again(desk: Desk) -> None:
    desk.rules.add(POLITE)
    desk.load([make_trace(1, answer="no")])
    desk.settle()
    desk.load([make_trace(1, spans=2)])
    desk.settle()
    found = desk.rules.decisions("polite")
    assert [(each.trace_version, each.decision) for each in found] == [(2, "scored"), (1, "scored")]
    key = desk.store.traces.get(make_trace(1).trace_id).key
    scores = desk.store.traces.scores([key], all_of_them=True)[key]
    assert [(each.version, each.is_current) for each in scores] == [(1, False), (2, True)]


def test_a_quiet_time_of_its_own_is_waited_for(lone: Desk) -> None:
    rule = lone.add_rule({**POLITE, "quiet": 60})
    lone.load([make_trace(1)])
    lone.settle()
    assert lone.count("polite") == {"waiting": 1}
    lone.clock.now += 60
    assert lone.work().score(rule.id) == 1


def test_what_is_late_within_the_quiet_time_is_scored_as_one(desk: Desk) -> None:
    desk.rules.add({**POLITE, "quiet": 60})
    desk.load([make_trace(1, answer="no")])
    desk.settle()
    desk.load([make_trace(1, spans=2)])
    desk.clock.now += 61
    desk.settle()
    found = {each.trace_version: each for each in desk.rules.decisions("polite")}
    assert (found[1].decision, found[2].decision) == ("filtered", "scored")
    assert found[1].reason == "new spans came before this was scored: version 2 counts"


def test_a_filter_says_which_traces(desk: Desk) -> None:
    desk.rules.add({**POLITE, "filter": "cost>0.05"})
    desk.load([make_trace(1), make_trace(2, cost=0.1)])
    desk.settle()
    found = {each.trace: each for each in desk.rules.decisions("polite")}
    assert found[make_trace(1).trace_id].reason == "it does not meet the filter"
    assert found[make_trace(2).trace_id].reason == "every trace that meets the filter"
    assert desk.count("polite") == {"scored": 1, "filtered": 1}


def test_those_of_a_lower_rate_are_among_those_of_a_higher(lone: Desk) -> None:
    lone.rules.add({**POLITE, "rate": 30})
    lone.rules.add({**POLITE, "name": "rarely", "rate": 10})
    lone.load([make_trace(n) for n in range(100)])
    lone.settle()

    def find_scored(name: str) -> set[str]:
        found = lone.rules.decisions(name, decision="scored", limit=100)
        return {each.trace for each in found}

    assert 0 < len(find_scored("rarely")) < len(find_scored("polite")) < 60
    assert find_scored("rarely") < find_scored("polite")
    assert sum(lone.count("rarely").values()) == 100


def test_nothing_and_everything_is_drawn_at_the_ends() -> None:
    ids = [f"{n:032x}" for n in range(200)]
    assert not any(is_drawn(each, 0) for each in ids)
    assert all(is_drawn(each, 100) for each in ids)
    assert 20 < sum(is_drawn(each, 20) for each in ids) < 60


def test_a_cap_in_count_holds_and_is_new_every_day(desk: Desk) -> None:
    desk.rules.add({**POLITE, "cap_count": 3})
    desk.load([make_trace(n) for n in range(5)])
    desk.settle()
    assert desk.count("polite") == {"scored": 3, "capped": 2}
    (capped,) = desk.rules.decisions("polite", decision="capped", limit=1)
    assert capped.reason == "the cap of 3 traces a day is reached on 2026-01-01"
    desk.clock.now += DAY
    desk.load([make_trace(9)])
    desk.settle()
    assert desk.count("polite")["scored"] == 4


def test_a_cap_holds_among_many_who_reserve_at_once(desk: Desk) -> None:
    """Two rules' workers cannot both take the last place: it is given under a lock."""
    rule = desk.add_rule({**POLITE, "cap_count": 7})
    desk.load([make_trace(n) for n in range(40)])
    desk.work().decide()
    due = desk.store.rule_outcomes.due(rule, now=desk.clock(), limit=40)
    granted: list[int] = []

    def reserve(part: Any) -> None:
        found = desk.store.rule_outcomes.reserve(
            rule, [(each, 0.0) for each in part], now=desk.clock()
        )
        granted.append(len(found.traces))

    threads = [threading.Thread(target=reserve, args=(due[n::4],)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(granted) == 7


def test_a_formula_is_over_the_numbers_of_the_trace(desk: Desk) -> None:
    desk.rules.add({"name": "thrift", "formula": "1 - min(1, cost * 10) - failed + errors"})
    desk.load([make_trace(1, cost=0.02)])
    desk.settle()
    assert desk.values("thrift") == [pytest.approx(0.8)]


def test_an_undefined_formula_fails_and_is_no_zero(lone: Desk) -> None:
    lone.rules.add({"name": "ratio", "formula": "cost / tool_calls"})
    lone.rules.add({"name": "known", "formula": "cost / tool_calls", "undefined": 0})
    lone.load([make_trace(1)])
    lone.settle()
    (failed,) = lone.rules.decisions("ratio")
    assert failed.decision == "failed"
    assert "tool_calls" in failed.reason
    assert (lone.values("ratio"), lone.values("known")) == ([None], [0.0])


def test_a_scorer_that_fails_is_no_zero(lone: Desk) -> None:
    lone.rules.add({"name": "broken", "scorer": "tests.service.rule_scorers:raising"})
    lone.load([make_trace(1)])
    lone.settle()
    (failed,) = lone.rules.decisions("broken")
    assert (
        failed.reason == "raising raised ValueError: not today (at rule_scorers.py:17 in raising)"
    )
    assert lone.values("broken") == [None]


def test_several_scores_of_one_call_have_names_of_their_own(lone: Desk) -> None:
    lone.rules.add({"name": "tone", "scorer": "tests.service.rule_scorers:several"})
    lone.load([make_trace(1)])
    lone.settle()
    assert lone.values("tone.kind") == [0.25]
    assert lone.values("tone.short") == [0.75]


def test_a_composite_is_one_score_of_several(lone: Desk) -> None:
    parts = [{"scorer": 'contains(values=["sorry"])', "weight": 3}, 'regex_match(pattern="x")']
    lone.rules.add({"name": "both", "composite": {"parts": parts}})
    lone.load([make_trace(1)])
    lone.settle()
    assert lone.values("both") == [0.75]


def test_editing_makes_a_version_and_empties_nothing(desk: Desk) -> None:
    desk.rules.add(POLITE)
    desk.load([make_trace(1)])
    desk.settle()
    changed = desk.rules.edit("polite", {"scorer": 'contains(values=["help"])'})
    assert changed.version == 2
    desk.load([make_trace(2)])
    desk.settle()
    assert desk.values("polite") == [1.0, 0.0]
    assert [each.number for each in desk.rules.get("polite").versions] == [2, 1]


def test_what_waits_when_a_rule_is_edited_is_scored_by_the_new_version(desk: Desk) -> None:
    desk.rules.add({**POLITE, "quiet": 60})
    desk.load([make_trace(1)])
    desk.settle()
    desk.rules.edit("polite", {"scorer": 'contains(values=["help"])'})
    desk.settle()
    found = desk.rules.decisions("polite", limit=2)
    assert {(each.rule_version, each.decision) for each in found} == {
        (1, "filtered"),
        (2, "scored"),
    }
    assert desk.values("polite") == [0.0]


def test_saying_the_same_again_is_no_new_version(lone: Desk) -> None:
    lone.rules.add(POLITE)
    assert lone.rules.edit("polite", POLITE).version == 1


def test_a_paused_rule_neither_looks_nor_scores(lone: Desk) -> None:
    lone.rules.add({**POLITE, "quiet": 60})
    lone.load([make_trace(1)])
    lone.settle()
    lone.rules.pause("polite")
    lone.load([make_trace(2)])
    lone.clock.now += 120
    assert lone.queue() == ["decide"]  # the trace that came is looked at by all others
    lone.settle()
    assert lone.count("polite") == {"waiting": 1}
    lone.rules.resume("polite")
    lone.settle()
    assert lone.count("polite") == {"scored": 1}


def test_an_archived_rule_is_gone_and_its_scores_stay(lone: Desk) -> None:
    lone.rules.add(POLITE)
    lone.load([make_trace(1)])
    lone.settle()
    lone.rules.archive("polite")
    assert lone.rules.list().items == []
    assert lone.values("polite") == [1.0]
    assert lone.rules.add(POLITE).version == 1


def test_only_what_is_due_is_queued(desk: Desk) -> None:
    desk.rules.add({**POLITE, "quiet": 60})
    desk.load([make_trace(1)])
    assert desk.queue() == ["decide"]
    desk.work().decide()
    assert desk.queue() == []
    desk.clock.now += 61
    assert desk.queue() == ["rule"]
    assert desk.queue() == []  # it is queued already


# Judges: what they cost is set aside before, and counted after


def judge(reply: str = "judge_well", **more: Any) -> dict[str, Any]:
    model = f"python/tests.service.rule_scorers:{reply}"
    asked = {"rubric": "Is it polite?", "model": model, "pricing": PRICES, "max_tokens": 1000}
    return {"name": "kind", "judge": asked, **more}


def test_a_judge_is_asked_and_paid(desk: Desk) -> None:
    desk.rules.add(judge())
    desk.load([make_trace(1), make_trace(2)])
    desk.settle()
    assert desk.count("kind") == {"scored": 2}
    (today,) = desk.rules.spending("kind").days
    assert today.spent == pytest.approx(0.02)
    assert (today.reserved_count, today.reserved_cost) == (0, 0)
    assert [each.cost for each in desk.rules.decisions("kind")] == [0.01, 0.01]


def test_a_cap_in_money_is_never_passed(desk: Desk) -> None:
    """Each verdict costs a cent: what is set aside for one is less, so five fit into 5 cents."""
    desk.rules.add(judge(cap_cost=0.05, reserve=0.01))
    desk.load([make_trace(n) for n in range(9)])
    desk.settle()
    assert desk.count("kind") == {"scored": 5, "capped": 4}
    (today,) = desk.rules.spending("kind").days
    assert today.spent == pytest.approx(0.05)
    (capped, *_) = desk.rules.decisions("kind", decision="capped")
    assert "$0.0500 is spent" in capped.reason


def test_what_the_dead_had_set_aside_counts_as_spent(desk: Desk) -> None:
    """Nobody knows whether the judge was asked; a cap that forgot it would not hold."""
    rule = desk.add_rule(judge(cap_cost=0.05, reserve=0.01))
    desk.load([make_trace(n) for n in range(9)])
    desk.work().decide()
    due = desk.store.rule_outcomes.due(rule, now=desk.clock(), limit=3)
    desk.store.rule_outcomes.reserve(rule, [(each, 0.01) for each in due], now=desk.clock())
    desk.settle()  # whoever takes over
    (today,) = desk.rules.spending("kind").days
    assert today.spent == pytest.approx(0.05)
    assert today.scored == 2
    assert (today.reserved_count, today.reserved_cost) == (0, 0)


def test_prices_say_what_a_verdict_can_cost_at_most(lone: Desk) -> None:
    rule = lone.add_rule(judge(cap_cost=1.0))
    lone.load([make_trace(1)])
    lone.work().decide()
    _, _, scoring = lone.rules._check(judge(cap_cost=1.0))
    amount = scoring.find_amount(make_context(make_trace(1)))
    # Asked twice at most, each time a few thousand bytes, which are no more tokens.
    assert 2 * 0.1 < amount < 2 * 0.5
    due = lone.store.rule_outcomes.due(rule, now=lone.clock(), limit=1)
    granted = lone.store.rule_outcomes.reserve(rule, [(due[0], amount)], now=lone.clock())
    assert granted.traces[0].reserved == amount


def test_a_judge_that_does_not_answer_is_asked_again_later(lone: Desk) -> None:
    lone.rules.add(judge("refuse_once"))
    lone.load([make_trace(1)])
    lone.settle()
    assert lone.count("kind") == {"waiting": 1}
    (waiting,) = lone.rules.decisions("kind")
    assert "did not answer" in waiting.reason
    told = lone.rules.get("kind")
    assert told.trouble is not None
    assert told.again_at == lone.clock() + 2
    assert lone.queue() == []
    lone.clock.now += 3
    assert lone.queue() == ["rule"]
    lone.settle()
    assert lone.count("kind") == {"scored": 1}
    assert lone.rules.get("kind").trouble is None


def test_a_rule_that_cannot_be_opened_says_so_and_waits(lone: Desk) -> None:
    lone.rules.add(judge())
    lone.load([make_trace(1)])
    lone.work().decide()
    sent = lone.store.rules.get("kind")
    gone = msgspec.structs.replace(sent.definition, scorer="nothing_here", judge=None)
    lone.store.rules.edit("kind", gone, at=lone.clock())
    lone.settle()
    assert "there is no scorer 'nothing_here'" in (lone.rules.get("kind").trouble or "")
    assert lone.count("kind")["waiting"] == 1


# Backfills


def test_a_backfill_says_its_count_first_and_scores_what_is_kept(desk: Desk) -> None:
    desk.load([make_trace(n, cost=0.1 if n < 6 else 0.01) for n in range(10)])
    desk.settle()
    desk.rules.add({**POLITE, "filter": "cost>0.05"})
    said = desk.rules.preview_backfill("polite", NOON, NOON + 8)
    assert (said.traces, said.filtered, said.to_score, said.cost) == (8, 2, 6, 0.0)
    assert desk.count("polite") == {}
    made = desk.start_backfill("polite", NOON, NOON + 8)
    done = desk.work().backfill(made.id)
    assert (done["state"], done["scored"], done["filtered"]) == ("done", 6, 2)
    assert desk.count("polite") == {"scored": 6, "filtered": 2}
    again = desk.rules.preview_backfill("polite", NOON, NOON + 8)
    assert (again.to_score, again.decided) == (0, 6)


def test_a_backfill_goes_on_where_another_left_it(lone: Desk) -> None:
    lone.load([make_trace(n) for n in range(30)])
    lone.settle()
    lone.rules.add(POLITE)
    made = lone.start_backfill("polite", NOON, NOON + 100)
    left = lone.work(seconds=0.0).backfill(made.id)  # its time was over at once
    assert left["status"] == "queued"
    done = lone.work().backfill(made.id)
    assert (done["queued"], done["scored"]) == (30, 30)


def test_a_backfill_is_capped_and_takes_up_again_what_was(desk: Desk) -> None:
    desk.load([make_trace(n) for n in range(5)])
    desk.settle()
    desk.rules.add({**POLITE, "cap_count": 3})
    said = desk.rules.preview_backfill("polite", NOON, NOON + 100)
    assert (said.to_score, said.left_count) == (5, 3)
    first = desk.work().backfill(desk.start_backfill("polite", NOON, NOON + 100).id)
    assert (first["scored"], first["capped"]) == (3, 2)
    desk.clock.now += DAY
    second = desk.work().backfill(desk.start_backfill("polite", NOON, NOON + 100).id)
    assert (second["queued"], second["scored"]) == (2, 2)


def test_a_backfill_of_a_judge_says_what_it_may_cost(lone: Desk) -> None:
    lone.load([make_trace(n) for n in range(12)])
    lone.settle()
    lone.rules.add(judge())
    said = lone.rules.preview_backfill("kind", NOON, NOON + 100)
    assert said.cost is not None
    assert 12 * 0.01 < said.cost < 12 * 0.2
    assert said.cost_by.startswith("prices, the length of 12 traces and a guess of 300 tokens")
    lone.work().backfill(lone.start_backfill("kind", NOON, NOON + 100).id)
    lone.load([make_trace(n) for n in range(50, 60)])
    paid = lone.rules.preview_backfill("kind", NOON, NOON + 100)
    assert paid.cost == pytest.approx(0.1)
    assert paid.cost_by == "the mean of 12 traces so far"


def test_a_cancelled_backfill_leaves_nothing_waiting(desk: Desk) -> None:
    desk.load([make_trace(n) for n in range(5)])
    desk.settle()
    rule = desk.add_rule({**POLITE, "quiet": 600})
    made = desk.start_backfill("polite", NOON, NOON + 100)
    assert desk.work().backfill(made.id)["status"] == "queued"
    assert desk.store.rule_outcomes.count_waiting(rule, made.id) == 5
    desk.store.backfills.end(made.id, "cancelled")
    assert desk.work().backfill(made.id)["status"] == "cancelled"
    assert desk.count("polite") == {}


def test_no_answer_is_lost_when_judges_work_at_once(lone: Desk) -> None:
    lone.rules.add(judge("judge_by_number"))
    lone.load([make_trace(n, answer=f"answer {n % 3}") for n in range(40)])
    lone.settle()
    assert lone.values("kind") == [[0.0, 0.5, 1.0][n % 3] for n in range(40)]
