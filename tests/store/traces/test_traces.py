"""Traces as they are kept: in segments, put together when they are quiet, in versions."""

from __future__ import annotations

import threading

import msgspec
import pytest
from tests.store.traces.conftest import Keeper
from tests.traces.otlp_samples import as_protobuf, model_call, span, tool_call

from tallymark.errors import NotFound
from tallymark.service.trace_intake import TraceIntake
from tallymark.service.traces import LoadedTraces
from tallymark.store import open_store
from tallymark.store.retention_policy import TraceSettings
from tallymark.traces import Span, Trace
from tallymark.traces.span_limits import Lost, SpanLimits

ID = f"{1:032x}"


def test_what_was_taken_in_is_there_at_once(keeper: Keeper) -> None:
    taken = keeper.send(span(), model_call(), tool_call(), service__name="desk")
    assert (taken.spans, taken.refused, taken.message) == (3, 0, "")
    record = keeper.store.traces.get(ID)
    assert (record.state, record.version, record.spans) == ("open", 0, 3)
    assert (record.service, record.models, record.tools) == ("desk", ("gpt-4o-mini",), ("search",))
    assert (record.tokens, record.asked) == (110, "How warm is it?")
    assert record.cost is not None
    trace = keeper.store.traces.load(ID)
    assert [each.name for each in trace.spans] == ["step", "chat", "execute_tool search"]


def test_a_quiet_trace_is_settled_once(keeper: Keeper) -> None:
    keeper.send(span(), model_call())
    assert keeper.settle(after=5) == 0
    keeper.settle(after=6)
    record = keeper.store.traces.get(ID)
    assert (record.state, record.version, record.settled_at) == ("settled", 1, keeper.now)
    keeper.settle()
    assert keeper.store.traces.get(ID) == record


def test_a_trace_of_a_clock_that_was_far_ahead_is_settled_all_the_same(keeper: Keeper) -> None:
    right = keeper.now
    keeper.now += 400 * 86_400
    keeper.send(span(), model_call())
    keeper.now = right
    assert keeper.settle(after=0) == 1
    assert keeper.store.traces.get(ID).state == "settled"


def test_without_its_root_a_trace_is_waited_for_longer(keeper: Keeper) -> None:
    keeper.send(model_call())
    keeper.settle(after=30)
    assert keeper.store.traces.get(ID).state == "open"
    keeper.settle(after=31)
    assert keeper.store.traces.get(ID).state == "settled"


def test_spans_out_of_order_and_twice_come_to_what_they_are(keeper: Keeper) -> None:
    keeper.send(tool_call(), service__name="desk")
    keeper.send(model_call(), tool_call(), service__name="desk")
    keeper.send(span(), model_call(), service__name="desk")
    keeper.settle()
    pieces = keeper.store.traces.get(ID)
    keeper.send(*(span(trace=2), model_call(trace=2), tool_call(trace=2)), service__name="desk")
    keeper.settle()
    whole = keeper.store.traces.get(f"{2:032x}")
    own = {"key", "id", "segments", "first_at", "last_at", "settled_at"}
    assert {k: v for k, v in msgspec.structs.asdict(pieces).items() if k not in own} == {
        k: v for k, v in msgspec.structs.asdict(whole).items() if k not in own
    }


def test_late_spans_make_a_new_version_and_the_old_one_stays(keeper: Keeper) -> None:
    keeper.send(span(), model_call())
    keeper.settle()
    keeper.send(tool_call())
    assert keeper.store.traces.get(ID).state == "open"
    keeper.settle()
    record = keeper.store.traces.get(ID)
    assert (record.version, record.spans, record.tools) == (2, 3, ("search",))
    first, second = (keeper.store.traces.load(ID, version) for version in (1, 2))
    assert [len(first.spans), len(second.spans)] == [2, 3]
    with pytest.raises(NotFound, match="no version 3"):
        keeper.store.traces.load(ID, 3)


def test_what_is_sent_again_after_all_makes_no_version(keeper: Keeper) -> None:
    keeper.send(span(), model_call())
    keeper.settle()
    keeper.send(span(), model_call())
    keeper.settle()
    record = keeper.store.traces.get(ID)
    assert (record.version, record.spans, record.tokens) == (1, 2, 110)


def test_a_version_waits_for_the_rules_until_somebody_has_decided(keeper: Keeper) -> None:
    keeper.send(span())
    keeper.settle()
    with keeper.store._database.read() as connection:
        query = "SELECT undecided FROM traces WHERE tenant = '{}'"
        found = connection.exec_driver_sql(query.format(keeper.store.tenant)).all()
    assert [bool(row[0]) for row in found] == [True]


def test_spans_of_several_services_are_one_trace_with_its_roots_service(keeper: Keeper) -> None:
    keeper.send(model_call(), service__name="below")
    keeper.send(span(), service__name="above")
    keeper.settle()
    assert keeper.store.traces.get(ID).service == "above"


def test_beyond_its_limit_a_trace_keeps_what_it_has_and_the_fact(keeper: Keeper) -> None:
    keeper.limits = SpanLimits(spans_per_trace=2)
    keeper.send(span(number=1), span(number=2))
    taken = keeper.send(span(number=3), span(number=4))
    assert (taken.spans, taken.refused) == (0, 2)
    assert taken.message == "2 spans: a trace has at most 2 spans"
    record = keeper.store.traces.get(ID)
    assert (record.spans, record.lost) == (2, Lost(spans_refused=2))


def test_no_tenant_sees_anothers_traces(keeper: Keeper) -> None:
    keeper.send(span())
    other = keeper.store.for_tenant("other")
    with pytest.raises(NotFound):
        other.traces.get(ID)
    key = keeper.store.traces.get(ID).key
    assert list(other.traces.load_many([(key, 0)])) == []


def test_text_that_no_database_takes_is_kept(keeper: Keeper) -> None:
    keeper.send(span(name="a\0b", session__id="s\0", text="x\0y"))
    keeper.settle()
    record = keeper.store.traces.get(ID)
    assert (record.name, record.session) == ("a\ufffdb", "s\ufffd")
    assert keeper.store.traces.load(ID).spans[0].metadata["text"] == "x\0y"


def test_loading_the_same_file_again_adds_nothing(keeper: Keeper) -> None:
    traces = [Trace(name="a", spans=[Span(name="x", input="q")]), Trace(name="b")]
    assert keeper.intake.load(traces) == LoadedTraces(traces=2, new=2)
    assert keeper.intake.load(traces) == LoadedTraces(traces=2, known=2)
    assert {(each.name, each.version, each.spans) for each in keeper.find()} == {
        ("a", 1, 1),
        ("b", 1, 0),
    }


def test_what_came_from_an_exporter_is_known_when_it_is_loaded_as_a_whole(keeper: Keeper) -> None:
    keeper.send(span(name="a"))
    keeper.send(span(span=2, parent=1, name="b"))
    keeper.settle()
    whole = keeper.store.traces.load(ID)
    assert keeper.intake.load([whole]) == LoadedTraces(traces=1, known=1)
    assert keeper.store.traces.get(ID).version == 1


def test_a_large_trace_that_is_loaded_again_lost_nothing(keeper: Keeper) -> None:
    keeper.limits = SpanLimits(spans_per_trace=3)
    large = Trace(trace_id="t", spans=[Span(span_id="1"), Span(span_id="2")])
    for _ in range(2):
        keeper.intake.load([large])
    assert keeper.store.traces.get("t").lost is None


def test_servers_that_get_the_same_new_trace_at_once_both_keep_their_part(shared_url: str) -> None:
    """Each on a connection of its own, as processes are."""
    ready = threading.Barrier(4)

    def send(number: int) -> None:
        with open_store(shared_url, tenant="raced") as store:
            intake = TraceIntake(store, settings=TraceSettings)
            for trace in range(1, 21):
                body = as_protobuf(
                    span(trace, number, 1 if number > 1 else None, name=f"n{number}")
                )
                ready.wait()
                assert intake.keep(*intake.read(body, "protobuf")).spans == 1

    threads = [threading.Thread(target=send, args=(number,)) for number in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with open_store(shared_url, tenant="raced") as store:
        for trace in range(1, 21):
            spans = store.traces.load(f"{trace:032x}").spans
            assert sorted(each.name for each in spans) == ["n1", "n2", "n3", "n4"]
            assert store.traces.get(f"{trace:032x}").segments == 4


def test_spans_that_come_while_a_trace_is_settled_are_not_lost(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallymark.store.traces import finalise

    keeper.send(span())
    keeper.send(model_call())
    merge = finalise._merge

    def interrupted(segments: object) -> object:
        found = merge(segments)  # type: ignore[arg-type]
        monkeypatch.undo()
        keeper.send(tool_call())
        return found

    monkeypatch.setattr(finalise, "_merge", interrupted)
    keeper.settle()
    assert keeper.store.traces.get(ID).state == "open"
    keeper.settle()
    assert keeper.store.traces.get(ID).spans == 3
