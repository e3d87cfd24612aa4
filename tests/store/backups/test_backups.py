"""A backup is one moment of everything, and comes back on either kind of database."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Table, create_engine, text
from tests.store.contest_samples import a_challenge, quick_store
from tests.store.played_store import make_played

from tallymark.challenges.attempt import Evaluation, Metrics, Payload
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import ScoringRule
from tallymark.errors import Conflict, InvalidInput
from tallymark.store import Store, open_store, row_numbers
from tallymark.store.backups import backups
from tallymark.store.backups.backup_file import BackupFile, BackupWriter, Rows, make_file
from tallymark.store.jobs import block_tables
from tallymark.store.traces import rule_tables, trace_tables
from tallymark.store.webhooks import webhook_tables


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_played(tmp_path_factory.mktemp("played") / "tally.db")


def read_all(path: Path) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for block in BackupFile(path).read_rows():
        found.setdefault(block.table, Counter()).update(map(repr, block.rows))
    return found


def test_it_goes_from_one_kind_of_database_to_the_other_and_back(
    played: Path, tmp_path: Path, empty_url: str
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    with open_store(str(played)) as store:
        made = store.backups.write(one)
        before = store.check_all()
    with quick_store(empty_url) as store:
        assert store.backups.restore(one) == made
        store.backups.write(two)
        assert store.check_all() == before
        store.challenges.publish(a_challenge(), b"", at=0.0)
        new = store.attempts.enter("sums", "zoe", at=1e9, seed=1)
        assert int(new.id[1:]) > made.rows["attempts"]  # no number is given out again
    with quick_store(f"sqlite:///{tmp_path}/again.db") as store:
        store.backups.restore(two)
        store.backups.write(three)
    assert read_all(one) == read_all(two) == read_all(three)
    assert made.rows["secrets"] == made.secrets == 1
    assert not before.counts


def test_what_is_there_is_replaced_only_where_that_is_said(
    played: Path, tmp_path: Path, empty_url: str
) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "one")
    with quick_store(empty_url) as store:
        store.set_var("mine", "1")
        with pytest.raises(Conflict, match="is not empty"):
            store.backups.restore(tmp_path / "one")
        assert store.vars() == {"mine": "1"}
        store.backups.restore(tmp_path / "one", replace=True)
        assert "mine" not in store.vars()
        assert not store.check_all().counts


@pytest.mark.parametrize("replace", [False, True])
def test_tables_of_another_program_are_never_dropped(
    played: Path, tmp_path: Path, empty_url: str, replace: bool
) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "one")
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE runs (name TEXT)"))
        connection.execute(text("INSERT INTO runs VALUES ('theirs')"))
    refused = pytest.raises(Conflict, match="has tables of another program: runs")
    with open_store(empty_url) as store, refused:
        store.backups.restore(tmp_path / "one", replace=replace)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT name FROM runs")).scalars().all() == ["theirs"]
    engine.dispose()


def test_a_restore_that_is_refused_leaves_no_key(played: Path, tmp_path: Path) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "one")
    path = tmp_path / "mine" / "tally.db"
    path.parent.mkdir()
    with open_store(str(path)) as store:
        store.set_var("mine", "1")
        with pytest.raises(Conflict, match="is not empty"):
            store.backups.restore(tmp_path / "one")
    assert not list(path.parent.glob("*key*"))


def test_a_restore_that_ends_early_leaves_nothing(
    played: Path, tmp_path: Path, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "one")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "_set_sequences", fail)
    with quick_store(empty_url) as store:
        with pytest.raises(KeyboardInterrupt):
            store.backups.restore(tmp_path / "one")
        assert not store.exists


def test_an_older_one_is_brought_up_to_date(played: Path, tmp_path: Path, empty_url: str) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "new")
    header, end = BackupFile(tmp_path / "new").check()
    later = (
        trace_tables,
        rule_tables,
        webhook_tables,
        block_tables,
        row_numbers,
    )  # what came after version 0008
    since = {
        each.name for module in later for each in vars(module).values() if isinstance(each, Table)
    }
    tables = {name: list(each) for name, each in header.tables.items() if name not in since}
    flags = {name: tables[name].index("edition") for name in ("boards", "board_blocks")}
    for name, nth in flags.items():  # which editions came in the place of
        tables[name][nth] = "frozen"
    old = msgspec.structs.replace(header, schema="0008", tables=tables)
    with make_file(tmp_path / "old") as file:
        writer = BackupWriter(file)
        writer.write(b"H", old)
        for block in BackupFile(tmp_path / "new").read_rows():
            rows = block.rows
            if block.table in flags:
                at = flags[block.table]
                rows = [(*each[:at], each[at] == 0, *each[at + 1 :]) for each in rows]
            if block.table not in since:
                writer.write(b"R", Rows(block.table, rows))
        writer.write(b"E", end)
    with quick_store(empty_url) as store:
        store.backups.restore(tmp_path / "old")
        assert not store.check_all().counts
        assert store.traces.settle(1e12) == 0


def test_the_key_of_secrets_comes_along_where_that_is_wanted(played: Path, tmp_path: Path) -> None:
    with open_store(str(played)) as store:
        assert not store.backups.write(tmp_path / "without").has_key
        assert store.backups.write(tmp_path / "with", with_key=True).has_key
    for name, opens in (("without", False), ("with", True)):
        with open_store(str(tmp_path / f"{name}.db")) as store:
            store.backups.restore(tmp_path / name)
            if opens:
                assert store.secrets_for_run(["token"]) == {"token": "a word that nobody knows"}
                key = tmp_path / f"{name}.db.key"
                assert key.stat().st_mode & 0o777 == 0o600
            else:
                with pytest.raises(Exception, match="key of the stored secrets is missing"):
                    store.secrets_for_run(["token"])


def test_another_key_in_use_is_kept(played: Path, tmp_path: Path) -> None:
    with open_store(str(played)) as store:
        store.backups.write(tmp_path / "with", with_key=True)
    with open_store(str(tmp_path / "new.db")) as store:
        store.set_secret("own", "x")
        store.delete_secret("own")
        with pytest.raises(Conflict, match="another key of secrets"):
            store.backups.restore(tmp_path / "with", replace=True)


def test_without_a_key_none_can_come_along(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tally.db")) as store:
        store.prepare()
        with pytest.raises(InvalidInput, match="no key of secrets"):
            store.backups.write(tmp_path / "with", with_key=True)


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
    tmp_path: Path, empty_url: str
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
        with quick_store(f"sqlite:///{tmp_path}/restored-{nth}.db") as store:
            store.backups.restore(tmp_path / f"backup-{nth}")
            assert not store.check_all().counts
