"""No owner and no tenant takes all workers, and no submission holds one for ever."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.store.contest_samples import a_challenge, submitted

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule, Submission
from tallymark.challenges.evaluators import (
    EvaluationSetting,
    Submitted,
    evaluate,
    function_calls,
    suite,
)
from tallymark.challenges.submitted_agents import open_agent
from tallymark.errors import ModelError
from tallymark.models import Message, Request
from tallymark.models import egress_policy as addresses
from tallymark.service.app import App
from tallymark.service.resources import Resources
from tallymark.service.webhooks import Answered, DeliveryPauses, Paused, WebhookSender, make_egress
from tallymark.service.workers import KINDS, JobKind, Task, Workers
from tallymark.store.jobs import NewJob

LONG = 60.0


@pytest.fixture
def app(empty_url: str) -> Iterator[App]:
    with closing(App(empty_url)) as opened:
        opened.store.prepare()
        yield opened


def play(app: App, count: int, slow: list[tuple[str, str]], other: tuple[str, str]) -> set[str]:
    """Which of the slow jobs have begun when another's is done."""
    let_go, done, begun = threading.Event(), threading.Event(), set[str]()

    def handle(task: Task) -> None:
        if task.job.subject == "other":
            done.set()
        else:
            begun.add(task.job.subject)
            let_go.wait(LONG)

    def add(tenant: str, owner: str, subject: str) -> None:
        store = app.for_tenant(tenant).store
        store.jobs.add(NewJob(kind="test", subject=subject, owner=owner))

    for number, (tenant, owner) in enumerate(slow):
        add(tenant, owner, f"slow {number}")
    with Workers(app, count, ["test"], table={"test": JobKind(handle)}) as workers:
        while workers.busy < count - 1:
            threading.Event().wait(0.01)
        add(*other, "other")
        assert done.wait(LONG)
        found = set(begun)
        let_go.set()
    return found


def test_an_owner_leaves_a_worker_to_others(app: App) -> None:
    slow = [("default", "mallory")] * 4
    assert len(play(app, 3, slow, ("default", "bob"))) == 2


def test_a_tenant_leaves_a_worker_to_others(app: App) -> None:
    Resources.over(app.store).tenants.add("acme")
    slow = [("acme", f"owner-{number}") for number in range(4)]
    assert len(play(app, 2, slow, ("default", "bob"))) == 1


def test_without_other_tenants_no_worker_is_idle(app: App) -> None:
    """Two owners have both workers; whoever comes next waits for one of them."""
    let_go, both = threading.Event(), threading.Barrier(3)

    def handle(_: Task) -> None:
        both.wait(LONG)
        let_go.wait(LONG)

    for owner in ("alice", "bob"):
        app.store.jobs.add(NewJob(kind="test", subject=owner, owner=owner))
    with Workers(app, 2, ["test"], table={"test": JobKind(handle)}):
        both.wait(LONG)
        let_go.set()


def test_what_takes_long_leaves_scoring_alone(app: App) -> None:
    """One worker, and more long jobs than it can do."""
    let_go, begun, done = threading.Event(), threading.Event(), threading.Event()

    def hang(_: Task) -> None:
        begun.set()
        let_go.wait(LONG)

    table = {
        "run": JobKind(hang),
        "score": JobKind(lambda _: done.set(), lane="score"),
        "deliver": JobKind(hang, lane="deliver"),
    }
    for number in range(20):
        for kind in ("run", "deliver"):
            app.store.jobs.add(NewJob(kind=kind, subject=str(number), owner=f"owner-{number}"))
    with Workers(app, 1, tuple(table), table=table):
        assert begun.wait(LONG)
        app.store.jobs.add(NewJob(kind="score", subject="s", owner="zoe"))
        assert done.wait(LONG)
        let_go.set()


def test_a_webhook_has_a_few_of_the_threads_for_deliveries(app: App) -> None:
    let_go, all_begun, begun = threading.Event(), threading.Event(), Counter[str]()

    def hang(task: Task) -> None:
        begun[task.job.owner] += 1
        if len(begun) == 3:
            all_begun.set()
        let_go.wait(LONG)

    for owner in ("bad", "worse", "good"):
        for number in range(10):
            app.store.jobs.add(NewJob(kind="deliver", subject=f"{owner} {number}", owner=owner))
    with Workers(app, 1, ["deliver"], table={"deliver": JobKind(hang, lane="deliver")}):
        assert all_begun.wait(LONG)
        found = dict(begun)
        let_go.set()
    assert set(found) == {"bad", "worse", "good"}
    assert max(found.values()) <= 4


def test_an_address_that_fails_is_asked_by_one_message_at_a_time(app: App) -> None:
    """Nobody listens there; of ten messages the others wait without being tried."""
    store = app.store
    made = Resources.over(store).webhooks.add("http://127.0.0.1:9/hook")
    for _ in range(10):
        Resources.over(store).webhooks.ping(made.webhook.id)
    pauses = DeliveryPauses()
    sender = WebhookSender(store, make_egress(frozenset(), own=True), time.time, pauses)
    found = [sender.deliver(each.id) for each in store.deliveries.list(made.webhook.id)]
    assert isinstance(found[0], Answered)
    assert all(isinstance(each, Paused) for each in found[1:])
    tried = sorted(each.tries for each in store.deliveries.list(made.webhook.id))
    assert tried == [0] * 9 + [1]


def test_an_owner_of_many_agents_leaves_a_worker_to_others(app: App) -> None:
    """Attempts that were left submitted, which a job finds, are their agents' owners'."""
    app.store.challenges.publish(a_challenge(), b"", at=0.0)
    agents = dict.fromkeys(("m1", "m2", "m3"), "mallory") | {"zoe": "zoe"}
    subjects = {submitted(app.store, agent).id: agent for agent in agents}
    for agent, owner in agents.items():
        app.store.agents.give(agent, owner, at=0.0)
    let_go, done, begun = threading.Event(), threading.Event(), set[str]()

    def handle(task: Task) -> None:
        agent = subjects[task.job.subject]
        begun.add(agent)
        if agent == "zoe":
            done.set()
        else:
            let_go.wait(LONG)

    app.store.jobs.add(NewJob(kind="settle", subject="settle"))
    table = {**KINDS, "score": JobKind(handle)}
    with Workers(app, 3, ["settle", "score"], table=table, clock=lambda: 20.0):
        assert done.wait(LONG)
        found = begun - {"zoe"}
        let_go.set()
    assert len(found) <= 2


def _make_key(app: App) -> str:
    key = "tly_" + secrets.token_hex(32)
    app.accounts.ensure_admin_key(key)
    return key


CASES = "[{name: one, stdout: x}, {name: two, stdout: x}, {name: three, stdout: x}]"


def run_tests(folder: Path, **options: Any) -> Evaluation:
    (folder / "cases.yaml").write_text(CASES, encoding="utf-8")
    challenge = Challenge(
        name="slow",
        title="slow",
        goal="x",
        version="1",
        submission=Submission(format="files"),
        evaluator=Evaluator(type="tests", options={"cases": "cases.yaml", **options}),
        scoring=ScoringRule(),
    )
    submitted = Submitted(answer={"solution.py": ""}, seed=1, elapsed_ms=7, tokens_total=1, calls=3)
    return evaluate(submitted, EvaluationSetting(challenge=challenge, folder=folder))


def test_a_submission_has_a_time_for_all_its_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run takes all that it may."""
    given: list[float] = []

    def run(*_: Any, limits: Any, **__: Any) -> SimpleNamespace:
        given.append(limits.wall_s)
        return SimpleNamespace(stopped="time", exit_code=None, wall_s=limits.wall_s)

    monkeypatch.setattr(function_calls, "run_limited", run)
    found = run_tests(tmp_path, time=2.0, total=3.0)
    assert given == [2.0, 1.0]
    assert (found.error, found.metrics.succeeded) == (None, False)
    (warning,) = found.warnings
    assert "the 3.00 s for all cases together were used up" in warning["message"]


def test_calls_share_the_time_for_all_cases(tmp_path: Path) -> None:
    program = function_calls.SubmittedProgram(
        files={}, entry="x.py", time_s=2.0, memory_mb=64, left=function_calls.TimeLeft(0.5)
    )
    talk = function_calls._CaseTalk(program, [(0, object()), (1, object())], None)  # type: ignore[arg-type, list-item]
    talk._until = 0.0  # the time is over
    turn = talk.hear(f"{talk._word}[]\n".encode())
    assert turn is function_calls._NOTHING_MORE


def test_a_name_is_not_looked_up_while_a_request_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    challenge = Challenge(
        name="agents",
        title="agents",
        goal="x",
        version="1",
        submission=Submission(format="agent"),
        evaluator=Evaluator(type="suite", options={"suite": "suite.yaml"}),
        scoring=ScoringRule(),
    )
    suite.refuse("http://agent.silent.example/v1", challenge, tmp_path)


def test_a_name_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    def ask(*_: Any, **__: Any) -> Any:
        let_go.wait(LONG)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(addresses, "LOOKUP_S", 0.05)
    with pytest.raises(OSError, match=r"looking up agent\.example"):
        asyncio.run(addresses.look_up("agent.example", 80, socket.AF_UNSPEC))
    let_go.set()


def test_a_name_that_leads_inside_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no operator limits what models may reach."""
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [info])

    async def ask() -> None:
        agent = open_agent("http://inside.example:9/v1", allow=["http"], folder=tmp_path)
        try:
            await agent.answer(Request(messages=(Message(role="user", content="hi"),)))
        finally:
            await agent.close()

    with pytest.raises(ModelError, match="no public address"):
        asyncio.run(ask())
