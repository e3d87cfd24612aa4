"""`LocalEngine`: blocks of work in processes of this machine.

Each worker has one block at a time, so the block of a dead worker is known. A worker ends when its
driver is gone, even in the middle of a block.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Self

from tallymark.engine.engine import (
    BlockDone,
    BlockEnd,
    BlockFailed,
    BlockLost,
    Engine,
    PackedWork,
    WorkBench,
    describe_error,
)
from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tallymark.engine.engine import Work, WorkerPool

_START = "import sys; from tallymark.engine.local_engine import serve; serve(int(sys.argv[1]))"
_GRACE = 2.0
"""Seconds for a worker to end; an idle one ends at once."""
_PUT_AWAY_S = 1.0
"""Seconds for the work of a worker to clean up once the driver is gone."""


class LocalEngine(Engine):
    """Processes of this machine, started on demand."""

    def close(self) -> None:
        """Crews end their own workers."""

    def _open_pool(self, work: Work[Any, Any]) -> AbstractContextManager[WorkerPool]:
        return _LocalCrew(work, self.workers)


class _LocalCrew:
    """The workers of one `map`."""

    def __init__(self, work: Work[Any, Any], count: int) -> None:
        self._work = PackedWork.pack(work)
        self._count = count
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *self._busy.values()):
            worker.let_go()
        for worker in self._busy.values():
            worker.kill()
        for worker in (*self._idle, *self._busy.values()):
            worker.wait()

    @property
    def has_room(self) -> bool:
        return len(self._busy) < self._count

    def begin(self, number: int, block: Any) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._work)
        worker.number = number
        self._busy[worker.link] = worker
        with suppress(OSError):  # if it has died, `wait` notices
            worker.link.send(block)

    def wait(self) -> list[tuple[int, BlockEnd]]:
        ended: list[tuple[int, BlockEnd]] = []
        for link in wait(list(self._busy)):
            worker = self._busy.pop(link)  # type: ignore[call-overload]
            try:
                kind, said = worker.link.recv()
            except (EOFError, OSError):
                ended.append((worker.number, BlockLost(worker.bury())))
                continue
            except Exception:  # noqa: BLE001 (what no worker of ours would say)
                worker.kill()
                worker.bury()
                ended.append((worker.number, BlockLost("answered what cannot be read")))
                continue
            self._idle.append(worker)
            end = BlockDone(said) if kind == "done" else BlockFailed(said)
            ended.append((worker.number, end))
        return ended


class _Worker:
    """A worker process and the connection to it."""

    number = -1
    """Number of its current block."""

    def __init__(self, work: PackedWork) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = subprocess.Popen(  # noqa: S603 (our own interpreter)
                    [sys.executable, "-P", "-c", _START, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # what a user's code prints must not get into our results
                    start_new_session=True,  # Ctrl-C is for the driver, who ends the workers
                )
            except OSError as error:
                ours.close()
                raise WorkFailed(f"a worker cannot be started: {error}") from None
        self.link = Connection(ours.detach())
        with suppress(OSError):
            self.link.send(work)

    def let_go(self) -> None:
        self.link.close()

    def kill(self) -> None:
        """Kill the process with its group."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def wait(self) -> None:
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()

    def bury(self) -> str:
        """Wait for its end, and describe it."""
        self.let_go()
        self.wait()
        self.kill()  # what it left behind
        code = self.process.returncode
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"


# In the worker


def serve(descriptor: int) -> None:
    """Run blocks until the driver closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(descriptor,), daemon=True).start()
    # Neither forks of this process nor programs that the work starts may hold the connection open.
    os.set_inheritable(descriptor, False)
    os.register_at_fork(after_in_child=lambda: os.close(descriptor))
    link = Connection(descriptor)
    bench = WorkBench()
    try:
        work = link.recv()
        while True:
            block = link.recv()
            try:
                if not bench.is_ready(work):
                    bench.open(work, work)
                link.send(("done", bench.do(block)))
            except BaseException as error:  # noqa: BLE001 (it is reported, and the next block may succeed)
                link.send(("failed", describe_error(error)))
    except (EOFError, OSError):
        bench.close()
        _end_all()


def _watch(descriptor: int) -> None:
    """End the process once the driver is gone, even if the work never ends."""
    poll = select.poll()
    poll.register(descriptor, select.POLLHUP)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    time.sleep(_PUT_AWAY_S)
    _end_all()


def _end_all() -> None:
    """Kill this process and everything that the work has started."""
    os.killpg(0, signal.SIGKILL)
