"""What is removed, by age and by size, and that nothing of it is left."""

from __future__ import annotations

import pytest
from tests.store.traces.conftest import Keeper
from tests.traces.otlp_samples import START, model_call, span

from tallymark.errors import NotFound
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.traces.trace_scores import StoredScore

DAY = 86_400.0
TABLES = ("traces", "trace_segments", "trace_versions", "trace_labels", "trace_scores", "labels")


def count_rows(keeper: Keeper) -> dict[str, int]:
    tenant = keeper.store.tenant
    with keeper.store._database.read() as connection:
        return {
            table: connection.exec_driver_sql(
                f"SELECT count(*) FROM {table} WHERE tenant = '{tenant}'"
            ).scalar_one()
            for table in TABLES
        }


def test_what_came_too_long_ago_goes_with_all_that_is_known_of_it(keeper: Keeper) -> None:
    keeper.send(span(1, session__id="private"), model_call(trace=1))
    keeper.settle()
    record = keeper.store.traces.get(f"{1:032x}")
    given = StoredScore(
        trace=record.key, version=1, name="polite", author="a", value=1.0, at=1.0, started_at=START
    )
    keeper.store.traces.put_scores([given])
    keeper.now += 10 * DAY
    # Its own clock says that it is old; by ours it has just come.
    keeper.send(span(2, start=START - 365 * DAY))
    keeper.settle()
    assert keeper.store.traces.remove_outdated(TraceSettings(keep_days=5), keeper.now) == 1
    assert keeper.ids() == [2]
    assert keeper.store.traces.label_values("session") == []
    keeper.store.traces.remove([keeper.find()[0].key])
    keeper.store.traces.remove_outdated(TraceSettings(), keeper.now)
    assert {table: n for table, n in count_rows(keeper).items() if table != "labels"} == (
        dict.fromkeys(TABLES[:-1], 0)
    )


def test_the_oldest_go_where_there_is_no_room(keeper: Keeper) -> None:
    for number in range(1, 5):
        keeper.now += 1
        noise = "".join(chr(33 + (each * each * number) % 90) for each in range(900_000))
        keeper.send(span(number, text=noise))
    sizes = keeper.store.traces
    before = len(keeper.find())
    removed = sizes.remove_outdated(TraceSettings(keep_days=None, keep_mb=1), keeper.now)
    assert before == 4
    assert keeper.ids() == list(range(1 + removed, 5))


def test_a_store_that_keeps_everything_removes_nothing(keeper: Keeper) -> None:
    keeper.send(span())
    assert keeper.store.traces.remove_outdated(TraceSettings(keep_days=None), 1e12) == 0
    with pytest.raises(NotFound):
        keeper.store.traces.get("unknown")
