"""Leases: one works, the others are told who; what is lost is noticed before anything is stored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import msgspec
import pytest
from scripts.server_process import require_as_logged
from sqlalchemy import select, text, update
from tests.store.run_samples import a_result, a_run

from tallymark.errors import InvalidInput, LeaseLost
from tallymark.store import ResultWriter, Store, leases, open_store, run_results
from tallymark.store.leases import Holder, Lease


@pytest.fixture
def stores(shared_url: str) -> Iterator[tuple[Store, Store]]:
    """Two who share a database."""
    tenant = uuid4().hex
    with open_store(shared_url, tenant=tenant) as one, open_store(shared_url, tenant=tenant) as two:
        yield one, two


def change_lease(store: Store, **values: object) -> None:
    query = update(leases.leases).where(leases.leases.c.tenant == store.tenant)
    store._database.write(lambda c: c.execute(query.values(values)))


def age(store: Store, seconds: float) -> None:
    """As if nobody had renewed it for so long."""
    change_lease(store, expires_at=leases.leases.c.expires_at - seconds)


def read_holder(store: Store) -> Holder:
    query = select(leases.leases.c.holder).where(leases.leases.c.tenant == store.tenant)
    with store._database.read() as connection:
        return msgspec.convert(connection.scalar(query), Holder)


def begin(store: Store) -> None:
    store.create_run(a_run(status="running"))


def test_a_run_that_is_held_is_refused_to_others(stores: tuple[Store, Store]) -> None:
    one, two = stores
    begin(one)
    said = rf"the run run is held by .+ on .+, process {os.getpid()}, since 20.+ UTC; wait for it"
    with pytest.raises(InvalidInput, match=said):
        two.claim_run("run")
    assert [each.run("run").status for each in stores] == ["running"] * 2


def test_a_run_that_ended_is_free(stores: tuple[Store, Store]) -> None:
    one, two = stores
    begin(one)
    one.save_run(a_run(status="cancelled"))
    two.claim_run("run")
    assert one.run("run").status == "running"


def test_a_store_that_closes_lets_go(shared_url: str, stores: tuple[Store, Store]) -> None:
    _, two = stores
    with open_store(shared_url, tenant=two.tenant) as one:
        begin(one)
    assert two.run("run").status == "interrupted"
    assert [each.id for each in two.runs(status="interrupted")] == ["run"]
    assert two.runs(status="running") == []
    two.claim_run("run")


def test_of_many_who_claim_at_once_one_succeeds(
    shared_url: str, stores: tuple[Store, Store]
) -> None:
    one, _ = stores
    begin(one)
    age(one, 61)
    others = [open_store(shared_url, tenant=one.tenant) for _ in range(8)]
    together = threading.Barrier(len(others))

    def claim(store: Store) -> bool:
        together.wait()
        try:
            store.claim_run("run")
        except InvalidInput:
            return False
        return True

    with ThreadPoolExecutor(len(others)) as pool:
        assert sorted(pool.map(claim, others)) == [False] * 7 + [True]
    for each in others:
        each.close()


def test_who_lost_a_lease_stores_nothing_more(stores: tuple[Store, Store]) -> None:
    one, two = stores
    begin(one)
    one.add_results("run", [a_result("before")])
    age(one, 61)
    two.claim_run("run")
    said = r"the run run was taken over by .+, process \d+, at 20.+ UTC; what is done here"
    with pytest.raises(LeaseLost, match=said):
        one.add_results("run", [a_result("after")])
    with pytest.raises(LeaseLost):
        one.save_run(a_run(status="completed", score=1.0))
    with pytest.raises(LeaseLost):
        one.renew_run("run")
    one.close()
    assert [each.case for each in two.results("run")] == ["before"]
    assert (two.run("run").status, two.run("run").score) == ("running", None)


def test_a_lease_that_ran_out_while_nobody_came_is_renewed(stores: tuple[Store, Store]) -> None:
    one, two = stores
    begin(one)
    age(one, 3600)  # the lid of a laptop was closed
    assert two.run("run").status == "interrupted"
    one.add_results("run", [a_result()])
    assert two.run("run").status == "running"
    with pytest.raises(InvalidInput, match="is held by"):
        two.claim_run("run")


def test_a_claim_that_is_made_again_after_a_lost_connection_is_the_same(
    stores: tuple[Store, Store],
) -> None:
    one, _ = stores
    begin(one)
    begin(one)
    lease = one._held["run"]
    give_back = partial(lease.hold, seconds=0)
    for _ in range(2):
        one._database.write(lease.claim)
    for _ in range(2):
        one._database.write(give_back)


def test_the_lease_of_a_run_goes_with_it(stores: tuple[Store, Store]) -> None:
    one, two = stores
    begin(one)
    two.delete_run("run")
    with pytest.raises(LeaseLost, match="the run run was removed meanwhile"):
        one.add_results("run", [a_result()])


def test_a_process_that_was_killed_has_let_go(shared_url: str, stores: tuple[Store, Store]) -> None:
    _, two = stores
    code = (
        "import os, sys; from tallymark.store import open_store;"
        "from tallymark.runs.record import RunRecord;"
        "store = open_store(sys.argv[1], tenant=sys.argv[2]);"
        "store.create_run(RunRecord(id='run', suite='s', model='m', status='running'));"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, shared_url, two.tenant], check=False)
    assert two.run("run").status == "interrupted"
    two.claim_run("run")
    assert read_holder(two).process == os.getpid()
    require_as_logged(two, "leases")
    two.add_results("run", [a_result()])
    two.save_run(a_run(status="completed", total=1, passed=1, score=100.0))
    require_as_logged(two, "leases", "runs")


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({}, False),
        ({"started": "1"}, True),  # the number was given to another process
        ({"started": "1", "machine": "another"}, False),
        ({"machine": "", "process": 2**22 + 1}, False),
        ({"process": 2**22 + 1}, True),
    ],
)
def test_who_is_gone(stores: tuple[Store, Store], changes: dict[str, object], gone: bool) -> None:
    one, two = stores
    begin(one)
    holder = msgspec.structs.replace(read_holder(one), **changes)
    change_lease(one, holder=holder)
    assert holder.is_gone == gone
    assert two.run("run").status == ("interrupted" if gone else "running")


def test_a_process_that_is_not_yet_reaped_is_gone(stores: tuple[Store, Store]) -> None:
    begin(stores[0])
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        left = msgspec.structs.replace(read_holder(stores[0]), process=process.pid)
        assert left.is_gone


def test_the_clock_is_that_of_the_database(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    monkeypatch.setattr("time.time", lambda: 9e9)
    begin(one)
    with pytest.raises(InvalidInput, match=r"since 20\d\d-"):
        two.claim_run("run")


def test_two_kinds_of_work_do_not_meet(stores: tuple[Store, Store]) -> None:
    one, _ = stores
    begin(one)
    job = Lease(one.tenant, "job", "run")
    one._database.write(job.claim)
    with one._database.read() as connection:
        assert leases.find_live(connection, one.tenant, "job") == ["run"]
        assert leases.find_live(connection, "another", "job") == []


def test_a_writer_without_results_renews_and_notices_a_loss(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    monkeypatch.setattr(run_results, "RENEWED_AFTER", 0.01)
    begin(one)
    writer = ResultWriter(one, "run")
    age(one, 61)
    while two.run("run").status != "running":
        pass
    change_lease(two, token="another's")
    writer._thread.join()
    with pytest.raises(LeaseLost):
        writer.put(a_result())
    assert list(two.results("run")) == []


def test_a_database_that_is_away_for_a_moment_ends_no_run(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = stores
    monkeypatch.setattr(run_results, "RENEWED_AFTER", 0.01)
    tried = threading.Event()
    begin(one)

    def renew(self: Store, run_id: str) -> None:
        tried.set()
        self._database.write(lambda c: c.execute(text("SELECT * FROM away")))

    monkeypatch.setattr(Store, "renew_run", renew)
    with ResultWriter(one, "run") as writer:
        assert tried.wait(10)
        writer.put(a_result())
    assert len(list(one.results("run"))) == 1
