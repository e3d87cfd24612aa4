"""Backups in the formats of the databases themselves, and copies from one database to another.

A backup of SQLite is a database file made by `VACUUM INTO`, one of PostgreSQL an archive of
`pg_dump`. Both are one consistent state while writers go on. Every new file, a restored SQLite
database too, gets its name only when it is complete. See docs/decisions/0049-backups.md.

A copy moves all rows to a database of either kind: the source is read in one snapshot, and the
target gets tables and rows in one transaction, referenced tables first.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from sqlalchemy import inspect
from sqlalchemy.exc import DBAPIError

from tallymark.errors import Conflict, InvalidInput, WorkFailed
from tallymark.store.database import Database
from tallymark.store.database_address import DatabaseAddress, parse_address
from tallymark.store.dialects import insert_many, read_many
from tallymark.store.schema import (
    CURRENT,
    FIRST,
    VERSION_TABLE,
    explain_version,
    make_tables,
    make_version,
)
from tallymark.store.secrets import secret_rows as sealed_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection, Table

    from tallymark.store.database import Database


_SQLITE, _POSTGRES = b"SQLite format 3\0", b"PGDMP"
_WAL = b"\2\2"
"""Bytes 18 and 19 of an SQLite file whose latest changes may stand in another file."""
_DATED = re.compile(r"tally-\d{4}-\d\d-\d\d-\d{6}\.(db|dump)")
_CANNOT_WRITE = {"SQLITE_FULL", "SQLITE_IOERR_WRITE"}
_PATIENCE = 15
_PORTABLE = ("--no-owner", "--no-privileges")
_INSTALL = "install PostgreSQL's client programs, of the server's version or newer: on Debian, apt"
_INSTALL += " install postgresql-client"


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a backup."""

    file: str
    database: str
    """sqlite or postgresql."""
    schema: str
    rows: dict[str, int]
    """By table; those that are empty are left out."""
    bytes: int
    secrets: int
    """Stored secrets, which only their key opens."""
    removed: list[str] = []
    """Older backups that were removed after this one was written."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a database on the disk."""

    before: int
    after: int


class Backups:
    """Backups of a whole database, with all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, path: Path, *, keep: int | None = None) -> BackupSummary:
        """Write a backup. In a folder it gets a dated name, and older ones beyond `keep` are
        removed.
        """
        self._database.require()
        folder = path if path.is_dir() else None
        if folder is not None:
            end = "dump" if self._database.address.path is None else "db"
            path = folder / time.strftime(f"tally-%Y-%m-%d-%H%M%S.{end}", time.gmtime(time.time()))
        elif keep is not None:
            raise InvalidInput(
                f"{path} is not a folder, so no older backups are removed",
                hint="with --keep, name a folder that is there",
            )
        with _make_file(path) as draft:
            if self._database.address.path is None:
                words = ("--format=custom", f"--lock-wait-timeout={_PATIENCE}s")
                self._run("pg_dump", *words, *_PORTABLE, f"--file={draft}")
            else:
                self._vacuum_into(draft)
            summary = replace(_read_backup(draft), file=str(path))
        if folder is None or keep is None:
            return summary
        dated = sorted(each for each in folder.iterdir() if _DATED.fullmatch(each.name))
        old = dated[:-keep]
        for each in old:
            each.unlink()
        return replace(summary, removed=[str(each) for each in old])

    def look(self, path: Path) -> BackupSummary:
        """Read a backup completely and summarise it."""
        return _read_backup(path)

    def restore(self, path: Path) -> BackupSummary:
        """Restore a backup into an empty database."""
        kind, target = _find_kind(path), self._database.address
        if kind == "sqlite" and target.path is not None:
            return _restore_file(path, target)
        if kind == "sqlite":
            with tempfile.TemporaryDirectory() as folder:
                restored = parse_address(str(Path(folder, "tally.db")))
                summary = _restore_file(path, restored)
                with closing(Database(restored, _PATIENCE)) as source:
                    copy_rows(source, self._database)
            return summary
        if target.path is not None:
            raise InvalidInput(
                f"{path} is a backup of PostgreSQL",
                hint="restore it to PostgreSQL, then move all rows with: tally admin copy",
            )
        summary = _read_backup(path)
        with self._database.connect_alone() as connection:
            require_empty(connection, target.shown)
        words = ("--single-transaction", "--exit-on-error")
        self._run("pg_restore", *words, *_PORTABLE, str(path))
        with self._database.connect_alone() as connection:
            if count_rows(connection, summary.rows) != summary.rows:
                raise WorkFailed(f"{target.shown} has not the rows that {path} has")
            connection.exec_driver_sql("ANALYZE")
        self._database.look(upgrade=True)
        return summary

    def copy(self, url: str) -> dict[str, int]:
        """Copy all rows to another, empty database; return their number by table."""
        self._database.require()
        target = parse_address(url)
        if target.path is None:
            with closing(Database(target, _PATIENCE)) as database:
                return copy_rows(self._database, database)
        with _make_database(target) as database:
            return copy_rows(self._database, database)

    def compact(self) -> Sizes:
        """Return unused space to the disk, as far as the database can."""
        self._database.require()
        before = self._measure()
        with self._database.connect_alone() as connection:
            if self._database.address.path is None:
                tables = ", ".join(list_tables())
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {tables}")
            else:
                connection.exec_driver_sql("VACUUM")
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return Sizes(before=before, after=self._measure())

    def _vacuum_into(self, draft: Path) -> None:
        with self._database.connect_alone() as connection:
            try:
                connection.exec_driver_sql("VACUUM INTO ?", (str(draft),))
            except DBAPIError as error:
                # About the new file: the database is only read
                if getattr(error.orig, "sqlite_errorname", "") in _CANNOT_WRITE:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
                raise

    def _measure(self) -> int:
        path = self._database.address.path
        if path is not None:
            files = (path, path.with_name(f"{path.name}-wal"))
            return sum(each.stat().st_size for each in files if each.exists())
        with self._database.connect_alone() as connection:
            query = "SELECT pg_database_size(current_database())"
            size: int = connection.exec_driver_sql(query).scalar_one()
            return size

    def _run(self, program: str, *words: str) -> None:
        """Run a program of PostgreSQL's on the database."""
        from psycopg.conninfo import make_conninfo  # noqa: PLC0415 (only PostgreSQL needs it)

        engine = self._database.engine
        given = engine.dialect.create_connect_args(engine.url)[1]
        given.pop("context", None)  # of SQLAlchemy's own
        password = given.pop("password", None)  # not for the list of processes
        env = {**os.environ, "LC_ALL": "C"}
        if password is not None:
            env["PGPASSWORD"] = str(password)
        command = [_find_program(program), *words, f"--dbname={make_conninfo(**given)}"]
        done = subprocess.run(command, env=env, capture_output=True, check=False)  # noqa: S603  ours
        if done.returncode:
            hint = _INSTALL if b"version mismatch" in done.stderr else None
            raise WorkFailed(f"{program} failed: {_quote(done.stderr)}", hint=hint)


@contextmanager
def _make_file(path: Path) -> Iterator[Path]:
    """Make a file, readable by its owner alone, that gets its name only when it is complete."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        if path.exists():
            raise _explain_taken(path)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename, it does not replace a file made meanwhile
    except FileExistsError:
        raise _explain_taken(path) from None
    except OSError as error:
        raise WorkFailed(
            f"{path} could not be written: {error.strerror or error}",
            hint="nothing of it is left; name a place with enough room where you may write",
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _explain_taken(path: Path) -> Conflict:
    return Conflict(f"{path} is there already", hint="name a file that is not")


@contextmanager
def _make_database(address: DatabaseAddress) -> Iterator[Database]:
    """Make an SQLite database that gets its name when the block ends."""
    if address.path is None:
        raise LookupError(address.shown)
    if address.path.exists():
        raise explain_full(f"{address.shown} is there already")
    address.make_folder()
    with _make_file(address.path) as draft:
        changes, index = (draft.with_name(draft.name + end) for end in ("-wal", "-shm"))
        made = dataclasses.replace(parse_address(str(draft)), shown=address.shown)
        try:
            with closing(Database(made, _PATIENCE)) as database:
                yield database
            if changes.exists():  # the last one to close a database moves them into it
                raise WorkFailed(f"{address.shown} could not be written to its end")
        finally:
            changes.unlink(missing_ok=True)
            index.unlink(missing_ok=True)


def _restore_file(path: Path, target: DatabaseAddress) -> BackupSummary:
    with _make_database(target) as database:
        draft = database.address.path or Path()
        shutil.copyfile(path, draft)
        summary = replace(_read_backup(draft, path), file=str(path))
        with database.connect_alone() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        database.look(upgrade=True)
    return summary


def _find_kind(path: Path) -> str:
    """Detect from its first bytes which database a backup is of."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror or error}", hint="check its path"
        ) from None
    if head.startswith(_POSTGRES):
        return "postgresql"
    if not head.startswith(_SQLITE):
        raise InvalidInput(
            f"{path} is no backup of Tallymark", hint="name a file that tally admin backup made"
        )
    if head.endswith(_WAL):
        raise InvalidInput(
            f"{path} is a database in use, not a backup: its latest changes may be in other files",
            hint="name a file that tally admin backup made",
        )
    return "sqlite"


def _read_backup(path: Path, shown: Path | None = None) -> BackupSummary:
    """Read all of a backup; refuse a damaged one or one of an unknown version."""
    shown = shown or path
    kind = _find_kind(path)
    version, rows = (_read_file if kind == "sqlite" else _read_archive)(path, shown)
    if version is None:
        raise InvalidInput(
            f"{shown} is no backup of Tallymark", hint="name a file that tally admin backup made"
        )
    if not FIRST <= version <= CURRENT:
        raise explain_version(version, str(shown))
    return BackupSummary(
        file=str(shown),
        database=kind,
        schema=version,
        rows={name: rows[name] for name in sorted(list_tables()) if rows.get(name)},
        bytes=path.stat().st_size,
        secrets=rows.get(sealed_secrets.name, 0),
    )


def _read_file(path: Path, shown: Path) -> tuple[str | None, Mapping[str, int]]:
    """Schema and number of rows by table of an SQLite backup."""
    try:
        address = f"file:{quote(str(path))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            (problem,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok":
                raise _explain_damage(shown, problem)
            query = (
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
            )
            names = {name for (name,) in connection.execute(query)}
            if VERSION_TABLE not in names:
                return None, {}
            query = f"SELECT max(version_num) FROM {VERSION_TABLE}"  # noqa: S608  our name
            (version,) = connection.execute(query).fetchone()
            count = "SELECT count(*) FROM {}"
            rows = {
                name: connection.execute(count.format(name)).fetchone()[0]
                for name in names.intersection(list_tables())
            }
            return version, rows
    except sqlite3.Error as error:
        raise _explain_damage(shown, str(error)) from None


def _read_archive(path: Path, shown: Path) -> tuple[str | None, Mapping[str, int]]:
    """Schema and number of rows by table of a PostgreSQL backup: pg_restore writes one line per
    row.
    """
    version: str | None = None
    rows: Counter[str] = Counter()
    table: str | None = None
    command = [_find_program("pg_restore"), "--data-only", "--file=-", str(path)]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process,  # noqa: S603  ours
    ):
        for line in process.stdout or ():
            if table is None:
                if line.startswith(b"COPY "):
                    table = line.split(b" ", 2)[1].rpartition(b".")[2].decode()
            elif line == b"\\.\n":
                table = None
            elif table == VERSION_TABLE:
                version = line.decode().strip()
            else:
                rows[table] += 1
        if process.wait():
            said.seek(0)
            raise _explain_damage(shown, _quote(said.read()))
    return version, rows


def _explain_damage(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"the backup {path} is damaged: {why}", hint="take another one")


def _find_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InvalidInput(
            f"backups of PostgreSQL need {name}, which is not installed", hint=_INSTALL
        )
    return found


def _quote(said: bytes) -> str:
    """Error messages of a PostgreSQL program, in one line."""
    lines = said.decode("utf-8", "replace").splitlines()
    parts = [line.partition(": ")[2] for line in lines if ": error:" in line or ": detail:" in line]
    return "; ".join(part.partition(": ")[2] for part in parts[:2]) or "it does not say why"


def copy_rows(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows to an empty database; return their number by table."""
    source.require()
    with source.long_snapshot() as snapshot:
        reader = snapshot.connection

        def work(writer: Connection) -> dict[str, int]:
            require_empty(writer, target.address.shown)
            make_tables(writer)
            make_version(writer, CURRENT)
            for table in list_tables().values():
                names = [each.name for each in table.c]
                insert_many(writer, table, names, read_many(reader, table, names))
                _copy_last_number(reader, writer, table)
            counts = count_rows(writer, list_tables())
            if counts != count_rows(reader, list_tables()):
                raise WorkFailed(f"{target.address.shown} has not the rows that were read")
            writer.exec_driver_sql("ANALYZE")
            return counts

        return target.change_schema(work)


def list_tables() -> Mapping[str, Table]:
    """All tables by name, referenced ones first."""
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands need them)

    return {str(table.name): table for table in metadata.sorted_tables}


def count_rows(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    query = "SELECT count(*) FROM {}"
    return {name: connection.exec_driver_sql(query.format(name)).scalar_one() for name in names}


def require_empty(connection: Connection, shown: str) -> None:
    """Refuse a database that has any tables."""
    if inspect(connection).get_table_names():
        raise explain_full(f"{shown} is not empty")


def explain_full(what: str) -> Conflict:
    """The error where only a new database will do."""
    return Conflict(what, hint="take a new one, and point --db or TALLY_DB to it afterwards")


def _copy_last_number(source: Connection, target: Connection, table: Table) -> None:
    """Copy the counter of a table, so no number is given out again even if its row is gone."""
    column = table.autoincrement_column
    if column is None:
        return
    last = _read_last_number(source, table, column.name)
    if target.dialect.name == "postgresql":
        query = "SELECT setval(pg_get_serial_sequence(%s, %s), %s)"
        if last:
            target.exec_driver_sql(query, (table.name, column.name, last))
    elif last and table.dialect_options["sqlite"]["autoincrement"]:
        target.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        target.exec_driver_sql("INSERT INTO sqlite_sequence VALUES (?, ?)", (table.name, last))


def _read_last_number(connection: Connection, table: Table, column: str) -> int:
    given = (
        f"pg_sequence_last_value(pg_get_serial_sequence('{table.name}', '{column}'))"
        if connection.dialect.name == "postgresql"
        else f"(SELECT max(seq) FROM sqlite_sequence WHERE name = '{table.name}')"  # noqa: S608  our names
    )
    # SQLite numbers some tables by their largest number alone.
    query = f"SELECT coalesce({given}, max({column}), 0) FROM {table.name}"  # noqa: S608  our names
    last: int = connection.exec_driver_sql(query).scalar_one()
    return last
