"""Workers: jobs done once, handed back, taken over, ended when asked, and the kinds there are."""

from __future__ import annotations

import asyncio
import base64
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripts.server_process import require_as_logged
from sqlalchemy import update
from tests.challenges.challenge_folders import folder_with
from tests.service.test_competition import SUMS
from tests.service.test_webhooks import Receiver, receiver

from tallymark.challenges.attempt import Payload
from tallymark.challenges.challenge_folder import pack
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.service.app import App
from tallymark.service.jobs import JobService
from tallymark.service.remote_runs import RemoteRuns, RunWish
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.resources import Resources
from tallymark.service.stop_signals import StopSignal
from tallymark.service.workers import KINDS, JobKind, Task, TryLater, Workers, find_delay
from tallymark.store.job_queue import JobQueue
from tallymark.store.jobs import Job, NewJob
from tallymark.store.jobs import jobs as job_table

LONG = 60.0
ANYTHING = RemoteRules(may=frozenset({"python", "private-addresses"}))
KILLED_ELSEWHERE = {"decide", "rule", "backfill"}
"""Those of rules: by scripts/prove_rules.py, under ingest."""
__all__ = ["receiver"]


@pytest.fixture
def app(own_url: str) -> Iterator[App]:
    with closing(App(own_url)) as opened:
        yield opened


def add(
    app: App, kind: str = "test", subject: str = "s1", owner: str = "alice", **payload: Any
) -> Job:
    return app.store.jobs.add(NewJob(kind=kind, subject=subject, owner=owner, payload=payload))


def wait(app: App, job: Job | str) -> Job:
    name = job if isinstance(job, str) else job.id
    return asyncio.run(JobService(app.store).await_end(name, LONG))


def table(handle: Callable[[Task], Any], **options: Any) -> dict[str, JobKind]:
    return {"test": JobKind(handle, **options)}


def work(app: App, handle: Callable[[Task], Any], **options: Any) -> Workers:
    return Workers(app, 2, ["test"], table=table(handle, **options))


def test_a_job_is_done_and_its_result_kept(app: App) -> None:
    with work(app, lambda task: {"twice": 2 * task.job.payload["number"]}):
        done = wait(app, add(app, number=21))
    assert (done.state, done.result, done.error) == ("done", {"twice": 42}, None)


def test_the_tenant_of_a_job_is_that_of_its_app(app: App) -> None:
    other = app.for_tenant("other")
    with work(app, lambda task: task.app.tenant):
        assert wait(other, add(other)).result == "other"


def test_what_is_wrong_with_the_input_fails_at_once(app: App) -> None:
    def refuse(_: Task) -> None:
        raise InvalidInput("there is no challenge 'x'", hint="look again")

    with work(app, refuse):
        failed = wait(app, add(app))
    assert (failed.state, failed.error) == ("failed", "there is no challenge 'x'; look again")


def test_our_failure_is_tried_again_later(app: App) -> None:
    tried = threading.Event()

    def fail(_: Task) -> None:
        tried.set()
        raise TryLater("no sandbox")

    job = add(app)
    with work(app, fail, most_failures=None):
        assert tried.wait(LONG)
    waiting = app.store.jobs.get(job.id)
    assert (waiting.state, waiting.failures, waiting.error) == ("queued", 1, "no sandbox")
    assert waiting.not_before > waiting.created_at + 1


def test_what_fails_again_and_again_is_given_up(app: App) -> None:
    def fail(_: Task) -> None:
        raise ZeroDivisionError("a secret")

    with work(app, fail, most_failures=1):
        failed = wait(app, add(app))
    assert (failed.state, failed.error) == ("failed", "internal error: ZeroDivisionError")


def test_an_end_that_cannot_be_stored_is_told_in_one_sentence(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Event()

    def finish(*_: Any, **__: Any) -> None:
        tried.set()
        raise WorkFailed("the disk is full")

    monkeypatch.setattr(JobQueue, "finish", finish)
    job = add(app)
    with work(app, lambda _: None):
        assert tried.wait(LONG)
    (entry,) = [each for each in caplog.records if job.id in each.getMessage()]
    assert (
        entry.getMessage() == f"the end of the job {job.id} could not be stored: the disk is full"
    )
    assert entry.exc_info is None


def test_delays_grow_to_a_quarter_of_an_hour() -> None:
    assert [find_delay(n) for n in (0, 1, 2, 8, 9, 10_000)] == [2, 4, 8, 512, 900, 900]


def test_no_more_at_a_time_than_there_are_workers(app: App) -> None:
    both, go = threading.Barrier(3), threading.Event()

    def handle(task: Task) -> None:
        if task.job.subject != "s3":
            both.wait(LONG)
            go.wait(LONG)

    jobs = [add(app, subject=f"s{n}", owner=f"owner-{n}") for n in (1, 2, 3)]
    with work(app, handle) as workers:
        both.wait(LONG)
        assert workers.busy == 2
        assert app.store.jobs.get(jobs[2].id).state == "queued"
        go.set()
        assert {wait(app, each).state for each in jobs} == {"done"}


def test_who_asked_for_its_end_is_heard(app: App) -> None:
    begun = threading.Event()

    def handle(task: Task) -> dict[str, str]:
        ended = threading.Event()
        task.stop.when_set(ended.set)
        begun.set()
        assert ended.wait(LONG)
        return {"status": str(task.stop.reason)}

    job = add(app)
    with work(app, handle):
        assert begun.wait(LONG)
        app.store.jobs.cancel(job.id)
        assert wait(app, job).state == "cancelled"


def test_what_does_not_end_in_time_is_handed_back(app: App) -> None:
    begun, never = threading.Event(), threading.Event()

    def hang(_: Task) -> None:
        begun.set()
        never.wait(LONG)

    first, second = add(app), add(app, subject="s2")
    workers = Workers(app, 1, ["test"], table=table(hang))
    workers.start()
    assert begun.wait(LONG)
    workers.stop(0.0)
    for job in (first, second):
        left = app.store.jobs.get(job.id)
        assert (left.state, left.takeovers) == ("queued", 0)
    never.set()  # it ends now, and finds that the job is not its own any more
    with work(app, lambda _: "by another"):
        assert [wait(app, each).result for each in (first, second)] == ["by another"] * 2


def test_what_was_lost_to_another_is_not_ended_here(app: App) -> None:
    begun, go = threading.Event(), threading.Event()

    def handle(_: Task) -> str:
        begun.set()
        assert go.wait(LONG)
        return "too late"

    job = add(app)
    with work(app, handle):
        assert begun.wait(LONG)
        taken = update(job_table).values(token="another's", result="theirs")
        app.store._database.write(lambda c: c.execute(taken))
        go.set()
    kept = app.store.jobs.get(job.id)
    assert (kept.state, kept.result) == ("running", "theirs")


def test_an_unknown_kind_is_refused(app: App) -> None:
    with pytest.raises(InvalidInput, match="no kind of job called 'scoer'; known are score, set"):
        Workers(app, 1, ["scoer"])


# The kinds


def publish(app: App, tmp_path: Path, text: str = SUMS) -> None:
    games = app.competition()
    games.publish(folder_with(tmp_path / "sums", text, {"truth.json": '{"sum": 42}'}))
    games.close()


def submit(app: App, answer: Any, agent: str = "alice") -> str:
    """A submission that nobody has scored, as the write path of a server leaves it."""
    games = app.competition()
    entry = games.enter("sums", agent)
    at = entry.attempt.entered_at + 1
    app.store.attempts.submit(entry.attempt.id, agent, Payload(submission=answer), at=at)
    games.close()
    return entry.attempt.id


def test_score_settles_an_attempt(app: App, tmp_path: Path) -> None:
    publish(app, tmp_path)
    attempt = submit(app, {"sum": 42})
    with Workers(app, 2):
        done = wait(app, add(app, "score", attempt))
    assert (done.state, done.result["state"]) == ("done", "scored")
    assert done.result["score"] == pytest.approx(999.0)
    assert app.store.attempts.get(attempt).state == "scored"


def test_score_leaves_an_attempt_waiting_when_we_fail(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(app, tmp_path)
    attempt = submit(app, {"sum": 42})

    def fail(*_: object, **__: object) -> None:
        raise WorkFailed("the disk is full")

    monkeypatch.setattr("tallymark.service.competition.evaluate", fail)
    tried = threading.Event()

    def handle(task: Task) -> Any:
        try:
            return KINDS["score"].handle(task)
        finally:
            tried.set()

    job = add(app, "score", attempt)
    with Workers(app, 1, ["score"], table={"score": JobKind(handle, None)}):
        assert tried.wait(LONG)
    assert app.store.attempts.get(attempt).waiting == "the disk is full"
    again = app.store.jobs.get(job.id)
    assert (again.state, again.error) == ("queued", "the disk is full")


def test_settle_makes_jobs_of_what_was_left(app: App, tmp_path: Path) -> None:
    publish(app, tmp_path)
    attempt = submit(app, {"sum": 41})
    with Workers(app, 2):
        settled = wait(app, add(app, "settle", "settle"))
        assert settled.result == {"expired": 0, "pending": 1}
        job = app.store.jobs.find("score", attempt)
        assert job is not None
        assert wait(app, job).state == "done"


def test_rescore_scores_a_challenge_by_another_rule(app: App, tmp_path: Path) -> None:
    publish(app, tmp_path)
    attempt = submit(app, {"sum": 42})
    with Workers(app, 2):
        wait(app, add(app, "score", attempt))
        rule: dict[str, Any] = {"challenge": "sums", "scoring": {"formula": "5 * succeeded"}}
        done = wait(app, add(app, "rescore", "sums", **rule))
        assert (done.state, done.result["rescoring"]["attempts"]) == ("done", 1)
        wrong: dict[str, Any] = {"challenge": "sums", "scoring": {"formula": "5 * nothing"}}
        assert wait(app, add(app, "rescore", "sums", **wrong)).state == "failed"
    outcome = app.store.attempts.get(attempt).outcome
    assert outcome is not None
    assert outcome.score == 5.0


def test_rescore_by_new_files(app: App, tmp_path: Path) -> None:
    publish(app, tmp_path)
    attempt = submit(app, {"sum": 43})
    new = folder_with(tmp_path / "new", SUMS, {"truth.json": '{"sum": 43}'})
    with Workers(app, 2):
        wait(app, add(app, "score", attempt))
        packed = base64.b64encode(pack(new)).decode()
        done = wait(app, add(app, "rescore", "sums", challenge="sums", packed=packed))
    assert done.state == "done", done.error
    outcome = app.store.attempts.get(attempt).outcome
    assert outcome is not None
    assert outcome.metrics.succeeded


SUITE = """
metadata: {name: greetings}
evals:
  - {name: hi, prompt: hi, checks: [{match: "*hi*"}]}
  - {name: ho, prompt: ho, checks: [{match: "*hi*"}]}
score: success_pct
"""


def test_run_runs_a_suite(app: App) -> None:
    ((record, job),) = RemoteRuns(app, RemoteRules()).submit(SUITE, ["echo/me"], owner="alice")
    assert app.store.run(record.id).status == "queued"
    with Workers(app, 2):
        done = wait(app, job)
    assert done.state == "done", done.error
    run = app.store.run(record.id)
    assert (run.status, run.score, run.passed, run.failed) == ("completed", 50.0, 1, 1)
    assert done.result == {"run": record.id, "status": "completed", "score": 50.0}
    assert "folder" not in run.tags
    assert run.started_at is not None


def test_rescore_run_keeps_another_run(app: App) -> None:
    ((record, job),) = RemoteRuns(app, RemoteRules()).submit(SUITE, ["echo/me"])
    with Workers(app, 2):
        wait(app, job)
        done = wait(app, add(app, "rescore_run", record.id, run=record.id, formula="2 * hi"))
        by_suite = {"run": record.id, "suite": SUITE.replace('"*hi*"', '"*h*"')}
        better = wait(app, add(app, "rescore_run", "another", **by_suite))
    assert app.store.run(done.result["run"]).score == 2.0
    assert app.store.run(better.result["run"]).score == 100.0


def test_rescore_run_asks_with_the_prompt_of_the_run(app: App) -> None:
    suite = "prompts: {bare: hi, led: ho}\nevals: [{name: hi, checks: [match: hi]}]"
    submitted = RemoteRuns(app, RemoteRules()).submit(suite, ["echo/me"])
    with Workers(app, 2):
        for record, job in submitted:
            wait(app, job)
            by_suite = {"run": record.id, "suite": suite.replace("match: hi", "match: h*")}
            done = wait(app, add(app, "rescore_run", record.id, **by_suite))
            again = app.store.run(done.result["run"])
            assert (again.score, again.tags["prompt"]) == (100.0, record.tags["prompt"])
            assert "rescore_notes" not in again.tags


MODEL = """
import pathlib, time
def answer(prompt):
    here = pathlib.Path(__file__).parent
    with (here / "asked").open("a") as file:
        file.write(prompt + "\\n")
    while prompt == "ho" and not (here / "go").exists():
        time.sleep(0.01)
    return prompt
"""


def slow_run(app: App, tmp_path: Path) -> tuple[str, str]:
    """A run whose second case waits for a file."""
    (tmp_path / "model.py").write_text(MODEL)
    reference = f"python/{tmp_path}/model.py:answer"
    ((record, job),) = RemoteRuns(app, ANYTHING).submit(SUITE, [reference], RunWish(threads=1))
    return record.id, job


def until(condition: Callable[[], bool]) -> None:
    """Waits for a state that another process brings about."""
    pause = threading.Event()
    for _ in range(int(LONG / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    pytest.fail("it never came")


def read(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_a_run_is_cancelled_while_it_runs(app: App, tmp_path: Path) -> None:
    run, job = slow_run(app, tmp_path)
    with Workers(app, 1, rules=ANYTHING):
        until(lambda: read(tmp_path / "asked") == ["hi", "ho"])
        RemoteRuns(app, ANYTHING).cancel(run)
        assert wait(app, job).state == "cancelled"
        (tmp_path / "go").touch()
    record = app.store.run(run)
    assert (record.status, record.error, record.passed) == ("cancelled", "stopped by hand", 1)


def test_a_run_that_takes_too_long_is_ended(app: App, tmp_path: Path) -> None:
    run, job = slow_run(app, tmp_path)
    short = RemoteRules(may=ANYTHING.may, most_seconds=0.5)
    with Workers(app, 1, rules=short):
        assert wait(app, job).state == "done"
        (tmp_path / "go").touch()
    record = app.store.run(run)
    assert (record.status, record.error) == ("cancelled", "its time was up")


def test_a_run_is_handed_back_at_a_shutdown_and_goes_on(app: App, tmp_path: Path) -> None:
    run, job = slow_run(app, tmp_path)
    with Workers(app, 1, rules=ANYTHING):
        until(lambda: read(tmp_path / "asked") == ["hi", "ho"])
    left = app.store.jobs.get(job)
    assert (left.state, left.takeovers) == ("queued", 0)
    assert app.store.run(run).status == "queued"
    (tmp_path / "go").touch()
    with Workers(app, 1, rules=ANYTHING):
        assert wait(app, job).state == "done"
    assert app.store.run(run).status == "completed"
    assert read(tmp_path / "asked") == ["hi", "ho", "ho"]


WORKER = textwrap.dedent("""
    import sys, threading
    from contextlib import closing
    from tallymark.service.app import App
    from tallymark.service.remote_suites import RemoteRules
    from tallymark.service.workers import Workers
    with closing(App(sys.argv[1])) as app:
        with Workers(app, 1, rules=RemoteRules(may=frozenset({"python", "private-addresses"}))):
            threading.Event().wait()
""")


KILLED = WORKER.replace(
    "with closing(App",
    """
import os, signal
from dataclasses import replace
from tallymark.service import workers

def die(handle, before):
    def work(task):
        if not before:
            handle(task)
        os.kill(os.getpid(), signal.SIGKILL)
    return work

before = sys.argv[2] == "before"
for name, kind in workers.KINDS.items():
    workers.KINDS[name] = replace(kind, handle=die(kind.handle, before))
with closing(App""",
)
"""Dies in the middle of the first job it gets: before it did anything, or when all is done."""


def add_each_kind(app: App, tmp_path: Path, receiver: Receiver) -> dict[str, Job]:
    publish(app, tmp_path)
    hooks = Resources.over(app.store).webhooks
    hook = hooks.add(receiver.url, events=("gate.failed",)).webhook.id
    hooks.ping(hook)
    (told,) = app.store.deliveries.list(hook)
    delivery = app.store.jobs.find("deliver", told.id)
    assert delivery is not None
    scored, left = submit(app, {"sum": 42}), submit(app, {"sum": 42}, "bob")
    runs = RemoteRuns(app, RemoteRules())
    ((_, job),) = runs.submit(SUITE, ["echo/me"])
    (over,) = runs.check(SUITE, ["echo/me"])
    app.store.queue_runs([over], [])
    runs.execute(over.id, {}, StopSignal())
    rule: dict[str, Any] = {"challenge": "sums", "scoring": {"formula": "5 * succeeded"}}
    return {
        "announce": add(app, "announce", "all"),
        "deliver": delivery,
        "score": add(app, "score", scored),
        "settle": add(app, "settle", left),
        "run": app.store.jobs.get(job),
        "rescore": add(app, "rescore", "sums", **rule),
        "rescore_run": add(app, "rescore_run", over.id, run=over.id, formula="hi"),
    }


@pytest.mark.proof
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - KILLED_ELSEWHERE))
def test_a_worker_killed_in_the_middle_of_each_kind(
    app: App, tmp_path: Path, own_url: str, receiver: Receiver, kind: str, when: str
) -> None:
    """Whatever was done by then, the next worker comes to the same."""
    jobs = add_each_kind(app, tmp_path, receiver)
    others = [each for each in jobs.values() if each.kind != kind]
    change = update(job_table).where(job_table.c.id.in_([each.id for each in others]))
    app.store._database.write(lambda c: c.execute(change.values(not_before=1e12)))
    killed = subprocess.run([sys.executable, "-c", KILLED, own_url, when], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert app.store.jobs.get(jobs[kind].id).state == "running"
    app.store._database.write(lambda c: c.execute(change.values(not_before=0.0)))
    with Workers(app, 1, rules=ANYTHING) as workers:
        for each in jobs.values():
            done = wait(app, each)
            assert done.state == "done", (each.kind, done.error)
        workers.wait_until_idle(threading.Event())
    assert app.store.jobs.get(jobs[kind].id).takeovers == 1
    for subject in (jobs["score"].subject, jobs["settle"].subject):
        assert app.store.attempts.get(subject).state == "scored"
    assert len(receiver.got) == 1
    require_as_logged(app.store, "scores", "runs", "jobs")


def test_a_run_whose_worker_is_killed_goes_on_where_it_was(
    app: App, tmp_path: Path, own_url: str
) -> None:
    run, job = slow_run(app, tmp_path)
    with subprocess.Popen([sys.executable, "-c", WORKER, own_url]) as worker:
        until(lambda: read(tmp_path / "asked") == ["hi", "ho"])
        until(lambda: len(app.store.result_keys(run)) == 1)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert app.store.run(run).status == "interrupted"
    (tmp_path / "go").touch()
    with Workers(app, 1, rules=ANYTHING):
        done = wait(app, job)
    assert (done.state, done.takeovers) == ("done", 1)
    record = app.store.run(run)
    assert (record.status, record.passed, record.failed) == ("completed", 1, 1)
    assert read(tmp_path / "asked") == ["hi", "ho", "ho"]  # what was answered is not asked again
    require_as_logged(app.store, "runs", "jobs")


def test_who_never_began_can_be_stopped(app: App) -> None:
    Workers(app).stop(0.0)
