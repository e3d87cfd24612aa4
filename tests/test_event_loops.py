from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from tests.models.model_conformance import request
from tests.models.provider_server import ProviderServer

from tallymark.event_loops import LoopLocal, LoopTurns
from tallymark.models import open_model
from tallymark.models.endpoint import HttpSessions


@contextmanager
def loop_in_a_thread() -> Iterator[Callable[[Any], Future[Any]]]:
    """Starts coroutines in an event loop of another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def called(function: Callable[[], Any]) -> Any:
    return function()


class TestValues:
    def test_each_loop_keeps_its_own(self) -> None:
        values = LoopLocal(object)
        with loop_in_a_thread() as here, loop_in_a_thread() as there:
            first, second, again = (run(called(values.get)).result() for run in (here, there, here))
        assert first is again
        assert first is not second

    def test_what_is_there_already_goes_to_the_first(self) -> None:
        values = LoopLocal(list, first=["ready"])
        assert [asyncio.run(called(values.get)) for _ in range(3)] == [["ready"], [], []]

    def test_what_is_taken_is_made_again(self) -> None:
        values = LoopLocal(object)

        async def taken() -> bool:
            first = values.get()
            return values.pop() is first and values.pop() is None and values.get() is not first

        assert asyncio.run(taken())

    def test_values_of_closed_loops_go_even_if_they_hold_their_loop(self) -> None:
        class Held:
            def __init__(self) -> None:
                self.loop = asyncio.get_running_loop()

        values = LoopLocal(Held)
        loops = [weakref.ref(asyncio.run(called(values.get)).loop) for _ in range(5)]
        gc.collect()
        assert [loop() is None for loop in loops] == [True] * 4 + [False]


class TestTurns:
    def test_one_loop_at_a_time_and_its_tasks_together(self) -> None:
        turns = LoopTurns()
        inside: list[int] = []
        seen: list[set[int]] = []

        async def task(number: int) -> None:
            async with turns:
                inside.append(number)
                await asyncio.sleep(0.002)
                seen.append(set(inside))
                inside.remove(number)

        async def tasks(number: int) -> None:
            for _ in range(5):
                await asyncio.gather(*(task(number) for _ in range(3)))

        with loop_in_a_thread() as one, loop_in_a_thread() as two, loop_in_a_thread() as three:
            for done in [run(tasks(number)) for number, run in enumerate((one, two, three))]:
                done.result(30)
        assert len(seen) == 45
        assert all(len(numbers) == 1 for numbers in seen)

    def test_a_busy_loop_makes_room(self) -> None:
        turns = LoopTurns()
        stop = threading.Event()

        async def busy() -> None:
            async def one() -> None:
                while not stop.is_set():
                    async with turns:
                        await asyncio.sleep(0.002)

            await asyncio.gather(one(), one(), one())

        async def once() -> None:
            async with turns:
                stop.set()

        with loop_in_a_thread() as here, loop_in_a_thread() as there:
            others = here(busy())
            time.sleep(0.02)
            there(once()).result(10)
            others.result(10)

    def test_who_stops_waiting_does_not_hold_up_the_rest(self) -> None:
        turns = LoopTurns()
        entered = threading.Event()
        leave = threading.Event()

        async def stay() -> None:
            async with turns:
                entered.set()
                while not leave.is_set():  # noqa: ASYNC110 (an event of threads)
                    await asyncio.sleep(0.001)

        async def impatient() -> None:
            async with asyncio.timeout(0.01), turns:
                pass

        async def patient() -> str:
            async with turns:
                return "inside"

        with loop_in_a_thread() as here, loop_in_a_thread() as there:
            staying = here(stay())
            entered.wait(10)
            with pytest.raises(TimeoutError):
                there(impatient()).result(10)
            waiting = there(patient())
            leave.set()
            assert waiting.result(10) == "inside"
            staying.result(10)

    def test_a_loop_that_ended_inside_is_not_waited_for(self) -> None:
        turns = LoopTurns()
        loop = asyncio.new_event_loop()
        loop.run_until_complete(turns.__aenter__())
        loop.close()

        async def enter() -> str:
            async with turns:
                return "inside"

        assert asyncio.run(asyncio.wait_for(enter(), 5)) == "inside"


def test_loops_that_take_turns_keep_their_sessions() -> None:
    sessions = HttpSessions()
    with loop_in_a_thread() as here, loop_in_a_thread() as there:
        first, second, again = (run(called(sessions.get)).result() for run in (here, there, here))
        assert first is again
        assert first is not second
        here(sessions.close()).result()
        assert (first.closed, second.closed) == (True, False)
        there(sessions.close()).result()
        assert second.closed


@pytest.mark.parametrize("reference", ["openai-chat/gpt-5-mini", "ollama/some-model", "{url}/v1#m"])
def test_one_model_answers_in_many_loops_at_once(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer() as server:
        server.pose_as_providers(monkeypatch)
        monkeypatch.setenv("OLLAMA_API_KEY", "none")
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{server.url}/v1")
        model = open_model(reference.format(url=server.url))

        async def answers() -> list[str]:
            given = [await model.answer(request("hi")) for _ in range(3)]
            given += await asyncio.gather(*(model.answer(request("hi")) for _ in range(3)))
            return [answer.output for answer in given]

        with loop_in_a_thread() as one, loop_in_a_thread() as two, loop_in_a_thread() as three:
            for done in [run(answers()) for run in (one, two, three)]:
                assert done.result(30) == ["hi"] * 6
            for run in (one, two, three):
                run(model.close()).result(10)
