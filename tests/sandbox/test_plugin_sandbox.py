"""Warm guests: shared between threads, replaced, paused, ended; nothing of them stays behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.backends import FIRST, SAFE
from tests.sandbox.processes import (
    await_work,
    children,
    descendants,
    guests,
    has_computed,
    memory_kb,
    open_files,
)
from tests.sandbox.sample_plugins import BY_WISH, ORDINARY, plugin

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox import DeadlyCalls, Limits, PluginCode, Policy, Sandbox, bubblewrap

SOON_S = 30.0
"""Far longer than anything here takes; only a hang reaches it."""


@pytest.fixture(params=FIRST)
def policy(request: pytest.FixtureRequest) -> Policy:
    return Policy(request.param)


@pytest.fixture
def code(tmp_path: Path) -> PluginCode:
    return plugin(tmp_path / "ordinary", ORDINARY)


@pytest.fixture
def by_wish(tmp_path: Path) -> PluginCode:
    return plugin(tmp_path / "by-wish", BY_WISH)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test the sandbox is closed: no process, descriptor or thread of it remains."""
    Policy(SAFE[0])  # what is loaded once is loaded now
    before = open_files(), threading.active_count(), descendants()
    yield
    assert (open_files(), threading.active_count(), descendants()) == before


def ask(sandbox: Sandbox, code: PluginCode, wish: str = "", rating: int = 4) -> object:
    """The value, or how it was stopped."""
    timeout_s = 0.3 if wish == "loop" else SOON_S
    score = sandbox.score(code, {"rating": rating, "wish": wish}, {}, {}, timeout_s=timeout_s)
    return score.metadata["stopped"] if score.value is None else score.value


def test_a_score_has_its_origin(policy: Policy, code: PluginCode) -> None:
    with Sandbox(policy) as sandbox:
        score = sandbox.score(code, {"rating": 4}, {"factor": 2}, {})
    assert score.value == 8.0
    assert score.origin is not None
    assert (score.origin.scorer, score.origin.version) == ("scorer.py:Plugin", "hash-of-the-files")
    assert score.origin.config == {"factor": 2}


@pytest.mark.parametrize("given", [({}, None), (None, {}), ({}, [1]), ("text", {})])
def test_a_config_or_context_of_the_wrong_type_is_refused(
    policy: Policy, code: PluginCode, given: tuple[Any, Any]
) -> None:
    ctx, config = given
    wrong = "config" if config != {} else "context"
    with Sandbox(policy) as sandbox:
        with pytest.raises(InvalidInput, match=f"a plugin's {wrong} is a mapping, not"):
            sandbox.score(code, {"rating": 4}, config, ctx)
        with pytest.raises(InvalidInput, match=f"a plugin's {wrong} is a mapping, not"):
            sandbox.score_many(code, [{"rating": 4}], config, ctx)


def test_a_guest_stays_warm(policy: Policy, code: PluginCode) -> None:
    with Sandbox(policy) as sandbox:
        assert not sandbox.is_warm(code)
        ask(sandbox, code)
        first = guests(policy.backend)
        ask(sandbox, code)
        assert guests(policy.backend) == first
        assert sandbox.is_warm(code)


def test_random_numbers_are_new_in_every_call(policy: Policy, tmp_path: Path) -> None:
    draws = plugin(
        tmp_path / "draws",
        """
        import random
        class Plugin:
            def score(self, metrics, config, ctx):
                return {"score": random.random()}
        """,
    )
    with Sandbox(policy) as sandbox:
        assert len({ask(sandbox, draws) for _ in range(4)}) == 4


def test_a_guest_is_replaced_after_its_limit_of_calls(policy: Policy, code: PluginCode) -> None:
    with Sandbox(policy, recycle_after=2) as sandbox:
        seen = []
        for _ in range(4):
            assert ask(sandbox, code) == 4.0
            seen.append(guests(policy.backend))
    assert seen[1] == seen[3] == set()
    assert seen[0].isdisjoint(seen[2])


def test_an_idle_guest_ends(policy: Policy, code: PluginCode) -> None:
    with Sandbox(policy, idle_s=0.05) as sandbox:
        ask(sandbox, code)
        for pid in guests(policy.backend):
            await_end(pid)
        assert ask(sandbox, code) == 4.0


def await_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor, "rb", buffering=0):
        ready, _, _ = select.select([descriptor], [], [], SOON_S)
    assert ready, f"process {pid} is still there"


def test_a_guest_that_was_killed_is_replaced(policy: Policy, code: PluginCode) -> None:
    with Sandbox(policy) as sandbox:
        ask(sandbox, code)
        for pid in guests(policy.backend):
            os.kill(pid, signal.SIGKILL)
            await_end(pid)
        assert ask(sandbox, code) == 4.0


def test_a_guest_killed_during_a_call_is_replaced_without_a_failed_score(
    policy: Policy, by_wish: PluginCode
) -> None:
    """The call is made again in another guest, and ends as it would have."""
    with Sandbox(policy) as sandbox, ThreadPoolExecutor(1) as pool:
        metrics = {"rating": 4, "wish": "loop"}
        called = pool.submit(sandbox.score, by_wish, metrics, {}, {}, timeout_s=2.0)
        await_work(policy.backend)
        for pid in guests(policy.backend):
            os.kill(pid, signal.SIGKILL)
        assert called.result(SOON_S).metadata["stopped"] == "timeout"
        assert ask(sandbox, by_wish) == 4.0


def kill(pids: set[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        await_end(pid)


def find_workers(backend: str) -> set[int]:
    """The child that scores, once it does: not the one that waits for the next call."""
    await_work(backend)
    return {pid for pid in children(guests(backend)) if has_computed(pid)}


def test_an_attempt_whose_guests_are_killed_again_and_again_waits(
    policy: Policy, by_wish: PluginCode
) -> None:
    deadly = DeadlyCalls()
    with Sandbox(policy) as sandbox, ThreadPoolExecutor(1) as pool:
        metrics = [{"rating": 4, "wish": "loop"}]
        called = pool.submit(
            sandbox.score_many, by_wish, metrics, {}, {}, timeout_s=SOON_S, deadly=deadly
        )
        for _ in range(4):
            await_work(policy.backend)
            kill(guests(policy.backend))
        with pytest.raises(WorkFailed, match="was ended from outside, again and again"):
            called.result(SOON_S)
        assert deadly.deaths == {}
        assert ask(sandbox, by_wish) == 4.0


@pytest.mark.parametrize(("times", "stopped"), [(1, "timeout"), (2, "crashed")])
def test_a_process_of_a_plugin_that_is_killed_has_a_second_chance(
    policy: Policy, by_wish: PluginCode, times: int, stopped: str
) -> None:
    with Sandbox(policy) as sandbox, ThreadPoolExecutor(1) as pool:
        metrics = {"rating": 4, "wish": "loop"}
        called = pool.submit(sandbox.score, by_wish, metrics, {}, {}, timeout_s=2.0)
        for _ in range(times):
            kill(find_workers(policy.backend))
        assert called.result(SOON_S).metadata["stopped"] == stopped


def test_an_attempt_that_kills_its_process_fails(policy: Policy, by_wish: PluginCode) -> None:
    with Sandbox(policy) as sandbox:
        metrics = {"rating": 4, "wish": "kill itself"}
        score = sandbox.score(by_wish, metrics, {}, {}, timeout_s=SOON_S)
    assert score.error == "the plugin was killed twice (SIGKILL), or killed itself"
    assert (score.value, score.metadata["stopped"]) == (None, "crashed")


def test_an_agent_whose_attempts_end_processes_is_paused_alone(
    policy: Policy, by_wish: PluginCode
) -> None:
    deadly = DeadlyCalls(pause_after=3)

    def scored(user: str, *wishes: str) -> list[object]:
        attempts = [{"rating": 4, "wish": wish} for wish in wishes]
        found = sandbox.score_many(
            by_wish, attempts, {}, {}, users=[user] * len(wishes), timeout_s=0.3, deadly=deadly
        )
        return [each.metadata.get("stopped") if each.value is None else 4.0 for each in found]

    with Sandbox(policy) as sandbox:
        assert scored("mallory", "exit", "raise") == ["crashed", "raised"]
        assert scored("mallory", "loop", "", "crash", "", "") == [
            "timeout", 4.0, "crashed", "paused", "paused"
        ]  # fmt: skip
        assert scored("alice", "", "") == [4.0, 4.0]
    assert deadly.deaths == {"mallory": (3, "the plugin crashed (SIGSEGV), or aborted itself")}


def test_limits_are_those_of_the_sandbox(policy: Policy, tmp_path: Path) -> None:
    source = """
        import resource
        class Plugin:
            def score(self, metrics, config, ctx):
                return {"score": resource.getrlimit(resource.RLIMIT_AS)[1] / 2**20}
    """
    with Sandbox(policy, limits=Limits(memory_mb=200)) as sandbox:
        assert sandbox.score(plugin(tmp_path, source), {}, {}, {}).value == 200.0


def test_eight_threads_at_once_get_their_own_scores(
    policy: Policy, code: PluginCode, by_wish: PluginCode
) -> None:
    def work(worker: int) -> list[object]:
        which = (code, by_wish)[worker % 2]
        return [ask(sandbox, which, rating=worker * 100 + at) for at in range(20)]

    with Sandbox(policy) as sandbox, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [[float(worker * 100 + at) for at in range(20)] for worker in range(8)]


@pytest.mark.parametrize("calls", [20, pytest.param(40, marks=pytest.mark.proof)])
def test_under_load_one_call_in_ten_hostile(
    policy: Policy, code: PluginCode, by_wish: PluginCode, calls: int
) -> None:
    wishes = ("exit", "crash", "raise", "memory", "fork", "nan", "loop")

    def work(worker: int) -> int:
        wrong = 0
        for at in range(calls):
            if at % 10 == worker:
                wrong += ask(sandbox, by_wish, wishes[(worker + at // 10) % 7]) == 4.0
            else:
                wrong += ask(sandbox, (code, by_wish)[at % 2]) != 4.0
        return wrong

    with Sandbox(policy) as sandbox, ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 0
        before = {pid: memory_kb(pid) for pid in (os.getpid(), *guests(policy.backend))}
        assert sum(pool.map(work, range(8))) == 0
        after = {pid: memory_kb(pid) for pid in (os.getpid(), *guests(policy.backend))}
    assert after.keys() == before.keys()
    assert all(held - before[pid] < 10_000 for pid, held in after.items())


def test_a_guest_outlives_the_thread_that_started_it(policy: Policy, code: PluginCode) -> None:
    with Sandbox(policy) as sandbox:
        thread = threading.Thread(target=ask, args=(sandbox, code))
        thread.start()
        thread.join()
        first = guests(policy.backend)
        assert ask(sandbox, code) == 4.0
        assert guests(policy.backend) == first


def test_nothing_lives_on_when_the_host_is_killed(policy: Policy, by_wish: PluginCode) -> None:
    """Not even the child that was in the middle of a call."""
    program = f"""
        from pathlib import Path
        from tallymark.sandbox import PluginCode, Policy, Sandbox
        code = PluginCode("x", Path({str(by_wish.root)!r}), "scorer", "Plugin", "x")
        sandbox = Sandbox(Policy({policy.backend!r}))
        sandbox.score(code, {{"rating": 1, "wish": "loop"}}, {{}}, {{}}, timeout_s=3600)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(words) as host:
        try:
            await_work(policy.backend, host.pid)
            family = descendants(host.pid)
        finally:
            host.kill()  # or leaving the block would wait for an hour
    for pid in family:
        await_end(pid)


def test_a_closed_sandbox_takes_no_calls(policy: Policy, code: PluginCode) -> None:
    sandbox = Sandbox(policy)
    ask(sandbox, code)
    sandbox.close()
    sandbox.close()
    with pytest.raises(WorkFailed, match="closed"):
        ask(sandbox, code)


def test_closing_waits_for_calls_under_way(policy: Policy, by_wish: PluginCode) -> None:
    with Sandbox(policy) as sandbox, ThreadPoolExecutor(1) as pool:
        metrics = {"rating": 4, "wish": "loop"}
        called = pool.submit(sandbox.score, by_wish, metrics, {}, {}, timeout_s=2)
        await_work(policy.backend)
        sandbox.close()
        assert called.result(SOON_S).metadata["stopped"] == "timeout"


def test_a_missing_root_is_reported(policy: Policy, tmp_path: Path) -> None:
    nowhere = PluginCode("x", tmp_path / "nowhere", "x", "Plugin", "x")
    with Sandbox(policy) as sandbox, pytest.raises(WorkFailed, match="nowhere"):
        sandbox.score(nowhere, {}, {}, {})


def test_a_bubblewrap_that_fails_is_quoted(
    code: PluginCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: no permission to create a namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "executable", lambda: str(broken))
    with Sandbox(Policy("bubblewrap")) as sandbox, pytest.raises(WorkFailed) as raised:
        ask(sandbox, code)
    assert "no permission to create a namespace" in str(raised.value)
    assert "tally doctor" in str(raised.value)


def test_without_walls_every_score_carries_a_warning(tmp_path: Path) -> None:
    code = plugin(tmp_path, BY_WISH)
    with Sandbox(Policy("insecure-local", ("not walled off",))) as sandbox:
        scores = sandbox.score_many(code, [{"rating": 1}] * 20, {}, {})
        scores += [
            sandbox.score(code, {"rating": 1, "wish": w}, {}, {}, timeout_s=1)
            for w in ("", "loop", "crash", "memory", "raise")
        ]
    assert {score.metadata["warning"] for score in scores} == {"not walled off"}
    ended = [score.metadata.get("stopped") for score in scores[20:]]
    assert ended == [None, "timeout", "crashed", "memory", "raised"]


def test_twenty_plugins_are_warm_at_once(policy: Policy, tmp_path: Path) -> None:
    """Descriptors on their way from all guests of a user are counted together."""
    codes = [plugin(tmp_path / str(number), ORDINARY) for number in range(20)]
    with Sandbox(policy) as sandbox:
        assert [ask(sandbox, code) for code in codes] == [4.0] * 20
        assert all(sandbox.is_warm(code) for code in codes)
