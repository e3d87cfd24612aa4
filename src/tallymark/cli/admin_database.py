"""`tally admin upgrade`, `backup`, `restore`, `copy`, `compact`, `check`, `prune`, `config`."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tallymark.cli.main import find_settings_file
from tallymark.cli.options import Db, Json
from tallymark.cli.session import tell_store
from tallymark.cli.streams import print_json
from tallymark.service.environment_variables import list_settings
from tallymark.text import Table, format_count, format_number, say

if TYPE_CHECKING:
    from tallymark.service.maintenance import BackupSummary, CheckReport, Maintenance


def upgrade(db: Db = None) -> None:
    """Upgrade the tables of an older version. Stop its servers and workers first.

    A server does this when it starts. No other command changes tables, and an older version cannot
    use the new ones: make a backup first.
    """
    with _open(db, upgrade=True) as opened:
        shown, schema = opened.upgrade()
    say(f"{shown} has the tables of this version (schema {schema}).", wrap=True)


def backup(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Backup file, or a folder for a backup with the time in its name.",
        ),
    ],
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            min=1,
            help="In a folder: delete all but the newest N backups with times in their names.",
        ),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Write a consistent backup of all tenants to one file.

    Servers and workers can keep running. The file is a copy of a SQLite database, or a pg_dump
    archive of a PostgreSQL database. It does not contain the key of stored secrets.
    """
    with _open(db) as opened:
        done = opened.write_backup(file, keep=keep)
    _tell_backup(done, "written", as_json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="Backup file.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check the whole file, but store nothing.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Restore a backup to a new database, completely or not at all."""
    with _open(db) as opened:
        done = opened.restore_backup(file, dry_run=dry_run)
    _tell_backup(done, "complete" if dry_run else "restored", as_json)


def copy(
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO", show_default=False, help="New database, in the form that --db takes."
        ),
    ],
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Copy the database to a new one of either kind, completely or not at all.

    Use it to move from SQLite to PostgreSQL or back. Stop servers and workers first: what they
    write during the copy is not in it.
    """
    with _open(db) as opened:
        rows = opened.copy(to)
    if as_json:
        print_json({"copied": {name: count for name, count in rows.items() if count}})
        return
    tables = sum(map(bool, rows.values()))
    say(
        f"Copied {format_count(sum(rows.values()), 'row')} of {format_count(tables, 'table')}.",
        wrap=True,
    )


def compact(db: Db = None, as_json: Json = False) -> None:
    """Return unused disk space to the system.

    SQLite rewrites its file, which needs the same space again for that time and blocks writers.
    PostgreSQL reuses free space itself, and returns only what is free at the end of tables.
    """
    with _open(db) as opened:
        sizes = opened.compact()
    if as_json:
        print_json({"bytes": msgspec.to_builtins(sizes)})
    else:
        say(f"{sizes.before:,} bytes before, {sizes.after:,} bytes after.")


def check(
    plugins: Annotated[
        bool, typer.Option("--plugins", help="Also run plugins again, in the sandbox.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Recompute scores, boards, ratings, runs and traces from the log, and compare.

    Nothing is changed, and servers can keep running. Exits with 1 if anything differs.
    """
    with _open(db) as opened:
        report = opened.check(plugins=plugins)
    if as_json:
        print_json(msgspec.to_builtins(report, enc_hook=str))
    else:
        _tell_report(report)
    if report.counts:
        raise typer.Exit(1)


def rotate_secret_key(
    finish: Annotated[
        bool, typer.Option("--finish", help="Delete the old key, at least a minute later.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Encrypt all secrets and webhook signing secrets with a new key. Servers can keep running.

    With a key file, a new key replaces it, and the old key is kept in a second file. With
    TALLY_SECRET_KEY, start servers with a new key there and the old one in TALLY_SECRET_KEY_BEFORE,
    then run this command with the same two.
    """
    with _open(db) as opened:
        done = opened.rotate_secret_key(last=finish)
    if as_json:
        print_json({"rotated": msgspec.to_builtins(done)})
        return
    counted = (format_count(done.secrets, "secret"), format_count(done.webhooks, "webhook"))
    say(f"Sealed by the key in use now: {' and '.join(counted)}.", wrap=True)
    if done.key_file is not None:
        say(
            f"The new key is in {done.key_file}: keep it in another place too. The one before is in"
            f" {done.key_file_before}, for what servers were sealing meanwhile. In a minute, run"
            " this again with --finish.",
            wrap=True,
        )


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only data of this tenant.")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only data of this kind. Repeatable."),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Remove data past its retention period, as servers do every five minutes.

    Kinds are traces, runs, jobs, answers, deliveries, sessions and registrations. Attempts, scores
    and the log are never removed. Periods are set by `tally admin tenants set --keep` and
    `tally traces settings`.
    """
    with _open(db) as opened:
        found = opened.prune(kinds or (), tenant, dry_run=dry_run)
    if as_json:
        print_json({"removed": not dry_run, "kinds": msgspec.to_builtins(found)})
        return
    rows = [
        (
            each.tenant,
            each.kind,
            "for ever" if each.days is None else _write_days(each.days),
            f"{each.rows:,}",
            f"{each.bytes:,}",
        )
        for each in found
    ]
    heads = ("TENANT", "KIND", "KEPT", "WOULD GO" if dry_run else "REMOVED", "BYTES")
    say(Table(heads, rows, right=heads[-2:]))


def _write_days(days: float) -> str:
    return format_count(int(days), "day") if days == int(days) else f"{format_number(days)} days"


def _open(db: str | None, *, upgrade: bool = False) -> AbstractContextManager[Maintenance]:
    from tallymark.service.maintenance import open_maintenance  # noqa: PLC0415 (loads SQLAlchemy)

    tell_store(db)
    return open_maintenance(db, upgrade=upgrade)


def _tell_backup(done: BackupSummary, word: str, as_json: bool) -> None:
    if as_json:
        print_json({"backup": msgspec.to_builtins(done)})
        return
    rows = sum(done.rows.values())
    say(
        f"{done.file} is {word}: {format_count(rows, 'row')} of"
        f" {format_count(len(done.rows), 'table')}, {done.bytes:,} bytes, schema {done.schema},"
        f" from {done.database}.",
        wrap=True,
    )
    for each in done.removed:
        say(f"{each} is removed.", wrap=True)
    if done.secrets:
        say(
            f"It has {format_count(done.secrets, 'secret')}, and not the key that opens them: keep"
            " the key file, or TALLY_SECRET_KEY, in another place.",
            err=True,
            wrap=True,
        )


def _tell_report(report: CheckReport) -> None:
    for each in report.differences:
        of = "" if each.tenant == "default" else f" (tenant {each.tenant})"
        say(f"{each.kind}{of}: {each}")
    more = sum(report.counts.values()) - len(report.differences)
    if more:
        say(f"and {more:,} more")
    looked = ", ".join(f"{count:,} {kind}" for kind, count in report.checked.items() if count)
    say(f"Computed again: {looked or 'nothing, for nothing is stored'}.", err=True, wrap=True)
    for why, count in report.skipped.items():
        say(f"Not computed again: {count:,} {why}.", err=True, wrap=True)
    total = sum(report.counts.values())
    say(f"{format_count(total, 'difference')}." if total else "No differences.")


def config(db: Db = None, as_json: Json = False) -> None:
    """List every setting with its value and where it was set. Secrets are masked.

    An option takes precedence over a variable, a variable over tally.toml, and that over the
    default.
    """
    from tallymark.cli.settings_file import read_tables  # noqa: PLC0415 (most folders have no settings file)

    path = find_settings_file()
    tables = {} if path is None else read_tables(path)
    found = list(list_settings(os.environ, tables, db))
    if as_json:
        print_json({"settings": [each._asdict() for each in found]})
        return
    rows = [(each.name, each.value or "-", each.source) for each in found]
    say(Table(("SETTING", "VALUE", "FROM"), rows, wrap=("VALUE",)))
    if path is not None:
        say(f"tally.toml is {path}", err=True)
