"""The writer: prompt, bounded, and honest about what is durable."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from scripts.server_process import require_as_logged
from tests.store.run_samples import a_result, a_run, many
from tests.store.test_driver_errors import limit_pages, locked

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.runs.record import CaseResult
from tallymark.store import ResultWriter, Store, open_store


class Gate:
    """A callback that holds the writer after each commit until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.open = threading.Event()
        self.batches: list[int] = []

    def __call__(self, batch: list[CaseResult]) -> None:
        self.batches.append(len(batch))
        self.reached.release()
        assert self.open.wait(30)


async def queue_is_full(writer: ResultWriter) -> None:
    """Turns the event loop until a task waits for room."""
    while not writer._waiting:  # noqa: ASYNC110  the writer tells nobody
        await asyncio.sleep(0)


def put_all(writer: ResultWriter, results: list[CaseResult]) -> None:
    for result in results:
        writer.put(result)


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    """A store with a run in it."""
    sqlite_store.create_run(a_run())
    return sqlite_store


def test_closing_stores_all(store: Store) -> None:
    with ResultWriter(store, "run") as writer:
        put_all(writer, many(3000))
    assert list(store.results("run")) == many(3000)


def test_a_result_that_comes_alone_is_stored_at_once(store: Store) -> None:
    durable: Future[list[CaseResult]] = Future()
    with ResultWriter(store, "run", stored=durable.set_result) as writer:
        writer.put(a_result())
        assert durable.result(timeout=30) == [a_result()]
        with open_store(store.shown) as other:
            assert list(other.results("run")) == [a_result()]


def test_what_comes_during_a_commit_shares_the_next(store: Store) -> None:
    gate = Gate()
    with ResultWriter(store, "run", stored=gate) as writer:
        writer.put(a_result())
        assert gate.reached.acquire(timeout=30)
        put_all(writer, many(50))
        gate.open.set()
    assert gate.batches == [1, 50]


def test_a_full_queue_blocks_a_thread_until_there_is_room(store: Store) -> None:
    gate = Gate()
    with ResultWriter(store, "run", stored=gate, capacity=3) as writer:
        writer.put(a_result())
        assert gate.reached.acquire(timeout=30)
        put_all(writer, many(3))
        late = threading.Thread(target=writer.put, args=(a_result("late"),))
        late.start()
        assert len(writer._queue) == 3
        gate.open.set()
        late.join()
    assert len(store.result_keys("run")) == 5


def test_large_answers_fill_the_queue_sooner(store: Store) -> None:
    gate = Gate()

    async def main() -> None:
        writer = ResultWriter(store, "run", stored=gate)
        await writer.aput(a_result())
        assert await asyncio.to_thread(gate.reached.acquire, timeout=30)
        answers = many(20, output="x" * 5_000_000)
        tasks = [asyncio.create_task(writer.aput(result)) for result in answers]
        await queue_is_full(writer)
        assert len(writer._queue) == 7
        gate.open.set()
        await asyncio.gather(*tasks)
        await asyncio.to_thread(writer.close)

    asyncio.run(main())
    assert len(store.result_keys("run")) == 21


def test_a_full_queue_does_not_stop_the_event_loop(store: Store) -> None:
    gate = Gate()

    async def main() -> None:
        writer = ResultWriter(store, "run", stored=gate, capacity=3)
        tasks = [asyncio.create_task(writer.aput(result)) for result in many(40)]
        await queue_is_full(writer)
        assert not all(task.done() for task in tasks)
        gate.open.set()
        await asyncio.gather(*tasks)
        await asyncio.to_thread(writer.close)

    asyncio.run(main())
    assert len(store.result_keys("run")) == 40


def test_a_waiting_task_can_be_cancelled(store: Store) -> None:
    gate = Gate()

    async def main() -> None:
        writer = ResultWriter(store, "run", stored=gate, capacity=1)
        tasks = [asyncio.create_task(writer.aput(result)) for result in many(10)]
        await queue_is_full(writer)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        gate.open.set()
        await asyncio.to_thread(writer.close)

    asyncio.run(main())
    assert 1 <= len(store.result_keys("run")) <= 3


def test_a_loop_that_ended_does_not_stop_the_writer(store: Store) -> None:
    gate = Gate()
    writer = ResultWriter(store, "run", stored=gate, capacity=1)

    async def give_up() -> None:
        tasks = [asyncio.create_task(writer.aput(result)) for result in many(10)]
        await queue_is_full(writer)
        assert tasks

    asyncio.run(give_up())
    gate.open.set()
    writer.close()
    assert store.result_keys("run")


def test_a_locked_database_fails_the_close_in_words(store: Store) -> None:
    writer = ResultWriter(store, "run")
    with locked(store.shown):
        writer.put(a_result())
        with pytest.raises(WorkFailed, match="is locked by another process"):
            writer.close()


def test_a_full_disk_fails_the_next_put_and_keeps_what_was_acknowledged(store: Store) -> None:
    limit_pages(store, 60)
    stored: list[CaseResult] = []
    writer = ResultWriter(store, "run", stored=stored.extend, capacity=10)
    with pytest.raises(WorkFailed, match=r"the disk of .* is full"):
        put_all(writer, many(1000, output="x" * 2000))
    with pytest.raises(WorkFailed, match=r"the disk of .* is full"):
        writer.close()
    assert stored
    assert list(store.results("run")) == stored


def test_a_failure_wakes_tasks_that_wait(store: Store) -> None:
    async def main() -> list[object]:
        writer = ResultWriter(store, "missing", capacity=1)
        puts = [writer.aput(result) for result in many(50)]
        return list(await asyncio.gather(*puts, return_exceptions=True))

    outcomes = asyncio.run(main())
    assert any(isinstance(each, InvalidInput) for each in outcomes)
    assert all(each is None or "there is no run 'missing'" in str(each) for each in outcomes)


def test_an_error_in_the_block_is_not_hidden_by_one_of_storage(store: Store) -> None:
    def fail() -> None:
        with ResultWriter(store, "missing") as writer:
            writer.put(a_result())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_closed_writer_takes_nothing(store: Store) -> None:
    writer = ResultWriter(store, "run")
    writer.close()
    writer.close()
    with pytest.raises(RuntimeError, match="the writer is closed"):
        writer.put(a_result())


class Killable:
    """Drives the program of `killed_writer.py`."""

    def __init__(self, path: Path) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.store.killed_writer", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._in, self._out = self._program.stdin, self._program.stdout

    def store(self, count: int, *, kill_after: int | None) -> set[str]:
        """Lets a child store, kills it once it said that so many are durable; what it said."""
        self._in.write(f"{count}\n")
        self._in.flush()
        child = int(self._out.readline())
        said: set[str] = set()
        if kill_after is not None:
            said |= {self._out.readline().strip() for _ in range(kill_after)}
            os.kill(child, signal.SIGKILL)
        while (line := self._out.readline()) != "gone\n":
            said.add(line.strip())
        # The kill can cut a line short.
        return {each for each in said if re.fullmatch(r"case-\d+", each)}

    def end(self) -> None:
        self._in.close()
        self._out.close()
        assert self._program.wait(30) == 0


@pytest.mark.parametrize("times", [6, pytest.param(20, marks=pytest.mark.proof)])
def test_killed_again_and_again_nothing_acknowledged_is_lost(tmp_path: Path, times: int) -> None:
    path = tmp_path / "tally.db"
    chance = random.Random(4)
    acknowledged: set[str] = set()
    program = Killable(path)
    # The first kills fall into making the schema, the others anywhere in the writing.
    for kill_after in [0, 0, 1, *(chance.randrange(2000) for _ in range(times - 3))]:
        acknowledged |= program.store(10**7, kill_after=kill_after)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_store(str(path)) as store:
        stored = {case for case, _ in store.result_keys("run")}
        require_as_logged(store, "references")
    assert acknowledged
    assert acknowledged <= stored

    total = len(stored) + 100
    program.store(total, kill_after=None)
    program.end()
    with open_store(str(path)) as store:
        results = list(store.results("run"))
    assert {each.key for each in results} == {(f"case-{number}", 0) for number in range(total)}
    assert all(each.output == f"answer to {each.case}" for each in results)


def is_free(writer: ResultWriter) -> bool:
    taken = writer._lock.acquire(timeout=5)
    if taken:
        writer._lock.release()
    return taken


def test_an_interrupt_at_any_moment_leaves_it_unlocked() -> None:
    """Ctrl-C or SIGTERM between the taking of a lock and its block once hung a command."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    dice, before = random.Random(19), signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(60):
            writer = ResultWriter(Mock(), "r1")
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-4, 3e-3))
                while True:
                    writer.put(a_result())
            with ThreadPoolExecutor(1) as other:
                assert other.submit(is_free, writer).result()
            writer.close()
    finally:
        signal.signal(signal.SIGALRM, before)
