"""The store: all data of one tenant.

All methods may be called from any thread, and block while the database works. Errors are sentences:
`InvalidInput` or `WorkFailed`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, Unpack

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import case_results, runs, secrets
from tallymark.store.database import Database
from tallymark.store.database_address import parse_address
from tallymark.store.dialects import make_storable
from tallymark.store.leases import Lease
from tallymark.store.run_results import ResultWriter
from tallymark.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy import Connection

    from tallymark.runs.record import CaseResult, CaseStatus, RunRecord
    from tallymark.store.backups import Backups
    from tallymark.store.bulk_load import Loads
    from tallymark.store.checkpoints import Checkpoint
    from tallymark.store.checks.attempt_checks import FindPlugin
    from tallymark.store.checks.findings import CheckReport
    from tallymark.store.contests.agents import Agents, Disqualifications
    from tallymark.store.contests.attempts import Attempts
    from tallymark.store.contests.audit_log import AuditLog
    from tallymark.store.contests.board_changes import BoardChanges
    from tallymark.store.contests.boards import Boards
    from tallymark.store.contests.challenges import Challenges
    from tallymark.store.contests.contest_stats import ContestStats
    from tallymark.store.contests.judge_answers import JudgeAnswers
    from tallymark.store.contests.plugin_quarantine import PluginQuarantine
    from tallymark.store.contests.ratings import Ratings
    from tallymark.store.contests.rescorings import Rescorings
    from tallymark.store.contests.score_columns import ScoreColumnReader
    from tallymark.store.contests.tracks import Tracks
    from tallymark.store.contests.versus import VersusRows
    from tallymark.store.idempotency import IdempotentAnswers
    from tallymark.store.invitations import Invitations
    from tallymark.store.job_queue import JobQueue
    from tallymark.store.jobs import Jobs, NewJob
    from tallymark.store.keys import Keys, Sessions
    from tallymark.store.quick_statements import ReadSnapshot
    from tallymark.store.retention import Pruner
    from tallymark.store.reviews import Reviews
    from tallymark.store.run_results import RunProgressReader
    from tallymark.store.runs import RunFilter, SuiteSummary
    from tallymark.store.secrets import Rotated
    from tallymark.store.stored_results import StoredResults
    from tallymark.store.tenants import Tenants
    from tallymark.store.traces.backfills import Backfills
    from tallymark.store.traces.rule_days import RuleDays
    from tallymark.store.traces.rule_outcomes import RuleOutcomes
    from tallymark.store.traces.rules import Rules
    from tallymark.store.traces.traces import Traces
    from tallymark.store.traces.witness import Witness
    from tallymark.store.webhook_deliveries import Deliveries
    from tallymark.store.webhooks import Webhooks

PATIENCE = 15.0
_LONGEST_RUN_NAME = 200
_SUBJECTS = {
    "challenges": ("contests.challenges", "Challenges"),
    "attempts": ("contests.attempts", "Attempts"),
    "agents": ("contests.agents", "Agents"),
    "boards": ("contests.boards", "Boards"),
    "board_changes": ("contests.board_changes", "BoardChanges"),
    "ratings": ("contests.ratings", "Ratings"),
    "contest_stats": ("contests.contest_stats", "ContestStats"),
    "disqualifications": ("contests.agents", "Disqualifications"),
    "audit_log": ("contests.audit_log", "AuditLog"),
    "rescorings": ("contests.rescorings", "Rescorings"),
    "score_columns": ("contests.score_columns", "ScoreColumnReader"),
    "plugin_quarantine": ("contests.plugin_quarantine", "PluginQuarantine"),
    "versus": ("contests.versus", "VersusRows"),
    "tracks": ("contests.tracks", "Tracks"),
    "judge_answers": ("contests.judge_answers", "JudgeAnswers"),
    "traces": ("traces.traces", "Traces"),
    "rules": ("traces.rules", "Rules"),
    "rule_outcomes": ("traces.rule_outcomes", "RuleOutcomes"),
    "rule_days": ("traces.rule_days", "RuleDays"),
    "backfills": ("traces.backfills", "Backfills"),
    "witness": ("traces.witness", "Witness"),
    "tenants": ("tenants", "Tenants"),
    "keys": ("keys", "Keys"),
    "invitations": ("invitations", "Invitations"),
    "sessions": ("keys", "Sessions"),
    "idempotent_answers": ("idempotency", "IdempotentAnswers"),
    "jobs": ("jobs", "Jobs"),
    "job_queue": ("job_queue", "JobQueue"),
    "webhooks": ("webhooks", "Webhooks"),
    "deliveries": ("webhook_deliveries", "Deliveries"),
    "backups": ("backups", "Backups"),
    "loads": ("bulk_load", "Loads"),
    "reviews": ("reviews", "Reviews"),
    "run_progress": ("run_results", "RunProgressReader"),
}
"""Attributes of a store that are made when they are first used, by module and class: together the
modules take as long to load as SQLAlchemy, and a command needs few of them."""
_WHOLE_DATABASE = {"job_queue", "backups"}


def open_store(
    url: str | None = None,
    *,
    tenant: str = "default",
    patience: float = PATIENCE,
    upgrade: bool = False,
) -> Store:
    """Open the store at a file's path, `sqlite:///…` or `postgresql://…`.

    A missing database is made by the first write. One with the tables of an older version is
    refused, unless `upgrade` migrates it. `patience` is how many seconds to wait for a locked
    database.
    """
    database = Database(parse_address(url), patience)
    try:
        store = Store(database, tenant)
        database.look(upgrade=upgrade)
    except BaseException:
        database.close()
        raise
    return store


class Store:
    """One tenant's data in a database. No method sees another tenant's rows."""

    if TYPE_CHECKING:
        challenges: Challenges
        attempts: Attempts
        agents: Agents
        boards: Boards
        board_changes: BoardChanges
        ratings: Ratings
        contest_stats: ContestStats
        disqualifications: Disqualifications
        audit_log: AuditLog
        rescorings: Rescorings
        score_columns: ScoreColumnReader
        plugin_quarantine: PluginQuarantine
        versus: VersusRows
        tracks: Tracks
        judge_answers: JudgeAnswers
        traces: Traces
        rules: Rules
        rule_outcomes: RuleOutcomes
        rule_days: RuleDays
        backfills: Backfills
        witness: Witness
        tenants: Tenants
        keys: Keys
        invitations: Invitations
        sessions: Sessions
        idempotent_answers: IdempotentAnswers
        jobs: Jobs
        job_queue: JobQueue
        webhooks: Webhooks
        deliveries: Deliveries
        backups: Backups
        loads: Loads
        reviews: Reviews
        run_progress: RunProgressReader

    def __init__(self, database: Database, tenant: str, *, is_share: bool = False) -> None:
        if not tenant or make_storable(tenant) != tenant:
            raise InvalidInput(f"a tenant cannot be called {tenant!r}")
        self.tenant = tenant
        self._database = database
        self._is_share = is_share
        self._held: dict[str, Lease] = {}
        """The leases of runs that go on here, by their ids."""
        self._left: dict[str, Lease] = {}
        """Leases of runs that broke off here, perhaps because the database was unavailable."""

    if not TYPE_CHECKING:  # a misspelt attribute is found by the type checker

        def __getattr__(self, name: str) -> Any:
            if name not in _SUBJECTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            module, kind = _SUBJECTS[name]
            given = (self._database,) if name in _WHOLE_DATABASE else (self._database, self.tenant)
            made = getattr(import_module(f"tallymark.store.{module}"), kind)(*given)
            self.__dict__[name] = made
            return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database, and give back the leases of runs that have not ended."""
        for lease in self._held.values():
            with suppress(WorkFailed):  # otherwise it runs out
                self._database.write(partial(lease.hold, seconds=0))
        self._held.clear()
        if not self._is_share:
            self._database.close()

    def for_tenant(self, tenant: str) -> Store:
        """Another tenant's store in the same database, which stays open when that one is closed."""
        return Store(self._database, tenant, is_share=True)

    def start_writer(self) -> None:
        """Start the thread that writes the changes of attempts and traces of all tenants in
        batches.

        Without it, as in a command, each change is a batch of one. Closing applies what is waiting.
        """
        self._database.start_writer()

    def read(self) -> AbstractContextManager[ReadSnapshot]:
        """Open one read transaction for all short queries of this thread inside it.

        `with store.read():` makes calls of the store see one state of the database; a nested one
        joins it. Reads that may take long (exports, columns of all attempts, fits) have
        transactions of their own. Writing inside is an error.
        """
        return self._database.snapshot()

    def watch_commits(
        self, *, board: Callable[[int], None], run: Callable[[str, str], None]
    ) -> None:
        """Set callbacks for commits of any tenant; both must be fast.

        `board` gets the id of a challenge whose attempts changed, `run` the tenant and id of a run
        with new results.
        """
        self._database.on_board_change, self._database.on_run_change = board, run

    def count_writing(self) -> dict[str, int]:
        """Number of items that wait for the writer, and of batches and items written."""
        writer = self._database.writer
        if writer is None:
            return {}
        return {"waiting": len(writer), "batches": writer.batches, "written": writer.items}

    def count_connections(self) -> dict[str, int]:
        """Number of connections of this process in use, and open in total."""
        return self._database.count_connections()

    def prepare(self) -> None:
        """Make the database if it does not exist; several processes may do so at once."""
        self._database.look(create=True)

    def check(self) -> None:
        """Raise an error if the database cannot be read or written."""
        self._database.check_writing()

    def end_soon(self) -> None:
        """Shorten all waiting for a database that does not answer, because the process ends."""
        self._database.end_soon()

    @property
    def shown(self) -> str:
        """Address of the database without a password."""
        return self._database.address.shown

    @property
    def folder(self) -> Path | None:
        """Folder of the database's file; None for a database server."""
        path = self._database.address.path
        return None if path is None else path.parent

    @property
    def exists(self) -> bool:
        """Return whether anything has been stored; otherwise reading is refused."""
        return self._database.look()

    def require(self) -> None:
        """Refuse a missing database, which a write would otherwise make."""
        self._database.require()

    def open_checkpoint(self, work: str) -> Checkpoint:
        """Open the checkpoint of bulk work, known by its hash, for this process alone."""
        from tallymark.store.checkpoints import Checkpoint  # noqa: PLC0415 (few do any)

        return Checkpoint(self._database, self.tenant, work)

    def follow_challenges(self) -> int:
        """Queue webhook deliveries for new log entries of challenges; return their number."""
        from tallymark.store.webhooks import follow_challenges  # noqa: PLC0415 (jobs do)

        return follow_challenges(self._database, self.tenant)

    def open_pruner(self, now: float) -> Pruner:
        """Pruner that removes what is older than the retention policy."""
        from tallymark.store.retention import Pruner  # noqa: PLC0415 (operators do)

        return Pruner(self._database, self.tenant, self.tenants.settings(), now)

    def check_all(self, find_plugin: FindPlugin | None = None) -> CheckReport:
        """Compare the data of all tenants with the log; nothing is changed."""
        from tallymark.store.checks.database_check import check_database  # noqa: PLC0415 (as above)

        return check_database(self._database, find_plugin)

    # Runs

    def create_run(self, record: RunRecord) -> None:
        """Store a new run. A running one is leased to this store until it is saved as ended.

        Meanwhile no other process can resume it or store its results.
        """
        lease = self._held.get(record.id, Lease(self.tenant, runs.KIND, record.id))
        held = lease if record.status == "running" else None
        self._database.write(lambda c: runs.create_run(c, self.tenant, record, held))
        if held is not None:
            self._held[record.id] = held

    def queue_runs(self, records: Iterable[RunRecord], jobs: Iterable[NewJob]) -> None:
        """Store runs that wait for a worker together with their jobs: all or none."""
        from tallymark.store.jobs import add_rows  # noqa: PLC0415 (servers alone do)

        waiting, todo = list(records), list(jobs)

        def work(connection: Connection) -> None:
            for record in waiting:
                runs.create_run(connection, self.tenant, record)
            add_rows(connection, self.tenant, todo)

        self._database.write(work)
        self.jobs.wakeups.ring()

    def claim_run(self, run_id: str) -> None:
        """Take over a run that has no live lease."""
        lease = self._left.pop(run_id, None) or Lease(self.tenant, runs.KIND, run_id)
        changes = {"status": "running", "error": None}

        def claim(connection: Connection) -> None:
            runs.require_run(connection, self.tenant, run_id)
            lease.claim(connection)
            runs.change_run(connection, self.tenant, run_id, changes)

        self._database.write(claim)
        self._held[run_id] = lease

    def leave_run(self, run_id: str) -> None:
        """Stop working on a run in any state; this process can take it over without waiting."""
        if (lease := self._held.pop(run_id, None)) is not None:
            self._left[run_id] = lease

    def renew_run(self, run_id: str) -> None:
        """Renew the lease of a run while there is nothing to store."""
        if run_id in self._held:
            self._database.write(self._held[run_id].hold)

    def update_run(self, run_id: str, **changes: Any) -> None:
        """Change the named fields of a run."""
        lease = self._held.get(run_id)
        self._database.write(lambda c: runs.change_run(c, self.tenant, run_id, changes, lease))

    def save_run(self, record: RunRecord) -> None:
        """Store all fields of a known run. One that came from `runs()` does not change its
        definition.
        """
        changes = msgspec.structs.asdict(record)
        run_id = changes.pop("id")
        if not record.definition:
            del changes["definition"]
        lease = self._held.get(run_id)

        def work(connection: Connection) -> int:
            from tallymark.store.webhook_deliveries import announce_end  # noqa: PLC0415

            runs.change_run(connection, self.tenant, run_id, changes, lease)
            return announce_end(connection, self.tenant, record)

        told = self._database.write(work)
        if record.status != "running":
            self._held.pop(run_id, None)
        if told:
            self.jobs.wakeups.ring()

    def delete_run(self, run_id: str) -> None:
        self._database.write(lambda c: runs.delete_run(c, self.tenant, run_id))

    def remove_run(self, wanted: str, *, at: float, reason: str = "") -> RunRecord:
        """Remove an ended run with its results and reviews, and log it.

        `wanted` is its whole id: `latest`, or the start of an id, may soon mean another run.
        """

        def work(connection: Connection) -> RunRecord:
            record, _ = runs.take_ended(connection, self.tenant, wanted)
            if record.id != wanted:
                message = f"{wanted!r} is not the whole id of a run"
                raise InvalidInput(message, hint=f"delete {record.id}, if that is the one you mean")
            runs.delete_run(connection, self.tenant, record.id)
            facts = {"run": record.id, "suite": record.suite, "model": record.model}
            self._log(connection, "run deleted", at, facts, reason)
            return record

        return self._database.write(work)

    def rename_run(self, wanted: str, name: str, *, at: float, reason: str = "") -> RunRecord:
        """Set the tag `name` of an ended run."""
        name = clean_line(make_storable(name.strip()), _LONGEST_RUN_NAME + 1)
        if not 0 < len(name) <= _LONGEST_RUN_NAME:
            raise InvalidInput(f"the name of a run has 1 to {_LONGEST_RUN_NAME} characters")

        def work(connection: Connection) -> RunRecord:
            record, lease = runs.take_ended(connection, self.tenant, wanted)
            runs.check_name(connection, self.tenant, record.id, name)
            tags = record.tags | {"name": name}
            runs.change_run(connection, self.tenant, record.id, {"tags": tags})
            lease.hold(connection, seconds=0)
            facts = {"run": record.id, "before": record.tags.get("name"), "after": name}
            self._log(connection, "run renamed", at, facts, reason)
            return msgspec.structs.replace(record, tags=tags)

        return self._database.write(work)

    def _log(
        self, connection: Connection, event: str, at: float, facts: dict[str, Any], reason: str
    ) -> None:
        from tallymark.store.contests.audit_log import (  # noqa: PLC0415 (few commands do)
            check_reason,
            write_account_entry,
        )

        if reason:
            facts["reason"] = check_reason(reason)
        write_account_entry(connection, self.tenant, event, at, **facts)

    def run(self, wanted: str) -> RunRecord:
        """Find a run by its id, a prefix of it, a unique name, `latest` or `latest~1`."""
        with self._database.read() as connection:
            return runs.find_run(connection, self.tenant, wanted)

    def brief_run(self, wanted: str, *, metrics_for: str = "") -> RunRecord:
        """Find a run as lists show it.

        It has no definition, and of very many metrics only those that its formula or `metrics_for`
        may use. A run that goes on has the counts of its results so far.
        """
        with self._database.read() as connection:
            found = runs.find_brief_run(connection, self.tenant, wanted, metrics_for)
            return self._count_so_far(connection, [found])[0]

    def runs(
        self,
        *,
        sort: str = "created_at",
        descending: bool = True,
        limit: int | None = 50,
        offset: int = 0,
        after: tuple[Any, float, str] | None = None,
        metrics_for: str = "",
        **filters: Unpack[RunFilter],
    ) -> list[RunRecord]:
        """Runs that pass all filters after the first `offset`, newest first unless sorted.

        `after` is the position of the last run of the page before: its value of `sort`, its time
        and its id. Definitions, which can be large, are left out, and of very many metrics all but
        those that its formula or `metrics_for` may use. Missing values of `sort` come last in
        either direction.
        """
        with self._database.read() as connection:
            page = runs.RunPage(sort, descending, limit, offset, after, metrics_for)
            found = runs.search_runs(connection, self.tenant, filters, page)
            return self._count_so_far(connection, found)

    def _count_so_far(self, connection: Connection, found: list[RunRecord]) -> list[RunRecord]:
        """Add counts of results to runs that go on: stored totals are written when a run ends."""
        open_ended = [each.id for each in found if each.status in ("running", "interrupted")]
        if not open_ended:
            return found
        counts = case_results.count_statuses(connection, self.tenant, open_ended)
        return [
            replace(each, passed=so_far["passed"], failed=so_far["failed"], errors=so_far["error"])
            if (so_far := counts.get(each.id)) is not None
            else each
            for each in found
        ]

    def count_runs(self, **filters: Unpack[RunFilter]) -> int:
        with self._database.read() as connection:
            return runs.count_runs(connection, self.tenant, filters)

    def suites(self, limit: int = 50) -> list[SuiteSummary]:
        """Suites that have runs, the one with the newest run first."""
        with self._database.read() as connection:
            return runs.list_suites(connection, self.tenant, limit)

    # Case results

    def open_writer(self, run_id: str) -> ResultWriter:
        """Writer that stores the results of a run as they arrive, until it is closed."""
        return ResultWriter(self, run_id)

    def open_results(self, record: RunRecord, keys: Iterable[tuple[str, int]]) -> StoredResults:
        """Results of these cases and epochs in this order, read again on each iteration."""
        from tallymark.runs.ongoing_run import ResultKeys  # noqa: PLC0415 (large runs)
        from tallymark.store.stored_results import StoredResults  # noqa: PLC0415 (as above)

        return StoredResults(self, record, ResultKeys(keys), in_order=True)

    def add_results(self, run_id: str, results: Iterable[CaseResult]) -> None:
        """Store results of a run, all or none.

        A result whose case and epoch are already stored replaces an error, and changes nothing
        otherwise.
        """
        if batch := list(results):
            lease = self._held.get(run_id)
            self._database.write(
                lambda c: case_results.add_results(c, self.tenant, run_id, batch, lease)
            )
            if self._database.on_run_change is not None:
                self._database.on_run_change(self.tenant, run_id)

    def results(self, run_id: str, *, with_traces: bool = False) -> Iterator[CaseResult]:
        """Results of a run one by one, by case name (in code points) and epoch."""
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            yield from case_results.stream_results(
                connection, self.tenant, run_id, with_traces=with_traces
            )

    def results_after(
        self,
        run_id: str,
        *,
        after: tuple[str, int] | None,
        limit: int = 100,
        status: CaseStatus | None = None,
        with_traces: bool = False,
    ) -> list[CaseResult]:
        """Results after a case and epoch, in the order of `results`."""
        page = case_results.ResultPage(after, limit, status, with_traces)
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            return case_results.read_after(connection, self.tenant, run_id, page)

    def counted_results(self, run_id: str) -> Iterator[CaseResult]:
        """Results in the order of `results` with only what a tally reads: no answers and traces."""
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            yield from case_results.stream_counted(connection, self.tenant, run_id)

    def pick_results(
        self, run_id: str, keys: Iterable[tuple[str, int]], *, with_traces: bool = True
    ) -> Iterator[CaseResult]:
        """Results with these cases and epochs, in this order, a few in memory at a time."""
        with self._database.read() as connection:
            yield from case_results.pick_results(
                connection, self.tenant, run_id, keys, with_traces=with_traces
            )

    def page_results(
        self,
        run_id: str,
        *,
        status: CaseStatus | None = None,
        text: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[CaseResult]:
        """Results without traces, by case name and epoch; `text` is searched in them."""
        with self._database.read() as connection:
            wanted = case_results.ResultFilter(status, text)
            return case_results.read_page(
                connection, (self.tenant, run_id), wanted, limit=limit, offset=offset
            )

    def count_results(
        self, run_id: str, *, status: CaseStatus | None = None, text: str | None = None
    ) -> int:
        """Number of all results that `page_results` would return."""
        with self._database.read() as connection:
            wanted = case_results.ResultFilter(status, text)
            return case_results.count_results(connection, (self.tenant, run_id), wanted)

    def measure_results(self, run_id: str) -> tuple[float | None, float | None]:
        """Total cost and mean latency of a run's results so far."""
        with self._database.read() as connection:
            return case_results.measure_results(connection, (self.tenant, run_id))

    def neighbours(
        self, run_id: str, case: str, epoch: int
    ) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """The case and epoch before and after one, by name."""
        with self._database.read() as connection:
            return case_results.find_neighbours(connection, (self.tenant, run_id), (case, epoch))

    def result_statuses(self, run_id: str) -> Iterator[tuple[str, int, CaseStatus]]:
        """Case, epoch and status of every stored result of a run, in that order."""
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            yield from case_results.stream_statuses(connection, self.tenant, run_id)

    def result_keys(self, run_id: str) -> dict[tuple[str, int], CaseStatus]:
        """Status of every stored result of a run, by case and epoch."""
        return {(case, epoch): status for case, epoch, status in self.result_statuses(run_id)}

    # Variables

    def set_var(self, name: str, value: str) -> None:
        secrets.check_value("variable", name, value)
        row = {"tenant": self.tenant, "name": name, "value": value}
        work = partial(secrets.put_value, table=secrets.variables, row=row)
        self._write_and_log(work, "variable set", variable=name)

    def vars(self) -> dict[str, str]:
        """All variables, by name."""
        with self._database.read() as connection:
            return secrets.read_values(connection, secrets.variables, self.tenant)

    def delete_var(self, name: str) -> None:
        rows = (secrets.variables, self.tenant, name)
        self._write_and_log(
            lambda c: secrets.delete_value(c, *rows), "variable deleted", variable=name
        )

    # Secrets: no method lists their values

    def set_secret(self, name: str, value: str) -> None:
        """Store a secret, encrypted."""
        secrets.check_value("secret", name, value)
        row = secrets.seal_row(self._database.address, (self.tenant, name), value)
        work = partial(secrets.put_value, table=secrets.secret_rows, row=row)
        self._write_and_log(work, "secret set", secret=name)

    def rotate_secret_key(self, *, last: bool = False) -> Rotated:
        """Seal the secrets of all tenants with a new key; `last` forgets the old key."""
        return (secrets.finish_rotation if last else secrets.rotate)(self._database)

    def secret_names(self) -> list[str]:
        with self._database.read() as connection:
            return secrets.list_value_names(connection, secrets.secret_rows, self.tenant)

    def delete_secret(self, name: str) -> None:
        rows = (secrets.secret_rows, self.tenant, name)
        self._write_and_log(lambda c: secrets.delete_value(c, *rows), "secret deleted", secret=name)

    def secrets_for_run(self, wanted: Iterable[str]) -> dict[str, str]:
        """Values of the named secrets, for the runner alone; they must not be shown or stored."""
        with self._database.read() as connection:
            rows = secrets.read_sealed_rows(connection, self.tenant, list(wanted))
        return secrets.open_rows(self._database.address, self.tenant, rows)

    def _write_and_log(self, work: Callable[[Connection], None], event: str, **note: str) -> None:
        """Write a value, and log its name but nothing of its content."""
        from tallymark.store.contests.audit_log import write_account_entry  # noqa: PLC0415

        at = time.time()

        def both(connection: Connection) -> None:
            work(connection)
            write_account_entry(connection, self.tenant, event, at, **note)

        self._database.write(both)
