"""What users write for a database, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.errors import InvalidInput
from tallymark.store import open_store
from tallymark.store.database_address import parse_address


@pytest.mark.parametrize(
    ("text", "shown", "path"),
    [
        (None, ".tally/tally.db", ".tally/tally.db"),
        ("runs.db", "runs.db", "runs.db"),
        ("a folder/100%.db", "a folder/100%.db", "a folder/100%.db"),
        ("/var/lib/runs.db", "/var/lib/runs.db", "/var/lib/runs.db"),
        ("sqlite:///runs.db", "runs.db", "runs.db"),
        ("sqlite:////var/lib/runs.db", "/var/lib/runs.db", "/var/lib/runs.db"),
        ("sqlite+pysqlite:///runs.db", "runs.db", "runs.db"),
        (" runs.db\n", "runs.db", "runs.db"),
    ],
)
def test_files(text: str | None, shown: str, path: str) -> None:
    address = parse_address(text)
    assert (address.shown, address.path) == (shown, Path.cwd() / path)


def test_a_home_folder_is_found() -> None:
    assert parse_address("~/runs.db").path == Path.home() / "runs.db"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://alice:hush@db.example:5433/evals", "postgresql://db.example:5433/evals"),
        ("postgres://alice:hush@db.example/evals", "postgresql://db.example/evals"),
        ("postgresql+psycopg://alice:h%40sh@db.example/evals", "postgresql://db.example/evals"),
        ("postgresql://alice@db.example/evals?password=hush", "postgresql://db.example/evals"),
    ],
)
def test_servers_are_shown_without_user_and_password(text: str, shown: str) -> None:
    address = parse_address(text)
    assert (address.shown, address.path) == (shown, None)
    assert address.url.drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the database address is empty"),
        ("  ", "the database address is empty"),
        ("mysql://alice:hush@host/db", "SQLite or PostgreSQL, and 'mysql' is neither"),
        ("sqlite+aiosqlite:///x.db", "'sqlite\\+aiosqlite' is neither"),
        ("sqlite:runs.db", "lacks '//' after 'sqlite:'"),
        ("postgresql:hush", "lacks '//' after 'postgresql:'"),
        ("file:runs.db?mode=ro", "lacks '//' after 'file:'"),
        ("sqlite://runs.db", "two slashes where it needs three"),
        ("sqlite://", "in memory would be gone at the end; name a file"),
        ("sqlite:///:memory:", "in memory would be gone at the end"),
        ("sqlite:///runs.db?mode=ro", "takes no options"),
        ("postgresql://alice:hu@sh@host/db", "more than one '@'; write an '@' .* as %40"),
        ("postgresql://alice:hu@sh/hush@host/db", "more than one '@'"),
        ("postgresql://alice:hu@sh:hush@host/db", "cannot be read; write a file's path"),
        ("postgresql://alice:hush@host:port/db", "cannot be read"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        open_store(text)
    assert "hush" not in str(caught.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.store.database_address.find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r'install "tallymark\[postgres\]"'):
        open_store("postgresql://host/db")


@pytest.mark.parametrize("tenant", ["", "a\0b", "\ud800"])
def test_a_tenant_needs_a_name(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(InvalidInput, match="a tenant cannot be called"):
        open_store(str(tmp_path / "runs.db"), tenant=tenant)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store, in a home folder; the current folder is two below it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "project"
    (folder / "sub" / "deep").mkdir(parents=True)
    with open_store(str(folder / ".tally" / "tally.db")) as store:
        store.prepare()
    monkeypatch.chdir(folder / "sub" / "deep")
    return folder


def test_a_subfolder_finds_the_store_of_the_nearest_folder_above(project: Path) -> None:
    assert parse_address(None).shown == "../../.tally/tally.db"
    with open_store(".tally/tally.db") as store:
        store.prepare()
    assert parse_address(None).shown == ".tally/tally.db"


def test_the_home_folders_store_is_not_for_all_below_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    assert parse_address(None).shown == ".tally/tally.db"
    monkeypatch.chdir(project)
    assert parse_address(None).shown == ".tally/tally.db"
    link = project.parent / "link"
    link.symlink_to(project)
    monkeypatch.setenv("HOME", str(link))
    monkeypatch.chdir(project / "sub" / "deep")
    assert parse_address(None).shown == ".tally/tally.db"


def test_somebody_elses_store_above_is_not_taken(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: project.stat().st_uid + 1)
    assert parse_address(None).shown == ".tally/tally.db"


def test_git_ignores_the_folder_of_a_store_but_no_folder_of_yours(project: Path) -> None:
    assert (project / ".tally" / ".gitignore").read_text() == "*\n"
    with open_store(str(project / "mine" / "runs.db")) as store:
        store.prepare()
    assert not (project / "mine" / ".gitignore").exists()
