"""Who sees and ends which jobs, and waiting for one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tallymark.service.app import App
from tallymark.service.callers import Caller, Role
from tallymark.service.jobs import Jobs, JobService, name_owner
from tallymark.service.remote_runs import RemoteRuns
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.resources import Resources
from tallymark.service.settings import ServiceSettings
from tallymark.service.tenant import TenantServices
from tallymark.store.jobs import Job, NewJob

SUITE = "evals: [{prompt: hi, checks: [{match: hi}]}]"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with closing(App(str(tmp_path / "tally.db"))) as opened:
        yield opened


@pytest.fixture
def jobs(app: App) -> JobService:
    return JobService(app.store)


def open_services(app: App) -> TenantServices:
    return TenantServices(app, ServiceSettings())


def caller(role: Role, owner: str | None = None) -> Caller:
    return Caller("default", role, f"key of {owner}", owner)


ALICE, BOB = caller("agent", "alice"), caller("reporter", "bob")


def add(app: App, kind: str = "score", subject: str = "a1", owner: str = "alice") -> Job:
    return app.store.jobs.add(NewJob(kind=kind, subject=subject, owner=owner))


@pytest.mark.parametrize(
    ("who", "may"),
    [
        (ALICE, True),
        (caller("viewer", "alice"), True),
        (caller("admin"), True),
        (caller("organiser", "charlie"), True),
        (BOB, False),
        (caller("viewer"), False),
    ],
)
def test_who_sees_alices_job(app: App, who: Caller, may: bool) -> None:
    job, jobs = add(app, "rescore"), Jobs(open_services(app), who)
    if may:
        assert jobs.get(job.id).id == job.id
        assert [each.id for each in jobs.list()] == [job.id]
        return
    assert jobs.list().items == []
    with pytest.raises(NotFound, match=f"there is no job '{job.id}'"):
        jobs.get(job.id)


def test_a_state_that_is_none_is_refused(app: App) -> None:
    add(app)
    wrong: Any = "queud"
    with pytest.raises(InvalidInput, match="there is no state 'queud'; did you mean 'queued'"):
        Resources.over(app.store).jobs.list(state=wrong)


def test_jobs_about_one_thing_are_found(app: App) -> None:
    add(app, subject="a1")
    wanted = add(app, subject="a2")
    assert [each.id for each in Resources.over(app.store).jobs.list(subject="a2")] == [wanted.id]


@pytest.mark.parametrize("role", ["agent", "reporter", "viewer"])
def test_only_organisers_cancel_and_retry(app: App, role: Role) -> None:
    job, jobs = add(app, "rescore"), Jobs(open_services(app), caller(role, "alice"))
    for act in (jobs.cancel, jobs.retry):
        with pytest.raises(NotAllowed):
            act(job.id)


def test_an_owner_is_the_first_that_is_known() -> None:
    assert name_owner(Caller("t", "agent", "key", "alice", "ann")) == "alice"
    assert name_owner(Caller("t", "agent", "key", None, "ann")) == "ann"
    assert name_owner(Caller("t", "viewer", "key")) == "key"


def test_what_is_shown_of_a_job(app: App) -> None:
    job = add(app)
    app.store.job_queue.claim(["score"], 1)
    shown = msgspec.to_builtins(Jobs(open_services(app), ALICE).get(job.id))
    assert (shown["state"], shown["kind"], shown["cancelling"]) == ("running", "score", False)
    assert "payload" not in shown
    assert "holder" not in shown
    assert "process" in str(Jobs(open_services(app), caller("admin")).get(job.id).holder)


def test_a_submission_is_scored_whoever_would_rather_not(app: App) -> None:
    with pytest.raises(Conflict, match="a job of the kind 'score' cannot be cancelled"):
        Jobs(open_services(app), caller("admin")).cancel(add(app).id)


def test_a_run_goes_with_its_job(app: App) -> None:
    jobs = Resources.over(app.store).jobs
    ((record, job),) = RemoteRuns(app, RemoteRules()).submit(SUITE, ["echo/a"], owner="alice")
    assert jobs.cancel(job).state == "cancelled"
    assert app.store.run(record.id).status == "cancelled"
    assert jobs.retry(job).state == "queued"
    assert app.store.run(record.id).status == "queued"


def end_later(app: App, begun: threading.Event) -> threading.Thread:
    """Ends the one job when the other thread waits for it."""

    def end() -> None:
        (claimed,) = app.store.job_queue.claim(["score"], 1)
        app.store.jobs.wakeups.hold(claimed.id)
        begun.wait(30)
        app.store.job_queue.finish(claimed, "result")

    thread = threading.Thread(target=end)
    thread.start()
    return thread


def test_waiting_ends_with_the_job(app: App, jobs: JobService) -> None:
    job = add(app)
    begun = threading.Event()
    thread = end_later(app, begun)
    begun.set()
    assert asyncio.run(jobs.await_end(job.id, 30.0)).result == "result"
    thread.join()
    assert asyncio.run(jobs.await_end(job.id, 30.0)).state == "done"


def test_waiting_lets_others_go_on(app: App, jobs: JobService) -> None:
    job = add(app)
    begun = threading.Event()
    thread = end_later(app, begun)

    async def wait() -> Job:
        waiting = asyncio.create_task(jobs.await_end(job.id, 30.0))
        await asyncio.sleep(0)
        begun.set()
        return await waiting

    assert asyncio.run(wait()).result == "result"
    thread.join()


def test_waiting_ends_without_the_job(app: App, jobs: JobService) -> None:
    job = add(app)
    assert asyncio.run(jobs.await_end(job.id, 0.0)).state == "queued"
    assert asyncio.run(jobs.await_end(job.id, 0.0)).state == "queued"
    assert not app.store.jobs.wakeups._waiting


def test_a_job_that_another_process_ends_is_found_by_looking(app: App, jobs: JobService) -> None:
    """The other store has a bell of its own, as another process has."""
    job = add(app)
    with closing(App(app.db)) as other:
        (claimed,) = other.store.job_queue.claim(["score"], 1)
        thread = threading.Thread(target=other.store.job_queue.finish, args=(claimed, "far"))
        thread.start()
        assert asyncio.run(jobs.await_end(job.id, 30.0)).result == "far"
        thread.join()


def test_a_job_that_is_cancelled_has_ended(app: App, jobs: JobService) -> None:
    job = add(app, "rescore")
    thread = threading.Thread(target=app.store.jobs.cancel, args=(job.id,))
    thread.start()
    assert asyncio.run(jobs.await_end(job.id, 30.0)).state == "cancelled"
    thread.join()


def test_a_job_that_is_handed_back_has_not_ended(app: App, jobs: JobService) -> None:
    job = add(app)
    (claimed,) = app.store.job_queue.claim(["score"], 1)

    def hand_back_and_end() -> None:
        app.store.job_queue.release(claimed)
        (again,) = app.store.job_queue.claim(["score"], 1)
        app.store.job_queue.finish(again, "in the end")

    thread = threading.Thread(target=hand_back_and_end)
    thread.start()
    assert asyncio.run(jobs.await_end(job.id, 30.0)).result == "in the end"
    thread.join()
