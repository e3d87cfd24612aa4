"""A worker of `local_engine.py`: it reads blocks from a link, and writes what came of each."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from multiprocessing.connection import Connection

from tallymark.engine.engine import WorkBench, describe_error

_GRACE = 1.0
"""Seconds to put things away once the driver is gone."""


def serve(descriptor: int) -> None:
    """Does blocks until the driver closes the link."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(descriptor,), daemon=True).start()
    # Neither a copy that the work makes of this process nor a program that it starts must hold the
    # link when we are gone.
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
            except BaseException as error:  # noqa: BLE001 (it is told, and the next block may do)
                link.send(("failed", describe_error(error)))
    except (EOFError, OSError):
        bench.close()
        _end_all()


def _watch(descriptor: int) -> None:
    """Ends the process once the driver is gone, even where the work never would."""
    poll = select.poll()
    poll.register(descriptor, select.POLLHUP)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    time.sleep(_GRACE)
    _end_all()


def _end_all() -> None:
    """Ends this process, and with it whatever the work has started and not ended."""
    os.killpg(0, signal.SIGKILL)
