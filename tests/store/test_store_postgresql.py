"""The store in a PostgreSQL database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, select, text
from tests.postgres import Postgres
from tests.store.conformance import OpenAs, StoreConformance
from tests.store.contest_samples import a_challenge, an_outcome, by, play, scored
from tests.store.run_samples import a_result, a_run, many

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import Store, open_store
from tallymark.store.contests import board_rows
from tallymark.store.contests.attempt_rows import select_attempts
from tallymark.store.contests.board_rows import Board
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.tables import attempts, boards
from tallymark.store.dialects import enlarge_cache


@pytest.fixture(scope="module")
def shared_url(postgres: Postgres) -> str:
    """A database with a schema."""
    return postgres.furnished()


class TestPostgreSQL(StoreConformance):
    """The conformance suite. All tests share a database: tenants keep them apart."""

    @pytest.fixture
    def open_as(self, shared_url: str) -> Iterator[OpenAs]:
        """Opens the database as a tenant that only this test knows."""
        test = uuid.uuid4().hex
        with ExitStack() as stack:
            yield lambda tenant: stack.enter_context(
                open_store(shared_url, tenant=f"{tenant}-{test}")
            )

    @pytest.fixture
    def store(self, open_as: OpenAs) -> Store:
        """The store of the default tenant."""
        return open_as("default")


def test_reading_an_empty_database_says_so_and_makes_nothing(postgres_url: str) -> None:
    with open_store(postgres_url) as store, pytest.raises(InvalidInput, match="nothing is stored"):
        store.runs()
    with psycopg.connect(postgres_url) as connection:
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert connection.execute(tables).fetchone() == (0,)


def test_the_key_is_in_the_users_config_folder(postgres_url: str, tmp_path: Path) -> None:
    with open_store(postgres_url) as store:
        store.set_secret("TOKEN", "value")
    assert (tmp_path / "config" / "tallymark" / "secret.key").exists()


def end_connections(url: str) -> int:
    """All but its own; how many there were."""
    with psycopg.connect(url, autocommit=True) as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(ended.fetchall())


def test_a_connection_that_is_lost_when_all_was_read_is_nobodys_business(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(postgres_url) as store:
        store.create_run(a_run())
        with store._database.statement() as statements:
            assert statements.read("SELECT 1") == [(1,)]
            end_connections(postgres_url)
        assert store.run("run").id == "run"
    assert caplog.records == []


def test_a_lost_connection_is_taken_up_again(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        store.create_run(a_run())
        assert store.agents.names(["ann"]) == {}
        # One that writes, and one for short questions.
        assert end_connections(postgres_url) == 2
        store.add_results("run", many(3))
        assert len(store.result_keys("run")) == 3
        assert store.agents.names(["ann"]) == {}


def test_a_table_that_others_locked_is_waited_for_only_so_long(postgres_url: str) -> None:
    with open_store(postgres_url, patience=0.2) as store:
        store.create_run(a_run())
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE case_results")
            with pytest.raises(WorkFailed, match="is locked by another process"):
                store.add_results("run", [a_result()])
        store.add_results("run", [a_result()])
        assert store.result_keys("run") == {("case", 0): "passed"}


@pytest.mark.parametrize(
    ("grant", "message"),
    [
        (False, "there is no permission to use postgresql:///test_.*; ask its owner"),
        (True, "there is no permission"),
    ],
    ids=["no tables yet", "tables of another"],
)
def test_a_user_without_rights(
    postgres: Postgres, postgres_url: str, grant: bool, message: str
) -> None:
    guest = f"guest_{uuid.uuid4().hex}"
    if grant:
        with open_store(postgres_url) as store:
            store.create_run(a_run())
    with psycopg.connect(postgres.admin_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {guest} LOGIN".encode())
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"GRANT USAGE ON SCHEMA public TO {guest}".encode())
    theirs = postgres_url.replace("postgres:@", f"{guest}:@")
    with pytest.raises(WorkFailed, match=message), ExitStack() as stack:
        stack.enter_context(open_store(theirs)).create_run(a_run("other"))


def test_a_table_of_another_program_is_not_taken_for_ours(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as other:
        other.execute("CREATE TABLE runs (theirs text)")
    with (
        open_store(postgres_url) as store,
        pytest.raises(WorkFailed, match=r"not Tallymark's .*\"runs\" already exists"),
    ):
        store.create_run(a_run())
    with psycopg.connect(postgres_url) as other:
        assert other.execute("SELECT count(*) FROM runs").fetchone() == (0,)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "postgresql://alice:hush@127.0.0.1:1/evals",
            r"the server of postgresql://127.0.0.1:1/evals cannot be reached \(.*refused",
        ),
        (
            "postgresql://alice:hush@nowhere.invalid/evals",
            "the server of postgresql://nowhere.invalid/evals cannot be reached",
        ),
        ("postgresql:///evals?host=/nowhere&password=hush", "cannot be reached"),
        (
            "postgresql://alice:hush@127.0.0.1:1/evals?sslmode=hush",
            r'\(connection is bad: invalid sslmode value: "\*\*\*"\)',
        ),
    ],
)
def test_a_server_that_is_not_there(url: str, message: str) -> None:
    with pytest.raises(WorkFailed, match=message) as caught:
        open_store(url)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("/test_", "/missing_"), "there is no database at postgresql:///missing_.*createdb"),
        (("postgres:@", "nobody_here:hush@"), "refused the login; check user name and password"),
    ],
)
def test_a_server_that_refuses(postgres_url: str, change: tuple[str, str], message: str) -> None:
    with pytest.raises(WorkFailed, match=message) as caught:
        open_store(postgres_url.replace(*change))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(("had", "has"), [("4MB", "128MB"), ("200MB", "200MB")])
def test_long_work_has_more_memory_and_never_less(shared_url: str, had: str, has: str) -> None:
    with open_store(shared_url) as store, store._database.engine.connect() as connection:
        connection.exec_driver_sql(f"SET LOCAL work_mem = '{had}'")
        with enlarge_cache(connection):
            assert connection.exec_driver_sql("SHOW work_mem").scalar() == has


def test_a_board_made_anew_lies_in_its_order(shared_url: str) -> None:
    """PostgreSQL keeps rows as they come: those of a page are together."""
    with open_store(shared_url, tenant="lying") as store:
        store.challenges.publish(a_challenge(), b"", at=0.0)
        for agent, score in (("low", 1.0), ("high", 3.0), ("middle", 2.0)):
            play(store, agent, an_outcome(score), 11.0)

        def work(connection: Connection) -> list[str]:
            board_rows.rebuild(connection, find_challenge(connection, "lying", "sums", lock=True))
            lying = text("SELECT agent FROM boards WHERE tenant = 'lying' ORDER BY ctid")
            return list(connection.scalars(lying))

        assert store._database.write(work) == ["high", "middle", "low"]


def test_the_score_of_an_attempt_is_looked_up_by_its_whole_key(shared_url: str) -> None:
    """Also in a challenge that is newer than what PostgreSQL has counted of it."""
    with open_store(shared_url, tenant="counted") as store:
        store.challenges.publish(a_challenge(), b"", at=0.0)
        loaded = (scored("ada", an_outcome(1.0)) for _ in range(1000))
        store.attempts.load("sums", loaded, at=20.0, rated=False)
        query = select_attempts("counted").where(attempts.c.challenge_id == 10**9)
        with store._database.engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE attempts, attempt_scores")
            asked = query.compile(connection, compile_kwargs={"literal_binds": True})
            plan = list(connection.exec_driver_sql(f"EXPLAIN {asked}".replace("%", "%%")).scalars())
        at = next(nth for nth, line in enumerate(plan) if "pk_attempt_scores" in line)
        assert "(attempt = attempts.key)" in plan[at + 1], "\n".join(plan)


def test_an_agent_is_looked_up_by_its_key(postgres_url: str) -> None:
    """Whatever PostgreSQL has counted: nothing, the board before, or no row of the challenge."""

    def explain(board: Board) -> str:
        query = select(boards).where(board.rows(boards), boards.c.agent == "agent-7")
        with store._database.engine.connect() as connection:
            asked = query.compile(connection, compile_kwargs={"literal_binds": True})
            return str(connection.exec_driver_sql(f"EXPLAIN {asked}").scalar())

    with open_store(postgres_url) as store:
        store.challenges.publish(a_challenge(), b"", at=0.0)
        plans = [explain(store.challenges.find("sums").live_board)]
        loaded = (scored(f"agent-{number}", an_outcome(1.0)) for number in range(5000))
        store.attempts.load("sums", loaded, at=20.0, rated=False)  # which counts
        store.challenges.publish(by("first", version="v2"), b"", at=30.0)
        plans += [explain(store.challenges.find("sums").live_board)]
        plans += [explain(Board(store.tenant, 10**9, frozen=False))]
    assert ["pk_boards" in plan for plan in plans] == [True] * 3, plans
