"""A backup is one consistent state of everything, and comes back complete or not at all."""

from __future__ import annotations

import itertools
import os
import resource
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.postgres import Postgres
from tests.store.contest_samples import a_challenge, quick_store
from tests.store.next_version import NEXT, make_first, read_version
from tests.store.played_store import make_played
from tests.store.run_samples import a_run
from tests.store.test_backups_copies import read_all
from tests.store.test_driver_errors import without_rights

from tallymark.challenges.attempt import Evaluation, Metrics, Payload
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import ScoringRule
from tallymark.errors import Conflict, InvalidInput, WorkFailed
from tallymark.store import Store, backups, open_store
from tallymark.store.database_address import parse_address
from tallymark.store.schema import CURRENT, FIRST, VERSION_TABLE


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_played(tmp_path_factory.mktemp("played") / "tally.db")


@pytest.fixture
def filled_url(played: Path, empty_url: str) -> str:
    """A database of each kind with something of everything."""
    with open_store(str(played)) as store:
        store.backups.copy(empty_url)
    return empty_url


@pytest.fixture
def make_new(request: pytest.FixtureRequest, tmp_path: Path, empty_url: str) -> Callable[[], str]:
    """Addresses of empty databases of the same kind."""
    if parse_address(empty_url).path is not None:
        numbers = itertools.count()
        return lambda: f"sqlite:///{tmp_path}/new-{next(numbers)}/tally.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh


@pytest.fixture
def new_url(make_new: Callable[[], str]) -> str:
    return make_new()


def is_empty(url: str) -> bool:
    with open_store(url) as store:
        return not store.exists


def test_all_of_it_comes_back(filled_url: str, new_url: str, tmp_path: Path) -> None:
    with open_store(filled_url) as store:
        made = store.backups.write(tmp_path / "one")
        rows, report = read_all(store), store.check_all()
    assert made.rows == {name: found.total() for name, found in rows.items() if found}
    assert (made.schema, made.bytes) == (CURRENT, (tmp_path / "one").stat().st_size)
    with quick_store(new_url) as store:
        assert store.backups.look(tmp_path / "one") == made
        assert store.backups.restore(tmp_path / "one") == made
        assert read_all(store) == rows
        assert store.check_all() == report
        store.challenges.publish(a_challenge(), b"", at=0.0)
        new = store.attempts.enter("sums", "zoe", at=1e9, seed=1)
        assert int(new.id[1:]) > made.rows["attempts"]  # no number is given out again


def test_tables_of_another_program_beside_ours_come_along(
    filled_url: str, new_url: str, tmp_path: Path
) -> None:
    engine = create_engine(parse_address(filled_url).url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE theirs (name TEXT)"))
        connection.execute(text("INSERT INTO theirs VALUES ('safe')"))
    engine.dispose()
    with open_store(filled_url) as store:
        made = store.backups.write(tmp_path / "one")
    assert "theirs" not in made.rows
    with open_store(new_url) as store:
        assert store.backups.restore(tmp_path / "one") == made
        with store._database.read() as connection:
            assert connection.scalar(text("SELECT name FROM theirs")) == "safe"


def test_one_of_sqlite_can_be_restored_to_postgresql(
    played: Path, tmp_path: Path, postgres_url: str
) -> None:
    with open_store(str(played)) as store:
        made = store.backups.write(tmp_path / "one")
        rows = read_all(store)
    with quick_store(postgres_url) as store:
        assert store.backups.restore(tmp_path / "one") == made
        assert read_all(store) == rows
        store.backups.write(tmp_path / "two")
    with open_store(str(tmp_path / "new.db")) as store:
        with pytest.raises(InvalidInput, match=r"is a backup of PostgreSQL; .* tally admin copy"):
            store.backups.restore(tmp_path / "two")
        assert not store.exists


def test_it_is_its_owners_alone_and_replaces_nothing(filled_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    before = os.umask(0)
    try:
        with open_store(filled_url) as store:
            store.backups.write(folder / "one")
            assert (folder / "one").stat().st_mode & 0o777 == 0o600
            with pytest.raises(Conflict, match="is there already"):
                store.backups.write(folder / "one")
            with pytest.raises(WorkFailed, match="could not be written: No such file"):
                store.backups.write(folder / "none" / "one")
    finally:
        os.umask(before)
    assert [each.name for each in folder.iterdir()] == ["one"]


def test_nothing_is_left_of_one_that_failed(
    filled_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "_read_backup", fail)
    (tmp_path / "backups").mkdir()
    with open_store(filled_url) as store, pytest.raises(KeyboardInterrupt):
        store.backups.write(tmp_path / "backups" / "one")
    assert not list((tmp_path / "backups").iterdir())


def test_a_full_disk_is_that_of_the_backup(played: Path, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(str(played)) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            with pytest.raises(WorkFailed, match="one could not be written: No space left"):
                store.backups.write(tmp_path / "one")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_database_that_can_only_be_read_is_backed_up(played: Path) -> None:
    # pytest's own folders are closed to others
    with tempfile.TemporaryDirectory() as name, open_store(str(played)) as store:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "closed").mkdir()
        store.backups.copy(f"{folder}/closed/tally.db")
        (folder / "closed/tally.db").chmod(0o444)
        (folder / "closed").chmod(0o555)
        with without_rights(), open_store(f"{folder}/closed/tally.db") as closed:
            made = closed.backups.write(folder / "one")
        assert [each.name for each in (folder / "closed").iterdir()] == ["tally.db"]
        (folder / "closed").chmod(0o755)
        rows = read_all(store)
        assert made.rows == {name: found.total() for name, found in rows.items() if found}


def test_what_has_tables_is_not_restored_to(filled_url: str, new_url: str, tmp_path: Path) -> None:
    with open_store(filled_url) as store:
        store.backups.write(tmp_path / "one")
    with open_store(new_url) as store:
        store.set_var("mine", "1")
        with pytest.raises(Conflict, match=r"is not empty|is there already"):
            store.backups.restore(tmp_path / "one")
        assert store.vars() == {"mine": "1"}


def test_tables_of_another_program_are_left_as_they_are(
    filled_url: str, new_url: str, tmp_path: Path
) -> None:
    with open_store(filled_url) as store:
        store.backups.write(tmp_path / "one")
    parse_address(new_url).make_folder()
    engine = create_engine(parse_address(new_url).url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE runs (name TEXT)"))
        connection.execute(text("INSERT INTO runs VALUES ('theirs')"))
    with open_store(new_url) as store, pytest.raises(Conflict, match=r"not empty|there already"):
        store.backups.restore(tmp_path / "one")
    with engine.begin() as connection:
        assert connection.execute(text("SELECT name FROM runs")).scalars().all() == ["theirs"]
    engine.dispose()


def test_a_restore_that_ends_early_leaves_nothing_of_sqlite(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "one")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "_read_backup", fail)
    with open_store(str(tmp_path / "new" / "tally.db")) as store, pytest.raises(KeyboardInterrupt):
        store.backups.restore(tmp_path / "one")
    assert not list((tmp_path / "new").iterdir())


def test_a_restore_that_ends_early_leaves_nothing_of_postgresql(
    played: Path, postgres_url: str, tmp_path: Path, postgres: Postgres
) -> None:
    with open_store(str(played)) as store:
        store.backups.copy(postgres_url)
    with open_store(postgres_url) as store:
        store.backups.write(tmp_path / "one")
    url = postgres.fresh()
    engine = create_engine(parse_address(url).url)
    with engine.begin() as connection:  # the last table in the archive that cannot be made
        connection.exec_driver_sql("CREATE SEQUENCE webhooks")
    with open_store(url) as store:
        with pytest.raises(WorkFailed, match=r'pg_restore failed: .*"webhooks" already exists'):
            store.backups.restore(tmp_path / "one")
        assert not store.exists
    with engine.begin() as connection:
        assert not connection.exec_driver_sql(
            "SELECT * FROM pg_tables WHERE schemaname = 'public'"
        ).all()
    engine.dispose()


def test_one_that_was_cut_is_refused(filled_url: str, new_url: str, tmp_path: Path) -> None:
    with open_store(filled_url) as store:
        store.backups.write(tmp_path / "one")
    content = (tmp_path / "one").read_bytes()
    for share in (0.01, 0.3, 0.6, 0.9, 0.99):
        (tmp_path / "cut").write_bytes(content[: int(len(content) * share)])
        with open_store(new_url) as store, pytest.raises(InvalidInput, match="is damaged"):
            store.backups.restore(tmp_path / "cut")
        assert is_empty(new_url)


def test_one_whose_pages_are_damaged_is_refused(
    filled_url: str, new_url: str, tmp_path: Path
) -> None:
    with open_store(filled_url) as store:
        store.backups.write(tmp_path / "one")
    content = (tmp_path / "one").read_bytes()
    half = len(content) // 2 // 4096 * 4096
    (tmp_path / "odd").write_bytes(content[:half] + b"\xff" * 4096 + content[half + 4096 :])
    with open_store(new_url) as store, pytest.raises(InvalidInput, match="is damaged"):
        store.backups.restore(tmp_path / "odd")
    assert is_empty(new_url)


def test_other_files_are_none(played: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE runs (name TEXT)")
    (tmp_path / "text").write_text("no backup")
    (tmp_path / "empty").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "unversioned.db")) as connection:
        connection.execute(f"CREATE TABLE {VERSION_TABLE} (version_num TEXT)")
    with open_store(str(tmp_path / "new.db")) as store:
        for name, said in (
            ("other.db", "is no backup of Tallymark"),
            ("text", "is no backup of Tallymark"),
            ("empty", "is no backup of Tallymark"),
            ("none", "cannot be read: No such file"),
            ("", "cannot be read: Is a directory"),
            ("unversioned.db", "is no backup of Tallymark"),
            (str(played), "is a database in use, not a backup"),
        ):
            with pytest.raises(InvalidInput, match=said):
                store.backups.look(tmp_path / name)
            with pytest.raises(InvalidInput, match=said):
                store.backups.restore(tmp_path / name)
        assert not store.exists


@pytest.mark.parametrize(("version", "said"), [("0016", "from before 0.1.0"), ("9999", "newer")])
def test_one_of_another_version_is_refused(
    filled_url: str, new_url: str, tmp_path: Path, version: str, said: str
) -> None:
    with open_store(filled_url) as store:
        with store._database.engine.begin() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'"))
        with pytest.raises(WorkFailed, match=said):
            store.backups.write(tmp_path / "one")
    assert not (tmp_path / "one").exists()


def test_one_of_an_older_version_is_brought_up_to_date(
    empty_url: str, new_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    make_first(empty_url)
    with open_store(empty_url) as store:
        made = store.backups.write(tmp_path / "one")
    assert made.schema == FIRST
    request.getfixturevalue("next_version")
    with open_store(new_url) as store:
        assert store.backups.restore(tmp_path / "one") == made
        assert store.vars() == {"kept": "safe, migrated"}
    assert read_version(new_url) == NEXT


def test_the_key_of_secrets_stays_where_it_is(played: Path, tmp_path: Path) -> None:
    with open_store(str(played)) as store:
        assert store.backups.write(tmp_path / "one").secrets == 1
    key = played.with_name("tally.db.key").read_bytes().strip()
    assert key not in (tmp_path / "one").read_bytes()
    with open_store(str(tmp_path / "new.db")) as store:
        store.backups.restore(tmp_path / "one")
        with pytest.raises(WorkFailed, match="key of the stored secrets is missing"):
            store.secrets_for_run(["token"])
        (tmp_path / "new.db.key").write_bytes(key)
        (tmp_path / "new.db.key").chmod(0o600)
        assert store.secrets_for_run(["token"]) == {"token": "a word that nobody knows"}


def test_of_dated_ones_in_a_folder_the_last_are_kept(
    filled_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    others = {"tally-2020.db", "tally-2020-01-01-000000.db.txt"}
    for name in others:
        (folder / name).touch()
    made = []
    with open_store(filled_url) as store:
        for at in (1e9, 2e9, 1.5e9, 1.6e9):
            monkeypatch.setattr("time.time", lambda at=at: at)
            made.append(store.backups.write(folder, keep=2 if at == 1.6e9 else None))
        end = Path(made[0].file).suffix
        with pytest.raises(InvalidInput, match="is not a folder, so no older"):
            store.backups.write(tmp_path / "one", keep=2)
    assert Path(made[0].file).name == f"tally-2001-09-09-014640{end}"
    assert made[-1].removed == [made[0].file, made[2].file]
    left = {each.name for each in folder.iterdir()}
    assert left == others | {Path(made[1].file).name, Path(made[3].file).name}


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs of PostgreSQL's would be."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_missing_program_is_named_with_what_to_install(
    postgres_url: str, tmp_path: Path, no_programs: Path
) -> None:
    with open_store(postgres_url) as store:
        store.prepare()
        with pytest.raises(InvalidInput, match=r"need pg_dump, .* apt install postgresql-client"):
            store.backups.write(tmp_path / "one")
        (tmp_path / "archive").write_bytes(b"PGDMP and more that is not reached")
        with pytest.raises(InvalidInput, match="need pg_restore, which is not installed"):
            store.backups.look(tmp_path / "archive")
    assert not (tmp_path / "one").exists()


def test_a_program_that_fails_is_quoted_and_sees_no_password_in_its_words(
    postgres_url: str, tmp_path: Path, no_programs: Path
) -> None:
    said = (
        "pg_dump: error: aborting because of server version mismatch\n"
        "pg_dump: detail: server version: 18.4; pg_dump version: 15.18\n"
    )
    program = no_programs / "pg_dump"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/words; echo "$PGPASSWORD" > {tmp_path}/password\n'
        f"echo '{said}' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    url = postgres_url.replace("postgres:@", "postgres:sesame@")
    assert url != postgres_url
    expected = (
        "pg_dump failed: aborting because of server version mismatch; server version: 18.4; pg_dump"
        " version: 15.18; install PostgreSQL's client programs, of the server's version or newer"
    )
    with open_store(url) as store:
        store.prepare()
        with pytest.raises(WorkFailed, match=expected):
            store.backups.write(tmp_path / "one")
    assert (tmp_path / "password").read_text() == "sesame\n"
    assert "dbname=test_" in (tmp_path / "words").read_text()
    assert "sesame" not in (tmp_path / "words").read_text()
    assert not (tmp_path / "one").exists()


def test_room_is_given_back(own_url: str) -> None:
    with open_store(own_url) as store:
        for nth in range(20):
            store.create_run(a_run(f"run-{nth}", definition="x" * 50_000 + str(nth)))
        for nth in range(19):
            store.delete_run(f"run-{nth}")
        sizes = store.backups.compact()
        assert [each.id for each in store.runs()] == ["run-19"]
        with store._database.read() as connection:
            is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        assert sizes.after < sizes.before - 500_000
        path = parse_address(own_url).path
        assert path is not None
        assert sizes.after == path.stat().st_size
    else:
        assert sizes.after > 0


BY_FORMULA = a_challenge(scoring=ScoringRule(formula="1000 * succeeded - tokens_total"))


def play(store: Store, agent: str, tokens: int) -> None:
    """An attempt that is scored by the formula, as a server would."""
    entered = store.attempts.enter("sums", agent, at=10.0, seed=1)
    store.attempts.submit(entered.id, agent, Payload(submission=tokens), at=11.0)
    found = Evaluation(metrics=Metrics(succeeded=True, tokens_total=tokens))
    attempt = store.attempts.get(entered.id)
    outcome = score_attempt(BY_FORMULA, found, attempt=attempt)
    store.attempts.finish(entered.id, found, outcome, at=12.0, verified=False)


def test_one_that_is_made_while_others_write_passes_the_check(
    tmp_path: Path, empty_url: str, make_new: Callable[[], str]
) -> None:
    ended = threading.Event()
    with quick_store(empty_url) as store:
        store.challenges.publish(BY_FORMULA, b"", at=0.0)
        store.start_writer()

        def write(agent: str) -> None:
            tokens = 0
            while not ended.is_set():
                tokens += 1
                play(store, agent, tokens % 7)

        writers = [threading.Thread(target=write, args=(f"agent-{nth}",)) for nth in range(3)]
        for each in writers:
            each.start()
        try:
            for nth in range(3):
                store.backups.write(tmp_path / f"backup-{nth}")
            live = store.check_all()
        finally:
            ended.set()
            for each in writers:
                each.join()
        assert not live.counts
        assert not store.check_all().counts
    for nth in range(3):
        with quick_store(make_new()) as store:
            store.backups.restore(tmp_path / f"backup-{nth}")
            assert not store.check_all().counts
