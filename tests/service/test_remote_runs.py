"""Runs that a server does for others: checked at once, queued, ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tallymark.errors import Conflict, InvalidInput, WorkFailed
from tallymark.service.app import App
from tallymark.service.remote_runs import RemoteRuns, RunWish
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.stop_signals import StopSignal

SUITE = """
metadata: {name: s, threads: 500, tags: {team: blue}}
evals:
  - {prompt: hi, checks: [{match: hi}]}
  - {prompt: ho, checks: [{match: hi}]}
"""
PROMPTS = """
metadata: {model: [echo/a, echo/b]}
prompts: {one: "1 {{var('x')}}", two: "2 {{var('x')}}"}
evals: [{vars: {x: a}, checks: [{match: "*"}]}]
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with closing(App(str(tmp_path / "tally.db"))) as opened:
        yield opened


@pytest.fixture
def runs(app: App) -> RemoteRuns:
    return RemoteRuns(app, RemoteRules(), clock=lambda: 5.0)


def test_checking_keeps_nothing(app: App, runs: RemoteRuns) -> None:
    (record,) = runs.check(SUITE, ["echo/a"], RunWish(epochs=2))
    assert (record.status, record.total, record.epochs) == ("queued", 4, 2)
    assert not app.store.exists


def test_each_prompt_with_each_model_is_a_run(app: App, runs: RemoteRuns) -> None:
    queued = runs.submit(PROMPTS, owner="alice")
    records = [app.store.run(record.id) for record, _ in queued]
    assert {(each.model, each.tags["prompt"]) for each in records} == {
        (model, prompt) for model in ("echo/a", "echo/b") for prompt in ("one", "two")
    }
    assert len({each.group for each in records}) == 1
    for record, job in queued:
        done = runs.execute(record.id, {}, StopSignal())
        assert done.status == "completed"
        assert app.store.jobs.get(job).owner == "alice"
        (result,) = app.store.results(record.id)
        assert result.output == {"one": "1 a", "two": "2 a"}[record.tags["prompt"]]


def test_threads_have_a_limit(app: App, runs: RemoteRuns) -> None:
    runs.submit(SUITE, ["echo/a"])
    (claimed,) = app.store.job_queue.claim(["run"], 1)
    assert claimed.payload["threads"] == 32


def test_a_run_that_is_over_is_not_done_again(app: App, runs: RemoteRuns) -> None:
    ((record, _),) = runs.submit(SUITE, ["echo/a"])
    first = runs.execute(record.id, {}, StopSignal())
    assert runs.execute(record.id, {}, StopSignal()) == app.store.run(record.id)
    assert (first.score, first.tags["team"]) == (50.0, "blue")


def test_a_run_that_another_still_holds_is_left_to_it(app: App, runs: RemoteRuns) -> None:
    ((record, _),) = runs.submit(SUITE, ["echo/a"])
    with closing(App(app.db)) as other:
        other.store.claim_run(record.id)
        with pytest.raises(WorkFailed, match="another process still works on the run"):
            runs.execute(record.id, {}, StopSignal())


def test_values_come_from_the_request_and_the_store(app: App, runs: RemoteRuns) -> None:
    suite = "evals: [{prompt: \"{{var('a')}} {{var('b')}}\", checks: [{match: '1 2'}]}]"
    app.store.set_var("a", "1")
    with pytest.raises(InvalidInput, match="b"):
        runs.submit(suite, ["echo/a"])
    ((record, _),) = runs.submit(suite, ["echo/a"], RunWish(vars={"b": "2"}))
    payload = {"vars": {"b": "2"}}
    assert runs.execute(record.id, payload, StopSignal()).passed == 1


def test_a_run_that_waits_is_cancelled(app: App, runs: RemoteRuns) -> None:
    ((record, job),) = runs.submit(SUITE, ["echo/a"])
    for _ in range(2):
        assert runs.cancel(record.id).status == "cancelled"
    assert app.store.jobs.get(job).state == "cancelled"


def test_a_run_that_is_over_is_not_cancelled(app: App, runs: RemoteRuns) -> None:
    ((record, _),) = runs.submit(SUITE, ["echo/a"])
    runs.execute(record.id, {}, StopSignal())
    (claimed,) = app.store.job_queue.claim(["run"], 1)
    app.store.job_queue.finish(claimed)
    with pytest.raises(Conflict, match="does not wait or run here: it is completed"):
        runs.cancel(record.id)


def test_an_end_that_was_asked_for_before_a_worker_died(app: App, runs: RemoteRuns) -> None:
    ((record, _),) = runs.submit(SUITE, ["echo/a"])
    stop = StopSignal()
    stop.set("cancelled")
    assert runs.execute(record.id, {}, stop).status == "cancelled"


def test_no_model_is_one_sentence(runs: RemoteRuns) -> None:
    with pytest.raises(InvalidInput, match=r"no model is named; name one in models or metadata"):
        runs.submit(SUITE)


def test_a_request_that_is_made_again_queues_nothing_twice(runs: RemoteRuns) -> None:
    ((other, _),) = runs.submit(SUITE, ["echo/me"])
    first, second = (runs.submit(PROMPTS, asked_as="1700000000-k") for _ in range(2))
    assert first == second
    assert {record.id for record, _ in first} == {each.id for each in runs.app.store.runs()} - {
        other.id
    }
    assert {job for _, job in first} < {each.id for each in runs.app.store.jobs.list()}
    assert len(runs.app.store.jobs.list()) == len(first) + 1 == 5
    assert runs.submit(PROMPTS, asked_as="1700000000-x")[0][0].id != first[0][0].id
