"""Databases of earlier versions are brought up to date, with all that is in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from tests.postgres import Postgres
from tests.store.contest_samples import a_challenge, an_outcome, play
from tests.store.run_samples import FULL_RUN

from tallymark.ratings import elo
from tallymark.store import open_store
from tallymark.store.column_types import json_text, metadata
from tallymark.store.contests.attempt_rows import pack_trajectory
from tallymark.store.database import parse_address
from tallymark.store.schema import VERSION_TABLE


def make_old(url: str, version: str) -> None:
    """A database as an earlier version made it, with a variable in it.

    By the statements that made it then, which `schema_*.sql` keeps: what is declared may change.
    """
    engine = create_engine(parse_address(url).url)
    kept = Path(__file__).with_name(f"schema_{engine.name}.sql").read_text()
    steps = dict(re.findall(r"-- (\d{4}): .*\n\n((?s:.+?))(?=\n-- \d{4}: |\Z)", kept))
    with engine.begin() as connection:
        for step in sorted(steps):
            for statement in steps[step].split(";\n\n") if step <= version else ():
                connection.exec_driver_sql(statement)
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{version}')"))
        connection.execute(text("INSERT INTO vars VALUES ('default', 'kept', 'safe')"))
    engine.dispose()


@pytest.mark.parametrize("version", ["0001", "0002", "0003", "0004", "0005"])
def test_a_database_of_an_earlier_version_gets_what_it_lacks(empty_url: str, version: str) -> None:
    make_old(empty_url, version)
    with open_store(empty_url, upgrade=True) as store:
        assert store.vars() == {"kept": "safe"}
        store.create_run(FULL_RUN)
        store.challenges.publish(a_challenge(), b"files", at=0.0)
        play(store, "alice", an_outcome(5.0))
        assert [each.agent for each in store.boards.top("sums")] == ["alice"]


def test_runs_of_before_leases_that_never_ended_are_interrupted_and_go_on(empty_url: str) -> None:
    make_old(empty_url, "0005")
    columns = "tenant, id, suite, model, status, definition_hash, epochs, created_at, formula"
    engine = create_engine(parse_address(empty_url).url)
    with engine.begin() as connection:
        values = "'default', 'old', 's', 'm', 'running', '', 1, 1, 'success_pct', '{}', 0, 0, 0, 2"
        names = f"{columns}, metrics, passed, failed, errors, total, tags, definition"
        connection.exec_driver_sql(f"INSERT INTO runs ({names}) VALUES ({values}, '{{}}', '')")
    engine.dispose()
    with open_store(empty_url, upgrade=True) as store:
        assert store.run("latest").status == "interrupted"
        store.claim_run("old")
        assert store.run("latest").status == "running"


# What a contest of schema 4 held: alice withdrew, failed, won and let one expire; bob was loaded
# without being rated, charlie with. The log knew only of the win, the expiry and charlie's.
_CONTEST = """
INSERT INTO challenges (id, tenant, name, version, published_at, revision, definition)
VALUES (1, 'default', 'sums', 'v1', 0, 1, '{definition}');
INSERT INTO challenge_versions (id, tenant, challenge_id, version, published_at, definition, packed)
VALUES (1, 'default', 1, 'v1', 0, '{definition}', '');
INSERT INTO attempts (key, tenant, challenge_id, version_id, agent, number, state, seed, entered_at,
                      expires_at, submitted_at, scored_at, verified, memoryless)
VALUES (1, 'default', 1, 1, 'alice', 1, 'withdrawn', 1, 10, 99, NULL, NULL, {no}, {yes}),
       (2, 'default', 1, 1, 'alice', 2, 'failed', 1, 20, 99, 21, 22, {no}, {yes}),
       (3, 'default', 1, 1, 'alice', 3, 'scored', 1, 30, 99, 31, 32, {yes}, {yes}),
       (4, 'default', 1, 1, 'alice', 4, 'expired', 1, 40, 99, NULL, NULL, {no}, {yes}),
       (5, 'default', 1, 1, 'bob', 1, 'scored', 1, 10, 99, 11, 12, {no}, {no}),
       (6, 'default', 1, 1, 'charlie', 1, 'scored', 1, 10, 99, 11, 12, {no}, {no});
INSERT INTO scorings (id, tenant, challenge_id, at, why)
VALUES (1, 'default', 1, 22, 'finish'), (2, 'default', 1, 50, 'load'),
       (3, 'default', 1, 60, 'load');
INSERT INTO attempt_scores (challenge_id, agent, attempt, tenant, scoring, score, ranks,
                            submitted_at, number, succeeded, result, error)
VALUES (1, 'alice', 2, 'default', 1, NULL, {no}, 21, 2, {no}, NULL, 'broken'),
       (1, 'alice', 3, 'default', 1, 5, {yes}, 31, 3, {yes}, 'win', NULL),
       (1, 'bob', 5, 'default', 2, 5, {yes}, 11, 1, {yes}, 'win', NULL),
       (1, 'charlie', 6, 'default', 3, 5, {yes}, 11, 1, {yes}, 'win', NULL);
INSERT INTO score_history (scoring, agent, attempt, tenant, at, score, result, error)
SELECT scoring, agent, attempt, tenant, 22, score, result, error FROM attempt_scores;
INSERT INTO matches (seq, tenant, agent, challenge_id, attempt, at, tier, result, verified,
                     memoryless)
VALUES (1, 'default', 'alice', 1, 3, 32, 'contender', 'win', {yes}, {yes}),
       (2, 'default', 'alice', 1, 4, 99, 'contender', 'loss', {no}, {yes}),
       (3, 'default', 'charlie', 1, 6, 60, 'contender', 'win', {no}, {no});
INSERT INTO ratings VALUES ('default', 'alice', 1003, 2, 1, 0, 1);
INSERT INTO contest_audit (seq, tenant, challenge_id, attempt, at, actor, event)
VALUES (1, 'default', 1, 1, 15, 'alice', 'withdrawn')
"""


_KEYS = {"attempts": "key", "scorings": "id", "contest_audit": "seq"}


@pytest.mark.parametrize("version", ["0002", "0004"])
def test_matches_of_before_are_made_anew_from_the_attempts(empty_url: str, version: str) -> None:
    make_old(empty_url, version)
    engine = create_engine(parse_address(empty_url).url)
    yes, no = ("true", "false") if engine.name == "postgresql" else ("1", "0")
    definition = json_text(a_challenge())
    with engine.begin() as connection:
        for statement in _CONTEST.replace("{definition}", definition).split(";"):
            connection.exec_driver_sql(statement.replace("{yes}", yes).replace("{no}", no))
        # PostgreSQL does not count on from keys that it did not give out itself.
        for table, key in _KEYS.items() if engine.name == "postgresql" else ():
            sequence = f"pg_get_serial_sequence('{table}', '{key}')"
            connection.exec_driver_sql(f"SELECT setval({sequence}, 100)")
    engine.dispose()
    with open_store(empty_url, upgrade=True) as store:
        assert [(each.agent, each.result, each.first) for each in store.ratings.matches()] == [
            ("charlie", "win", True),
            ("alice", "loss", True),
            ("alice", "loss", False),
            ("alice", "win", False),
            ("alice", "loss", False),
        ]
        assert dict(store.ratings.elo()) == elo.replay(store.ratings.matches())
        assert [each.entered_at for each in store.attempts.of("sums", agent="alice")] == [
            40,
            30,
            20,
            10,
        ]
        play(store, "alice", an_outcome(5.0), at=200.0)
        assert store.ratings.of("alice").matches == 5


# Everything that a schema consists of, as the databases themselves tell it.
_CATALOGUE = {
    "sqlite": [
        "SELECT type, name, tbl_name, sql FROM sqlite_master",
        "SELECT m.name, x.* FROM sqlite_master m, pragma_table_xinfo(m.name) x",
        "SELECT m.name, x.* FROM sqlite_master m, pragma_table_list(m.name) x",
        "SELECT m.name, x.* FROM sqlite_master m, pragma_foreign_key_list(m.name) x",
        (
            'SELECT m.name, l.name, l."unique", l.origin, l.partial, x.* FROM sqlite_master m,'
            " pragma_index_list(m.name) l, pragma_index_xinfo(l.name) x"
        ),
        "SELECT * FROM tallymark_version",
        "PRAGMA journal_mode",
    ],
    "postgresql": [
        "SELECT * FROM information_schema.tables WHERE table_schema = 'public'",
        "SELECT * FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        (
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace"
        ),
        (
            "SELECT tgrelid::regclass::text, tgname, tgtype, tgenabled, pg_get_triggerdef(oid)"
            " FROM pg_trigger WHERE NOT tgisinternal"
        ),
        (
            "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
            " WHERE pronamespace = 'public'::regnamespace"
        ),
        "SELECT sequencename, data_type::text, start_value, increment_by FROM pg_sequences",
        (
            "SELECT relname, relkind, relpersistence, reloptions, relhasindex, relchecks,"
            " relhastriggers, relreplident, relhasrules FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace"
        ),
        "SELECT * FROM tallymark_version",
    ],
}


def describe_schema(url: str) -> list[list[str]]:
    """What the database says of its schema, in an order that does not depend on how it was made."""
    engine = create_engine(parse_address(url).url)
    with engine.connect() as connection:
        answers = [connection.execute(text(query)) for query in _CATALOGUE[engine.name]]
        described = [sorted(" ".join(map(_show, row)) for row in rows) for rows in answers]
    engine.dispose()
    return described


def _show(value: Any) -> str:
    """Without the name of the database, which information_schema repeats, and line breaks.

    The parts of a table of SQLite are sorted: a column that was added stands behind the keys.
    """
    shown = re.sub(r"test_\d+", "", " ".join(str(value).split()))
    head, bracket, rest = shown.partition("(")
    if not head.startswith("CREATE TABLE"):
        return shown
    inner, _, tail = rest.rpartition(")")
    return head + bracket + ",".join(sorted(each.strip() for each in inner.split(","))) + tail


@pytest.fixture(params=["sqlite", "postgresql"])
def two_urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/made.db", f"sqlite:///{tmp_path}/migrated.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh(), server.fresh()


@pytest.mark.parametrize("version", ["0001", "0004", "0005"])
def test_a_schema_made_at_once_is_what_all_migrations_make(
    two_urls: tuple[str, str], version: str
) -> None:
    at_once, migrated = two_urls
    make_old(migrated, version)
    for url in two_urls:
        with open_store(url, upgrade=True) as store:
            store.set_var("kept", "safe")
    described = describe_schema(at_once)
    assert described == describe_schema(migrated)
    assert all(described[:5])


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE runs ADD COLUMN more TEXT",
        "DROP INDEX ux_attempts_open",
        "CREATE INDEX more ON runs (model)",
    ],
)
def test_a_schema_that_differs_would_be_seen(empty_url: str, change: str) -> None:
    with open_store(empty_url, upgrade=True) as store:
        store.create_run(FULL_RUN)
        before = describe_schema(empty_url)
        with store._database.engine.begin() as connection:
            connection.execute(text(change))
    assert describe_schema(empty_url) != before


def test_every_row_has_a_tenant() -> None:
    without = [table.name for table in metadata.sorted_tables if "tenant" not in table.c]
    assert without == []


def test_attempts_of_before_get_the_level_that_they_were_believed_at(empty_url: str) -> None:
    make_old(empty_url, "0004")
    columns = (
        "key, tenant, challenge_id, version_id, agent, number, state, seed, entered_at, expires_at,"
        " submitted_at, scored_at, verified, memoryless"
    )
    engine = create_engine(parse_address(empty_url).url)
    with engine.begin() as connection:
        values = "'default', 'sums', 'v', 0"
        connection.execute(
            text(
                "INSERT INTO challenges (id, tenant, name, version, published_at, revision,"
                f" definition) VALUES (1, {values}, 0, '{{}}')"
            )
        )
        connection.execute(
            text(
                "INSERT INTO challenge_versions (id, tenant, challenge_id, version, published_at,"
                " definition, packed) VALUES (1, 'default', 1, 'v', 0, '{}', '')"
            )
        )
        for key, verified in ((1, True), (2, False), (3, False)):
            row = f"{key}, 'default', 1, 1, 'alice', {key}, 'scored', 7, 1, 9, 2, 3, {verified}"
            connection.execute(text(f"INSERT INTO attempts ({columns}) VALUES ({row}, false)"))
            sent = "NULL" if key == 3 else "'{}'"
            connection.execute(
                text(
                    "INSERT INTO attempt_details (attempt, tenant, trajectory)"
                    f" VALUES ({key}, 'default', {sent})"
                )
            )
    with open_store(empty_url, upgrade=True) as store:
        store.set_var("kept", "safe")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT trajectory_level FROM attempts ORDER BY key"))
        assert found.scalars().all() == ["consistent", "claimed", "none"]
        query = "SELECT trajectory, packed_trajectory FROM attempt_details ORDER BY attempt"
        packed = pack_trajectory("{}")
        rows = [(old, kept and bytes(kept)) for old, kept in connection.execute(text(query))]
        assert rows == [(None, packed), (None, packed), (None, None)]
    engine.dispose()
