"""Spans that an exporter sends twice: they change no score, no decision and no limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.service.rule_samples import DAY, NOON, Desk
from tests.traces.otlp_samples import as_json, model_call, span

from tallymark.service.trace_intake import Taken, TraceIntake
from tallymark.store import open_store
from tallymark.store.retention_policy import TraceSettings
from tallymark.traces.span_limits import SpanLimits

ID = f"{1:032x}"
BATCH = (span(start=NOON), model_call(start=NOON), model_call(3, start=NOON))
LIMITS = SpanLimits(spans_per_trace=3)


@pytest.fixture
def desk(empty_url: str) -> Iterator[Desk]:
    with open_store(empty_url) as store:
        yield Desk(store)


def send(desk: Desk, *spans: object, limits: SpanLimits | None = None) -> Taken:
    more = {} if limits is None else {"limits": limits}
    intake = TraceIntake(desk.store, settings=TraceSettings, clock=desk.clock, **more)
    return intake.keep(*intake.read(as_json(*spans), "json"))  # type: ignore[arg-type]


def settle(desk: Desk) -> None:
    desk.clock.now += 30
    desk.store.traces.finalise(desk.clock())


def test_a_formula_scores_what_a_version_holds(desk: Desk) -> None:
    desk.rules.add({"name": "tokens", "formula": "tokens", "quiet": 20})
    send(desk, *BATCH)
    settle(desk)
    desk.work().decide()
    send(desk, *BATCH)
    assert desk.store.traces.get(ID).tokens == 220
    desk.clock.now += 21
    desk.settle()
    settle(desk)
    desk.settle()
    assert desk.values("tokens") == [220.0]
    assert not desk.store.check_all().counts


def test_a_filter_looks_at_what_a_version_holds(desk: Desk) -> None:
    desk.rules.add({"name": "large", "formula": "tokens", "filter": "tokens>300"})
    send(desk, *BATCH)
    settle(desk)
    send(desk, *BATCH)
    desk.settle()
    assert desk.count("large") == {"filtered": 1}


def test_a_backfill_scores_what_a_version_holds(desk: Desk) -> None:
    send(desk, *BATCH)
    settle(desk)
    send(desk, *BATCH)
    desk.rules.add({"name": "tokens", "formula": "tokens"})
    made = desk.start_backfill("tokens", NOON - DAY, NOON + DAY)
    desk.work().backfill(made.id)
    assert desk.values("tokens") == [220.0]


def test_the_check_finds_a_score_that_does_not_follow_from_its_version(desk: Desk) -> None:
    desk.rules.add({"name": "tokens", "formula": "tokens"})
    send(desk, *BATCH)
    settle(desk)
    desk.settle()
    assert not desk.store.check_all().counts
    double = "UPDATE trace_scores SET value = value * 2"
    desk.store._database.write(lambda connection: connection.exec_driver_sql(double))
    report = desk.store.check_all()
    assert report.counts == {"rules": 1}
    assert str(report.differences[0]) == (
        f"trace {ID} by the rule tokens: value is 440.0, and should be 220.0"
    )


def test_what_is_sent_again_leaves_room_for_new_spans(desk: Desk) -> None:
    for spans in (BATCH[:2], BATCH[:2], BATCH[2:], BATCH):
        assert send(desk, *spans, limits=LIMITS).refused == 0
    assert send(desk, span(number=9), limits=LIMITS).refused == 1
    settle(desk)
    for spans in (BATCH, BATCH[:1]):
        assert send(desk, *spans, limits=LIMITS).refused == 0
    assert send(desk, span(number=9), limits=LIMITS).refused == 1
    settle(desk)
    found = desk.store.traces.get(ID)
    assert (found.spans, found.version, found.lost and found.lost.spans_refused) == (3, 1, 2)
