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
from tallymark.service.variables import list_settings
from tallymark.text import Table, format_count, format_number, say

if TYPE_CHECKING:
    from tallymark.service.maintenance import BackupSummary, CheckReport, Maintenance


def upgrade(db: Db = None) -> None:
    """Bring the tables of an older version up to date. End its servers and workers first.

    A server does so at its start. No other command changes tables, and an older version cannot use
    new ones: take a backup first.
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
            help="The file of the backup, or a folder for one with the time in its name.",
        ),
    ],
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            min=1,
            help="In a folder: remove all backups with times in their names but the last N.",
        ),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Write all that is stored, of all tenants, to one file, as it is at this moment.

    Servers and workers may go on meanwhile. Of SQLite it is a copy of the database, of PostgreSQL
    an archive of pg_dump. The key of stored secrets is not in it.
    """
    with _open(db) as opened:
        done = opened.write_backup(file, keep=keep)
    _tell_backup(done, "written", as_json)


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The file of the backup.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the file to its end, and store nothing.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Store all that is in a backup in a new database, or nothing of it."""
    with _open(db) as opened:
        done = opened.restore_backup(file, dry_run=dry_run)
    _tell_backup(done, "complete" if dry_run else "restored", as_json)


def copy(
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO", show_default=False, help="A new database, written as --db takes it."
        ),
    ],
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Copy all that is stored to a new database of either kind, or nothing of it.

    So a team moves from SQLite to PostgreSQL or back. End servers and workers first: what they
    write meanwhile is not in the copy.
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
    """Give room that nothing uses any more back to the disk.

    SQLite writes its file anew: that takes as much room again meanwhile, and whoever writes waits.
    PostgreSQL uses such room for what comes next, and gives back only what is at the end of tables.
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
    """Compute scores, boards, ratings, runs and traces again from the log, and compare.

    Nothing is changed, and servers may go on. Exit code 1 when anything differs.
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
        bool, typer.Option("--finish", help="Forget the key before, a minute later.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Seal all secrets, and what signs for webhooks, by a new key. Servers may go on.

    With a key file, a new key takes its place, and the one before stays beside it. With
    TALLY_SECRET_KEY, start servers with a new one and the old one as TALLY_SECRET_KEY_BEFORE, then
    run this with the same two.
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
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only of this tenant.")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only of this kind; may be given again."),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Remove what was kept for long enough; servers do so by themselves, every five minutes.

    Kinds are traces, runs, jobs, answers, deliveries, sessions and registrations. Attempts, scores
    and the log are never removed. For how long: tally admin tenants set --keep, tally traces
    settings.
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
    say(f"{format_count(total, 'difference')}." if total else "All is as the log says.")


def config(db: Db = None, as_json: Json = False) -> None:
    """List every setting with its value and who set it; secrets are masked.

    What is typed wins over a variable, that over tally.toml, and that over the default.
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
