"""The maintenance thread finalises quiet traces, removes old ones, and survives errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.rule_samples import DAY, Clock, make_trace
from tests.traces.otlp_samples import as_json, span

from tallymark.errors import WorkFailed
from tallymark.service import maintenance_thread as keeping
from tallymark.service.app import App
from tallymark.service.maintenance_thread import MaintenanceThread
from tallymark.service.resources import Resources
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.store.retention_policy import QUIET_S
from tallymark.traces.trace_query import TraceQuery


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(str(tmp_path / "tally.db"))
    app.store.prepare()
    Resources.over(app.store).tenants.add("other")
    yield app
    app.close()


def load(store: Store, clock: Clock, *numbers: int) -> None:
    TraceIntake(store, clock=clock).load([make_trace(number) for number in numbers])


def list_ids(store: Store) -> list[int]:
    return sorted(int(each.id, 16) for each in store.traces.page(TraceQuery()).items)


def test_quiet_traces_of_all_tenants_are_finalised(app: App) -> None:
    clock = Clock()
    other = app.store.for_tenant("other")
    for number, store in enumerate((app.store, other), 1):
        intake = TraceIntake(store, clock=clock)
        intake.keep(*intake.read(as_json(span(number)), "json"))
    maintenance = MaintenanceThread(app, clock)
    assert maintenance.finalise_traces() == 0  # something may still come
    clock.now += QUIET_S
    assert maintenance.finalise_traces() == 2
    assert [each.state for each in other.traces.page(TraceQuery()).items] == ["settled"]


def test_each_tenant_keeps_its_traces_as_long_as_it_says(app: App) -> None:
    clock = Clock()
    other = app.store.for_tenant("other")
    for store, days in ((app.store, 1.0), (other, 5.0)):
        Resources.over(store, clock=clock).traces.change_settings(keep_days=days)
        load(store, clock, 1, 2)
    clock.now += 2 * DAY
    load(app.store, clock, 3)
    maintenance = MaintenanceThread(app, clock)
    maintenance.prune()
    assert list_ids(app.store) == [3]
    assert list_ids(other) == [1, 2]


def test_a_failure_does_not_end_it(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_PAUSE", 0.0)
    looked = threading.Event()
    failures: list[Exception] = [WorkFailed("the database is away"), RuntimeError("a mistake")]

    def finalise(*_: Any) -> int:
        if failures:
            raise failures.pop()
        looked.set()
        return 0

    monkeypatch.setattr(app.store.traces, "finalise", finalise)
    maintenance = MaintenanceThread(app)
    maintenance.start()
    assert looked.wait(30)
    maintenance.stop(30)
    assert not maintenance._thread.is_alive()
