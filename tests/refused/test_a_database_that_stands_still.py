"""A database that does not answer, or cannot be written, hangs nobody, and readiness says so."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError

import psycopg
import pytest
from tests.http.conftest import Server, run_server
from tests.postgres import Postgres, start_postgres
from tests.test_server import ask, serving

from tallymark.errors import Busy
from tallymark.service import readiness
from tallymark.store import open_store
from tallymark.store.engines import REQUEST_SECONDS, limit_statements


@pytest.fixture
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(readiness.DEADLINES_S, "database", 0.3)


def test_readiness_writes_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    with run_server(str(path), workers=0) as server, closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (0,)
        assert server.ask("nobody", "GET", "/readyz").status_code == 200
        assert file.execute("PRAGMA user_version").fetchone() != (0,)


@pytest.mark.usefixtures("short_deadline")
def test_a_file_that_nobody_can_write_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    with run_server(str(path), workers=0) as server, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = server.ask("nobody", "GET", "/readyz")
        assert found.status_code == 503
        assert "no answer within" in found.json()["detail"]
        other.rollback()
        wait_until_ready(server)


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """One that may be stopped: others share theirs."""
    with start_postgres() as server:
        yield server


@contextmanager
def standing_still(url: str) -> Iterator[None]:
    """All processes of the database are stopped, as by a disk that hangs."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    first = int(Path(row[0], "postmaster.pid").read_text().split()[0])
    others = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    every = [first, *map(int, others)]

    def send_all(number: signal.Signals) -> None:
        for process in every:
            with suppress(ProcessLookupError):  # it served our question, and ended
                os.kill(process, number)

    send_all(signal.SIGSTOP)
    try:
        yield
    finally:
        send_all(signal.SIGCONT)


def wait_until_ready(server: Server) -> None:
    while server.ask("nobody", "GET", "/readyz").status_code != 200:
        pass


@pytest.mark.usefixtures("short_deadline")
def test_requests_end_and_work_goes_on_afterwards(
    own_postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.service.server_logs.REQUEST_SECONDS", 0.5)
    monkeypatch.setattr("tallymark.store.engines._LATE", 0.0)
    url = own_postgres.furnished()
    with run_server(url, workers=0) as server:
        assert server.v1("ada", "GET", "/runs").status_code == 200
        with standing_still(url):
            assert server.ask("nobody", "GET", "/healthz").status_code == 200
            assert server.ask("nobody", "GET", "/readyz").status_code == 503
            answered = server.v1("ada", "GET", "/runs")
            assert answered.status_code == 503
            assert "cannot be reached" in answered.json()["detail"]
        wait_until_ready(server)
        assert server.v1("ada", "GET", "/runs").status_code == 200


def test_an_answer_that_does_not_come_is_given_up(
    own_postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.store.engines._LATE", 0.0)
    url = own_postgres.furnished()

    def read_meanwhile() -> None:
        with open_store(url) as store, store._database.read() as connection:
            connection.exec_driver_sql("SELECT 1")
            with standing_still(url), limit_statements(0.3):
                connection.exec_driver_sql("SELECT 1")

    with pytest.raises(Busy, match="it does not answer"):
        read_meanwhile()


@pytest.mark.proof
def test_a_server_ends_though_its_database_does_not_answer(
    own_postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads are answered 503 meanwhile, and what began before SIGTERM too."""
    url = own_postgres.furnished()
    with serving(tmp_path, "--db", url) as (process, address):
        with ask(f"{address}/readyz") as ready:
            assert ready.status == 200
        with standing_still(url), ThreadPoolExecutor() as pool:
            before = [pool.submit(find_status, f"{address}/api/v1/runs") for _ in range(20)]
            assert {each.result() for each in before} == {503}
            assert find_status(f"{address}/readyz") == 503
            during = [pool.submit(find_status, f"{address}/api/v1/runs") for _ in range(20)]
            while read_waiting(address) == 0:
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(9) == 0
            assert {each.result() for each in during} <= {503, None}


def find_status(url: str) -> int | None:
    """The status of an answer; None where nobody listens any more."""
    try:
        with ask(url) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return None


def read_waiting(address: str) -> float:
    """How many requests have a thread."""
    with ask(f"{address}/metrics") as metrics:
        text = metrics.read().decode()
    return float(re.findall(r'tally_threads\{kind="running"\} (\S+)', text)[0])


def read_setting(url: str, name: str) -> str:
    with open_store(url) as store, store._database.read() as connection:
        found: str = connection.exec_driver_sql(f"SHOW {name}").scalar_one()
        return found


def test_statements_have_a_limit_by_who_asks(own_postgres: Postgres) -> None:
    url = own_postgres.furnished()
    assert read_setting(url, "statement_timeout") == "1h"
    with limit_statements(REQUEST_SECONDS):
        assert read_setting(url, "statement_timeout") == "30s"
    with limit_statements(0.2), pytest.raises(Busy, match="took too long to answer"):  # noqa: SIM117
        with open_store(url) as store, store._database.read() as connection:
            connection.exec_driver_sql("SELECT pg_sleep(60)")
    seen = []
    with open_store(url) as store:
        store._database.change_schema(
            lambda connection: seen.append(
                connection.exec_driver_sql("SHOW statement_timeout").scalar_one()
            )
        )
    assert seen == ["0"]


def test_an_address_may_say_how_long_a_cut_network_is_waited_for(own_postgres: Postgres) -> None:
    url = own_postgres.furnished()
    for more, expected in (("", "30000"), ("&tcp_user_timeout=7000", "7000")):
        with open_store(url + more) as store:
            assert store._database.engine.url.query["tcp_user_timeout"] == expected
