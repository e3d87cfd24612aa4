"""Calls in threads and tasks, and those that hang."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tallymark import abandonable_calls
from tallymark.abandonable_calls import NotFinished, call_in_thread, contain, wait_for_task

SECONDS = 30
"""How long a test waits for what must happen; far longer than it takes."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call waits for; opened at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(main(), SECONDS)

    return asyncio.run(limited())


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "tallymark-call"]


def until_nothing_hangs() -> None:
    """Wait for the end of all calls that were left behind."""
    while abandonable_calls._threads.left:
        threading.Event().wait(0.001)


def test_a_call_gives_what_the_function_returns_or_raises() -> None:
    def fail() -> None:
        raise ValueError("boom")

    assert run(lambda: call_in_thread(threading.current_thread)) in threads()
    with pytest.raises(ValueError, match="boom"):
        run(lambda: call_in_thread(fail))


def test_an_exception_that_a_future_refuses_is_raised() -> None:
    def stop() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        run(lambda: call_in_thread(stop))


def test_a_call_sees_the_callers_context_variables() -> None:
    request = contextvars.ContextVar("request", default="none")

    async def main() -> str:
        request.set("mine")
        return await call_in_thread(request.get)

    assert run(main) == "mine"


def test_a_late_call_is_abandoned(gate: threading.Event) -> None:
    with pytest.raises(NotFinished, match=r"^did not finish in 0\.01 s$"):
        run(lambda: call_in_thread(gate.wait, seconds=0.01))
    assert abandonable_calls._threads.left
    gate.set()
    until_nothing_hangs()


def test_a_cancelled_caller_does_not_wait(gate: threading.Event) -> None:
    started = threading.Event()

    def wait() -> None:
        started.set()
        gate.wait(SECONDS)

    async def main() -> bool:
        task = asyncio.create_task(call_in_thread(wait))
        await call_in_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return gate.is_set()

    assert run(main) is False


def test_calls_never_wait_for_each_other() -> None:
    together = threading.Barrier(50, timeout=SECONDS)

    async def main() -> int:
        return len(await asyncio.gather(*(call_in_thread(together.wait) for _ in range(50))))

    assert run(main) == 50


def test_a_thread_is_used_again() -> None:
    async def main() -> set[threading.Thread]:
        return {await call_in_thread(threading.current_thread) for _ in range(20)}

    before = set(threads())
    assert len(run(main) - before) <= 1


def test_a_thread_that_has_nothing_to_do_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandonable_calls, "_IDLE_SECONDS", 0.001)
    monkeypatch.setattr(abandonable_calls, "_threads", abandonable_calls._Threads())
    thread = run(lambda: call_in_thread(threading.current_thread))
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert run(lambda: call_in_thread(lambda: 7)) == 7


def test_a_function_that_hangs_too_often_is_not_called_until_its_calls_end(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abandonable_calls, "MOST_HANGING", 2)
    owner = object()

    async def main(others: object, seconds: float = 0.01) -> list[str]:
        said = []
        for _ in range(3):
            try:
                await call_in_thread(gate.wait, seconds=seconds, owner=others)
            except NotFinished as error:
                said.append(str(error))
        return said

    late = "did not finish in 0.01 s"
    assert run(lambda: main(owner)) == [late, late, "was not called: 2 calls of it hang"]
    assert run(lambda: main(None)) == [late] * 3, "nobody's calls are not counted"
    gate.set()
    until_nothing_hangs()
    assert run(lambda: main(owner, SECONDS)) == []


def test_a_result_that_comes_after_the_loop_has_ended_is_dropped(gate: threading.Event) -> None:
    with pytest.raises(NotFinished):
        run(lambda: call_in_thread(gate.wait, seconds=0.01))
    gate.set()
    until_nothing_hangs()
    assert run(lambda: call_in_thread(lambda: 7)) == 7


HANGING = """
import asyncio, threading
from tallymark.abandonable_calls import NotFinished, call_in_thread
try:
    asyncio.run(call_in_thread(threading.Event().wait, seconds=0.01))
except NotFinished as error:
    print(error)
"""
FORKED = """
import asyncio, os
from tallymark.abandonable_calls import call_in_thread
asyncio.run(call_in_thread(lambda: 7))
child = os.fork()
if not child:
    os._exit(asyncio.run(call_in_thread(lambda: 7, seconds=20)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param(HANGING, "did not finish in 0.01 s\n", id="a hanging call ends with Python"),
        pytest.param(FORKED, "7\n", id="a forked child has threads of its own"),
    ],
)
def test_a_program(program: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == said


async def _stubborn(end: asyncio.Event) -> str:
    while not end.is_set():
        try:
            await end.wait()
        except asyncio.CancelledError:
            continue
    return "at last"


def test_a_task_that_swallows_its_cancellation_is_abandoned() -> None:
    async def main() -> None:
        end = asyncio.Event()
        with pytest.raises(NotFinished, match=r"^did not finish in 0\.01 s$"):
            await wait_for_task(_stubborn(end), 0.01)
        assert len(abandonable_calls._left_tasks) == 1
        end.set()
        await asyncio.wait(list(abandonable_calls._left_tasks))

    run(main)
    assert not abandonable_calls._left_tasks


@pytest.mark.parametrize("seconds", [None, SECONDS])
def test_a_task_gives_what_it_returns(seconds: float | None) -> None:
    async def seven() -> int:
        return 7

    assert run(lambda: wait_for_task(seven(), seconds)) == 7


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_any_exception_is_contained(error: type[BaseException]) -> None:
    async def fail() -> None:
        raise error

    assert isinstance(run(lambda: contain(lambda raised: raised, fail)), error)


def test_a_cancellation_from_outside_is_not_contained() -> None:
    async def main() -> None:
        task = asyncio.create_task(contain(lambda raised: raised, asyncio.Event().wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
