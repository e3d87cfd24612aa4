"""`tally admin upgrade`, `backup`, `restore`, `check`, `prune`, `config`: for server operators."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, tell_store
from tallymark.cli.operator_session import JsonOption
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput, suggest
from tallymark.text import Table, format_count, format_number, format_utc_moment, say

if TYPE_CHECKING:
    from tallymark.service.app import App
    from tallymark.store.backups.backups import BackupSummary
    from tallymark.store.checks.findings import CheckReport

BackupPath = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="The file of the backup.")
]


def upgrade(db: Db = None) -> None:
    """Bring the tables of an older version up to date. End its servers and workers first.

    A server does so at its start. No other command changes tables, and an older version cannot use
    new ones: take a backup first.
    """
    from tallymark.service.app import App
    from tallymark.store.schema import CURRENT

    tell_store(db)
    with closing(App(db, upgrade=True)) as app:
        app.store.require()
        say(f"{app.store.shown} has the tables of this version (schema {CURRENT}).", wrap=True)


def backup(
    file: BackupPath,
    with_key: Annotated[
        bool,
        typer.Option("--with-key", help="With the key of stored secrets, for whoever has it."),
    ] = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Write all that is stored, of all tenants, to one file, as it is at this moment.

    Servers and workers may go on meanwhile. Either kind of database can be restored from it.
    """
    with _open_app(db) as app:
        _tell_backup(app.store.backups.write(file, with_key=with_key), file, "written", as_json)


def restore(
    file: BackupPath,
    replace: Annotated[
        bool, typer.Option("--replace", help="Lose what the database holds now.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the file to its end, and store nothing.")
    ] = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Store all that is in a backup, or nothing of it. End servers and workers first."""
    with _open_app(db) as app:
        backups = app.store.backups
        done = backups.look(file) if dry_run else backups.restore(file, replace=replace)
    _tell_backup(done, file, "whole" if dry_run else "restored", as_json)


def check(
    plugins: Annotated[
        bool, typer.Option("--plugins", help="Also run plugins again, in the sandbox.")
    ] = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Compute scores, boards, ratings, runs and traces again from the log, and compare.

    Nothing is changed, and servers may go on. Exit code 1 when anything differs.
    """
    import msgspec

    from tallymark.service.database_check import check_database

    with _open_app(db) as app:
        report = check_database(app.store, plugins=plugins)
    if as_json:
        print_json(msgspec.to_builtins(report, enc_hook=str))
    else:
        _tell_report(report)
    if report.counts:
        raise typer.Exit(1)


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
    as_json: JsonOption = False,
) -> None:
    """Remove what was kept for long enough; servers do so by themselves, every five minutes.

    Kinds are traces, runs, jobs, answers, deliveries, sessions and registrations. Attempts, scores
    and the log are never removed. For how long: tally admin tenants set --keep, tally traces
    settings.
    """
    import msgspec

    from tallymark.service.keeper import prune as remove
    from tallymark.store.retention import KINDS

    for kind in kinds or ():
        if kind not in KINDS:
            near = suggest(kind, KINDS)
            hint = f"did you mean {near!r}?" if near else f"there is {', '.join(KINDS)}"
            raise InvalidInput(f"nothing is pruned that is called {kind!r}", hint=hint)
    with _open_app(db) as app:
        app.store.require()
        found = remove(
            app.store, time.time(), tenant=tenant, kinds=kinds or KINDS, really=not dry_run
        )
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


def _open_app(db: str | None) -> closing[App]:
    from tallymark.service.app import App

    tell_store(db)
    return closing(App(db))


def _tell_backup(done: BackupSummary, file: Path, word: str, as_json: bool) -> None:
    if as_json:
        import msgspec

        print_json({"backup": {"file": str(file), **msgspec.to_builtins(done)}})
        return
    rows = sum(done.rows.values())
    say(
        f"{file} is {word}: {format_count(rows, 'row')} of {format_count(len(done.rows), 'table')},"
        f" {done.bytes:,} bytes, schema {done.schema}, from {done.database} at"
        f" {format_utc_moment(done.made_at)}.",
        wrap=True,
    )
    if done.secrets and not done.has_key:
        say(
            f"It has {format_count(done.secrets, 'secret')}, and not the key that opens them: keep"
            " the key file, or TALLY_SECRET_KEY, in another place.",
            err=True,
            wrap=True,
        )
    elif done.has_key:
        say("The key of the secrets is in it: whoever reads it reads them.", err=True)


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


def config(db: Db = None, as_json: JsonOption = False) -> None:
    """List every setting with its value and who set it; secrets are masked.

    What is typed wins over a variable, that over tally.toml, and that over the default.
    """
    from tallymark.cli.main import find_settings_file
    from tallymark.cli.settings_file import read_tables
    from tallymark.service.variables import list_settings

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
