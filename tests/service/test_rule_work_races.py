"""What rules do when something else happens at the worst moment: caps hold, nothing is set aside
for nobody, and what is said of costs is what they come to.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.service import rule_scorers
from tests.service.rule_samples import DAY, NOON, Desk, make_trace
from tests.service.test_rule_work import POLITE, judge

from tallymark.errors import Conflict
from tallymark.store import open_store
from tallymark.store.dialects import lock_traces
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.traces.rule_days import lock_rule

JUST_BEFORE = NOON + DAY / 2 - 1.0
"""A second before midnight UTC."""


@pytest.fixture
def desk(shared_url: str) -> Iterator[Desk]:
    with open_store(shared_url, tenant=uuid.uuid4().hex) as store:
        yield Desk(store)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Desk]:
    """On SQLite alone."""
    with open_store(str(tmp_path / "tally.db")) as store:
        yield Desk(store)


def find_accounts(desk: Desk, name: str) -> list[tuple[int, float, int, float]]:
    return [
        (each.scored, round(each.spent, 6), each.reserved_count, each.reserved_cost)
        for each in desk.rules.spending(name).days
    ]


def meanwhile(desk: Desk, name: str, happens: Callable[[], Any]) -> None:
    """Once, just before a step of whoever scores."""
    step = getattr(desk.store.rule_outcomes, name)

    def work(*args: Any, **more: Any) -> Any:
        setattr(desk.store.rule_outcomes, name, step)
        happens()
        return step(*args, **more)

    setattr(desk.store.rule_outcomes, name, work)


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
    rule = desk.add_rule(judge(cap_cost=1.0, reserve=0.01))
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
    rule = desk.add_rule(judge(cap_cost=1.0, reserve=0.01))
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
    made = desk.start_backfill("kind", NOON, NOON + 100)
    meanwhile(desk, "reserve", lambda: desk.rules.archive("kind"))
    assert desk.work().backfill(made.id)["state"] == "superseded"
    assert not asked
    desk.rules.add(judge())  # its name is free
    assert desk.count("kind") == {}


def test_what_was_set_aside_for_a_trace_that_is_removed_is_given_up(desk: Desk) -> None:
    """The judge has been asked by then: it counts as spent, and others need not wait for it."""
    rule = desk.add_rule(judge(cap_cost=0.05, reserve=0.02))
    desk.load([make_trace(n) for n in range(2)])
    desk.work().decide()

    def remove() -> None:
        keep = TraceSettings(keep_days=1.0)
        assert desk.store.traces.remove_outdated(keep, desk.clock() + 2 * DAY, 100) == 2

    meanwhile(desk, "write_results", remove)
    desk.work().score(rule.id)
    assert find_accounts(desk, "kind") == [(0, 0.04, 0, 0.0)]
    desk.load([make_trace(n) for n in (7, 8)])
    desk.settle()
    assert desk.count("kind") == {"capped": 2}


def test_a_place_is_of_the_day_on_which_it_was_taken(desk: Desk) -> None:
    rule = desk.add_rule({**POLITE, "cap_count": 2})
    desk.clock.now = JUST_BEFORE - 1.0
    desk.load([make_trace(n) for n in range(3)])
    desk.work().decide()
    meanwhile(desk, "write_results", lambda: setattr(desk.clock, "now", JUST_BEFORE + 2.0))
    desk.work().score(rule.id)
    desk.load([make_trace(n) for n in (7, 8, 9)])
    desk.settle()
    assert [(each.day, each.scored) for each in desk.rules.spending("polite").days] == [
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
    done = desk.work().backfill(desk.start_backfill("kind", NOON, NOON + 100).id)
    assert said.cost == pytest.approx(0.12)
    assert done["spent"] == pytest.approx(said.cost)


def test_a_backfill_by_a_scorer_that_is_paid_for_says_so(desk: Desk) -> None:
    desk.load([make_trace(n) for n in range(4)])
    desk.settle()
    desk.rules.add({**POLITE, "reserve": 0.5, "cap_cost": 100.0})
    said = desk.rules.preview_backfill("polite", NOON, NOON + 100)
    assert (said.cost, said.cost_by) == (2.0, "what is set aside for each")
    done = desk.work().backfill(desk.start_backfill("polite", NOON, NOON + 100).id)
    assert done["spent"] == pytest.approx(2.0)


def remove_all(desk: Desk) -> None:
    settings = TraceSettings(keep_days=1.0)
    assert desk.store.traces.remove_outdated(settings, desk.clock() + 2 * DAY, 100) == 3


@pytest.mark.parametrize(
    ("happens", "state", "scored"),
    [
        (lambda desk, _: desk.rules.edit("polite", {**POLITE, "rate": 99}), "superseded", 0),
        (lambda desk, _: desk.rules.archive("polite"), "superseded", 0),
        (lambda desk, made: desk.store.backfills.end(made, "cancelled"), "cancelled", 0),
        (lambda desk, _: remove_all(desk), "done", 0),
        (lambda desk, made: desk.work().backfill(made), "done", 3),
    ],
    ids=["edited", "archived", "cancelled", "removed", "done by another"],
)
def test_what_is_scored_at_once_is_kept_once_or_not_at_all(
    desk: Desk, happens: Callable[[Desk, int], Any], state: str, scored: int
) -> None:
    desk.load([make_trace(n) for n in range(3)])
    desk.settle()
    rule = desk.add_rule(POLITE)
    made = desk.start_backfill("polite", NOON, NOON + 100)
    meanwhile(desk, "look_back", lambda: happens(desk, made.id))
    assert desk.work().backfill(made.id)["state"] == state
    found = desk.store.backfills.get(made.id)
    assert (found.queued, found.scored) == (scored, scored)
    assert sum(each.scored for each in desk.store.rule_days.list(rule)) == scored
    assert len(desk.store.rule_outcomes.list(rule, decision="scored")) == scored


def test_who_ends_a_backfill_waits_for_who_settles_before_it_takes_anything(desk: Desk) -> None:
    """Else each could wait for what the other has: PostgreSQL would call it a deadlock."""
    desk.rules.add(POLITE)
    desk.load([make_trace(1)])
    made = desk.start_backfill("polite", NOON, NOON + 100)
    with ThreadPoolExecutor(1) as pool:

        def work(connection: Connection) -> Future[None] | None:
            statements = QuickStatements(connection)
            lock_rule(statements, made.rule)
            if not statements.is_postgres:  # whose writers are alone
                return None
            ending = pool.submit(desk.store.backfills.end, made.id, "cancelled")
            waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY("
            while not statements.read(f"{waits}pg_blocking_pids(pid))"):
                assert not ending.done()
            taken = "SELECT id FROM rule_backfills WHERE id = ? FOR UPDATE NOWAIT"
            assert statements.read(taken, made.id)
            return ending

        if (ending := desk.store._database.write(work)) is None:
            desk.store.backfills.end(made.id, "cancelled")
        else:
            ending.result()
    assert desk.store.backfills.get(made.id).state == "cancelled"


def test_a_backfill_leaves_alone_what_waits_as_it_came_and_what_is_not_quiet(desk: Desk) -> None:
    rule = desk.add_rule({**POLITE, "quiet": 50.0})
    desk.load([make_trace(1)])
    desk.work().decide()
    with_rule = desk.start_backfill("polite", NOON, NOON + 100)
    assert desk.work().backfill(with_rule.id)["state"] == "done"
    assert desk.count("polite") == {"waiting": 1}
    desk.rules.edit("polite", {**POLITE, "quiet": 60.0})
    again = desk.start_backfill("polite", NOON, NOON + 100)
    assert desk.work().backfill(again.id)["status"] == "queued"
    desk.clock.now += 100
    assert desk.work().backfill(again.id)["scored"] == 1
    desk.settle()
    assert desk.count("polite") == {"scored": 1, "filtered": 1}
    assert [each.backfill for each in desk.store.rule_outcomes.list(rule, decision="scored")] == [
        again.id
    ]


def test_a_backfill_that_dies_while_it_stores_has_done_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.load([make_trace(n) for n in range(3)])
    desk.settle()
    desk.rules.add(POLITE)
    made = desk.start_backfill("polite", NOON, NOON + 100)
    with monkeypatch.context() as broken:
        broken.setattr(desk.store.rule_outcomes, "_write_scores", None)
        with pytest.raises(TypeError):
            desk.work().backfill(made.id)
    assert (desk.count("polite"), desk.store.backfills.get(made.id).last_key) == ({}, 0)
    assert desk.work().backfill(made.id)["scored"] == 3
    assert desk.values("polite") == [1.0] * 3


def test_a_backfill_by_a_new_version_takes_over_what_counts(desk: Desk) -> None:
    desk.rules.add(POLITE)
    desk.load([make_trace(1), make_trace(2)])
    desk.settle()
    desk.rules.edit("polite", {"scorer": 'contains(values=["absent"])'})
    done = desk.work().backfill(desk.start_backfill("polite", NOON, NOON + 100).id)
    assert (done["scored"], desk.values("polite")) == (2, [0.0, 0.0])


def test_traces_are_not_removed_while_scores_are_written(desk: Desk) -> None:
    database = desk.store._database
    free = "SELECT pg_try_advisory_xact_lock{}(hashtextextended(?, 0))"
    with database.read() as connection:
        if connection.dialect.name != "postgresql":
            return  # a writer is alone

    def ask(removed: bool) -> list[bool]:
        def look() -> list[bool]:
            with database.read() as connection:
                read = QuickStatements(connection).read
                word = f"traces of {desk.store.tenant}"
                return [read(free.format(kind), word)[0][0] for kind in ("_shared", "")]

        def work(connection: Connection) -> list[bool]:
            lock_traces(connection, desk.store.tenant, removed=removed)
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(look).result()

        return database.write(work)

    assert (ask(removed=False), ask(removed=True)) == ([True, False], [False, False])


def test_what_a_backfill_may_score_is_looked_up_by_key(
    lone: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by going through all traces of the tenant for each of the given ones."""
    rule = lone.add_rule(POLITE)
    asked: list[tuple[str, tuple[Any, ...]]] = []
    read = QuickStatements.read

    def listen(self: QuickStatements, text: str, *values: Any) -> list[tuple[Any, ...]]:
        asked.append((text, values))
        return read(self, text, *values)

    with monkeypatch.context() as patched:
        patched.setattr(QuickStatements, "read", listen)
        lone.store.rule_outcomes.find_ready(rule, [(1, 1)], now=NOON)
    ((text, values),) = asked
    with lone.store._database.read() as connection:
        plan = read(QuickStatements(connection), f"EXPLAIN QUERY PLAN {text}", *values)
    assert "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)" in [row[-1] for row in plan]


def test_of_two_backfills_that_are_started_at_once_one_is_refused(desk: Desk) -> None:
    desk.rules.add(POLITE)
    with pytest.raises(Conflict, match="has not ended"), ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: desk.start_backfill("polite", NOON, NOON + 100), "ab"))
    assert len(desk.rules.backfills("polite").items) == 1
