"""The store: what is kept of runs, challenges, variables and secrets, for one tenant.

All methods may be called from any thread and block while the database works; call them from a
thread where that matters. Errors are sentences: `InvalidInput` or `WorkFailed`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cached_property, partial
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


def open_store(
    url: str | None = None,
    *,
    tenant: str = "default",
    patience: float = PATIENCE,
    upgrade: bool = False,
) -> Store:
    """Opens the store at a file's path, `sqlite:///…` or `postgresql://…`.

    A database that is not there is only made by the first write. One with the tables of an older
    version is refused, unless `upgrade` says to bring them up to date. `patience` is how many
    seconds to wait for a database that others have locked.
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
    """What `open_store` gives. No method sees another tenant's rows."""

    def __init__(self, database: Database, tenant: str, *, is_share: bool = False) -> None:
        if not tenant or make_storable(tenant) != tenant:
            raise InvalidInput(f"a tenant cannot be called {tenant!r}")
        self.tenant = tenant
        self._database = database
        self._is_share = is_share
        self._held: dict[str, Lease] = {}
        """The leases of runs that go on here, by their ids."""
        self._left: dict[str, Lease] = {}
        """Those of runs that broke off here, perhaps since the database could not be asked."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the database, and of runs that did not come to an end."""
        for lease in self._held.values():
            with suppress(WorkFailed):  # else it runs out by itself
                self._database.write(partial(lease.hold, seconds=0))
        self._held.clear()
        if not self._is_share:
            self._database.close()

    def for_tenant(self, tenant: str) -> Store:
        """Another tenant's store in the same database, which stays open when that one is closed."""
        return Store(self._database, tenant, is_share=True)

    def start_writer(self) -> None:
        """From now on one thread writes what is asked of attempts, many at once, for all tenants.

        A command has none: each call then is a batch of one. Closing does what is still waiting.
        """
        self._database.start_writer()

    def read(self) -> AbstractContextManager[ReadSnapshot]:
        """Open one read transaction for all short questions that this thread asks inside it.

        `with store.read():` around calls of the store makes them see the database at one time, in
        one transaction; a second one inside joins it. Reads that may take long (exports, columns
        of all attempts, fits) have transactions of their own. Writing inside is a mistake.
        """
        return self._database.snapshot()

    def watch_commits(
        self, *, board: Callable[[int], None], run: Callable[[str, str], None]
    ) -> None:
        """Has others told what was committed here, of all tenants: of a challenge, by its id, what
        became of its attempts; of a run, by its tenant and id, its results. Both are quick.
        """
        self._database.on_board_change, self._database.on_run_change = board, run

    def count_writing(self) -> dict[str, int]:
        """How many things wait for the writer, and what it has done in how many batches."""
        writer = self._database.writer
        if writer is None:
            return {}
        return {"waiting": len(writer), "batches": writer.batches, "written": writer.items}

    def count_connections(self) -> dict[str, int]:
        """How many connections of this process are in use, and how many are kept open."""
        return self._database.count_connections()

    def prepare(self) -> None:
        """Makes the database if it is not there; several processes may do so at once."""
        self._database.look(create=True)

    def check(self) -> None:
        """Raises what keeps the database from being read or written."""
        self._database.check_writing()

    def end_soon(self) -> None:
        """From now on nobody waits long for a database that does not answer: the process ends."""
        self._database.end_soon()

    @property
    def shown(self) -> str:
        """Where the store is, fit to be shown: without a password."""
        return self._database.address.shown

    @property
    def folder(self) -> Path | None:
        """Where the file of the database is; None where it is a server's."""
        path = self._database.address.path
        return None if path is None else path.parent

    @property
    def exists(self) -> bool:
        """False while nothing has been stored: reading would then be refused."""
        return self._database.look()

    def require(self) -> None:
        """For what changes something that must be there: else it would make a database first."""
        self._database.require()

    # Contests, each loaded by whoever needs it: together they cost as much as the database.

    @cached_property
    def challenges(self) -> Challenges:
        """What is published."""
        from tallymark.store.contests.challenges import Challenges  # noqa: PLC0415

        return Challenges(self._database, self.tenant)

    @cached_property
    def attempts(self) -> Attempts:
        """What agents entered and submitted, and its scores."""
        from tallymark.store.contests.attempts import Attempts  # noqa: PLC0415

        return Attempts(self._database, self.tenant)

    @cached_property
    def agents(self) -> Agents:
        """Who takes part, and what they are called."""
        from tallymark.store.contests.agents import Agents  # noqa: PLC0415

        return Agents(self._database, self.tenant)

    @cached_property
    def boards(self) -> Boards:
        """The order of agents."""
        from tallymark.store.contests.boards import Boards  # noqa: PLC0415

        return Boards(self._database, self.tenant)

    @cached_property
    def board_changes(self) -> BoardChanges:
        """What changed at challenges."""
        from tallymark.store.contests.board_changes import BoardChanges  # noqa: PLC0415

        return BoardChanges(self._database, self.tenant)

    @cached_property
    def ratings(self) -> Ratings:
        """The strength of agents."""
        from tallymark.store.contests.ratings import Ratings  # noqa: PLC0415

        return Ratings(self._database, self.tenant)

    @cached_property
    def figures(self) -> ContestStats:
        """What is shown beside boards and profiles: counts and sums."""
        from tallymark.store.contests.contest_stats import ContestStats  # noqa: PLC0415

        return ContestStats(self._database, self.tenant)

    @cached_property
    def disqualifications(self) -> Disqualifications:
        """Agents that may not compete."""
        from tallymark.store.contests.agents import Disqualifications  # noqa: PLC0415

        return Disqualifications(self._database, self.tenant)

    @cached_property
    def audit_log(self) -> AuditLog:
        """What was done, by whom and why."""
        from tallymark.store.contests.audit_log import AuditLog  # noqa: PLC0415

        return AuditLog(self._database, self.tenant)

    @cached_property
    def rescorings(self) -> Rescorings:
        """Scores that were counted again."""
        from tallymark.store.contests.rescorings import Rescorings  # noqa: PLC0415

        return Rescorings(self._database, self.tenant)

    @cached_property
    def score_columns(self) -> ScoreColumnReader:
        """The numbers of attempts in memory."""
        from tallymark.store.contests.score_columns import (  # noqa: PLC0415 (numpy loads with it)
            ScoreColumnReader,
        )

        return ScoreColumnReader(self._database, self.tenant)

    @cached_property
    def pauses(self) -> PluginQuarantine:
        """Agents that a plugin is paused for."""
        from tallymark.store.contests.plugin_quarantine import PluginQuarantine  # noqa: PLC0415

        return PluginQuarantine(self._database, self.tenant)

    @cached_property
    def versus(self) -> VersusRows:
        """Red against blue."""
        from tallymark.store.contests.versus import VersusRows  # noqa: PLC0415

        return VersusRows(self._database, self.tenant)

    @cached_property
    def tracks(self) -> Tracks:
        """Several challenges as one contest."""
        from tallymark.store.contests.tracks import Tracks  # noqa: PLC0415

        return Tracks(self._database, self.tenant)

    @cached_property
    def judge_answers(self) -> JudgeAnswers:
        """What models said that judge attempts."""
        from tallymark.store.contests.judge_answers import JudgeAnswers  # noqa: PLC0415

        return JudgeAnswers(self._database, self.tenant)

    @cached_property
    def traces(self) -> Traces:
        """What agents did in production."""
        from tallymark.store.traces.traces import Traces  # noqa: PLC0415

        return Traces(self._database, self.tenant)

    @cached_property
    def rules(self) -> Rules:
        """What scores traces as they come."""
        from tallymark.store.traces.rules import Rules  # noqa: PLC0415

        return Rules(self._database, self.tenant)

    @cached_property
    def decisions(self) -> RuleOutcomes:
        """What rules decide of traces."""
        from tallymark.store.traces.rule_outcomes import RuleOutcomes  # noqa: PLC0415

        return RuleOutcomes(self._database, self.tenant)

    @cached_property
    def rule_days(self) -> RuleDays:
        """What rules decided and spent, day by day."""
        from tallymark.store.traces.rule_days import RuleDays  # noqa: PLC0415

        return RuleDays(self._database, self.tenant)

    @cached_property
    def backfills(self) -> Backfills:
        """Rules applied to traces of before."""
        from tallymark.store.traces.backfills import Backfills  # noqa: PLC0415

        return Backfills(self._database, self.tenant)

    @cached_property
    def witness(self) -> Witness:
        """Spans of attempts, as they came."""
        from tallymark.store.traces.witness import Witness  # noqa: PLC0415

        return Witness(self._database, self.tenant)

    # Accounts, as contests: only servers, and commands about them, need any

    @cached_property
    def tenants(self) -> Tenants:
        """What the tenant allows."""
        from tallymark.store.tenants import Tenants  # noqa: PLC0415

        return Tenants(self._database, self.tenant)

    @cached_property
    def keys(self) -> Keys:
        """What opens a server."""
        from tallymark.store.keys import Keys  # noqa: PLC0415

        return Keys(self._database, self.tenant)

    @cached_property
    def invitations(self) -> Invitations:
        """How strangers come to keys."""
        from tallymark.store.invitations import Invitations  # noqa: PLC0415

        return Invitations(self._database, self.tenant)

    @cached_property
    def sessions(self) -> Sessions:
        """Who is signed in."""
        from tallymark.store.keys import Sessions  # noqa: PLC0415

        return Sessions(self._database, self.tenant)

    @cached_property
    def idempotent_answers(self) -> IdempotentAnswers:
        """What was answered to requests that may be sent again."""
        from tallymark.store.idempotency import IdempotentAnswers  # noqa: PLC0415

        return IdempotentAnswers(self._database, self.tenant)

    @cached_property
    def jobs(self) -> Jobs:
        """What is to be done for this tenant."""
        from tallymark.store.jobs import Jobs  # noqa: PLC0415

        return Jobs(self._database, self.tenant)

    @cached_property
    def job_queue(self) -> JobQueue:
        """What workers see: the jobs of all tenants."""
        from tallymark.store.job_queue import JobQueue  # noqa: PLC0415

        return JobQueue(self._database)

    def open_work(self, work: str) -> Checkpoint:
        """Bulk work by its hash, held by this process: what was done of it is there."""
        from tallymark.store.checkpoints import Checkpoint  # noqa: PLC0415 (few do any)

        return Checkpoint(self._database, self.tenant, work)

    @cached_property
    def webhooks(self) -> Webhooks:
        """Who is told of what happens."""
        from tallymark.store.webhooks import Webhooks  # noqa: PLC0415

        return Webhooks(self._database, self.tenant)

    @cached_property
    def deliveries(self) -> Deliveries:
        """What webhooks were told."""
        from tallymark.store.webhook_deliveries import Deliveries  # noqa: PLC0415

        return Deliveries(self._database, self.tenant)

    def follow_challenges(self) -> int:
        """Has webhooks told what happened at challenges since they last were; how much that is."""
        from tallymark.store.webhooks import follow_challenges  # noqa: PLC0415

        return follow_challenges(self._database, self.tenant)

    @cached_property
    def backups(self) -> Backups:
        """Backups, copies and compaction of the whole database, of all tenants."""
        from tallymark.store.backups import Backups  # noqa: PLC0415 (operators alone do)

        return Backups(self._database)

    @cached_property
    def loads(self) -> Loads:
        """What files hold, put in."""
        from tallymark.store.bulk_load import Loads  # noqa: PLC0415 (who loads a file)

        return Loads(self._database, self.tenant)

    def open_pruner(self, now: float) -> Pruner:
        """Who removes what this tenant has kept for long enough by now."""
        from tallymark.store.retention import Pruner  # noqa: PLC0415 (as above)

        return Pruner(self._database, self.tenant, self.tenants.settings(), now)

    def check_all(self, find_plugin: FindPlugin | None = None) -> CheckReport:
        """What is stored otherwise than the log says, of all tenants; nothing is changed."""
        from tallymark.store.checks.database_check import check_database  # noqa: PLC0415 (as above)

        return check_database(self._database, find_plugin)

    # Runs

    def create_run(self, record: RunRecord) -> None:
        """Stores a new run. One that is running is held by this store until it is saved as ended.

        Nobody else can go on with it then, and its results are stored only while it is held.
        """
        lease = self._held.get(record.id, Lease(self.tenant, runs.KIND, record.id))
        held = lease if record.status == "running" else None
        self._database.write(lambda c: runs.create_run(c, self.tenant, record, held))
        if held is not None:
            self._held[record.id] = held

    def queue_runs(self, records: Iterable[RunRecord], jobs: Iterable[NewJob]) -> None:
        """Stores runs that wait for a worker, and the jobs that will run them: all or none."""
        from tallymark.store.jobs import add_rows  # noqa: PLC0415 (servers alone do)

        waiting, todo = list(records), list(jobs)

        def work(connection: Connection) -> None:
            for record in waiting:
                runs.create_run(connection, self.tenant, record)
            add_rows(connection, self.tenant, todo)

        self._database.write(work)
        self.jobs.bell.ring()

    def claim_run(self, run_id: str) -> None:
        """Goes on with a run that is not held, as if it had been made here."""
        lease = self._left.pop(run_id, None) or Lease(self.tenant, runs.KIND, run_id)
        changes = {"status": "running", "error": None}

        def claim(connection: Connection) -> None:
            runs.require_run(connection, self.tenant, run_id)
            lease.claim(connection)
            runs.change_run(connection, self.tenant, run_id, changes)

        self._database.write(claim)
        self._held[run_id] = lease

    def leave_run(self, run_id: str) -> None:
        """Works on a run no more, whatever became of it: who goes on with it here need not wait."""
        if (lease := self._held.pop(run_id, None)) is not None:
            self._left[run_id] = lease

    def renew_run(self, run_id: str) -> None:
        """Holds a run for longer, when there is nothing to store of it."""
        if run_id in self._held:
            self._database.write(self._held[run_id].hold)

    def update_run(self, run_id: str, **changes: Any) -> None:
        """Changes the named fields of a run."""
        lease = self._held.get(run_id)
        self._database.write(lambda c: runs.change_run(c, self.tenant, run_id, changes, lease))

    def save_run(self, record: RunRecord) -> None:
        """Stores all of a known run again. One that came from `runs()` keeps its definition."""
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
            self.jobs.bell.ring()

    def delete_run(self, run_id: str) -> None:
        """Removes a run and its results."""
        self._database.write(lambda c: runs.delete_run(c, self.tenant, run_id))

    def remove_run(self, wanted: str, *, at: float, reason: str = "") -> RunRecord:
        """Removes a run that has ended, with its results and reviews; the log says who did it.

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
        """Gives a run that has ended a name of its own, kept as its tag `name`."""
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
        """A run by its id, a beginning of it or a name that only one has, `latest`, `latest~1`."""
        with self._database.read() as connection:
            return runs.find_run(connection, self.tenant, wanted)

    def brief_run(self, wanted: str, *, metrics_for: str = "") -> RunRecord:
        """The same as in lists: without its definition, and of very many metrics those alone that
        its formula or another may mean. One that goes on has the counts of its results so far.
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

        `after` is where the page before ended: the value of `sort`, the moment and the id of its
        last run. Definitions, which can be large, are left out, and so are metrics of single cases
        where there are very many: all but those that its formula or `metrics_for` may mean. What
        has no value for `sort` comes last in either direction.
        """
        with self._database.read() as connection:
            page = runs.RunPage(sort, descending, limit, offset, after, metrics_for)
            found = runs.search_runs(connection, self.tenant, filters, page)
            return self._count_so_far(connection, found)

    def _count_so_far(self, connection: Connection, found: list[RunRecord]) -> list[RunRecord]:
        """Their numbers are written down when runs end; until then their results tell."""
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

    @cached_property
    def reviews(self) -> Reviews:
        """What people say of cases."""
        from tallymark.store.reviews import Reviews  # noqa: PLC0415

        return Reviews(self._database, self.tenant)

    @cached_property
    def run_progress(self) -> RunProgressReader:
        """How far runs are."""
        from tallymark.store.run_results import RunProgressReader  # noqa: PLC0415

        return RunProgressReader(self._database, self.tenant)

    def count_runs(self, **filters: Unpack[RunFilter]) -> int:
        """How many runs pass all filters."""
        with self._database.read() as connection:
            return runs.count_runs(connection, self.tenant, filters)

    def suites(self, limit: int = 50) -> list[SuiteSummary]:
        """The suites that have runs, the one with the newest first."""
        with self._database.read() as connection:
            return runs.list_suites(connection, self.tenant, limit)

    # Case results

    def open_writer(self, run_id: str) -> ResultWriter:
        """Keeps the results of a run as they come, until it is closed."""
        return ResultWriter(self, run_id)

    def open_results(self, record: RunRecord, keys: Iterable[tuple[str, int]]) -> StoredResults:
        """Results of these cases and epochs in this order, read again whenever they are wanted."""
        from tallymark.runs.ongoing_run import ResultKeys  # noqa: PLC0415 (large runs)
        from tallymark.store.stored_results import StoredResults  # noqa: PLC0415 (as above)

        return StoredResults(self, record, ResultKeys(keys), in_order=True)

    def add_results(self, run_id: str, results: Iterable[CaseResult]) -> None:
        """Stores results of a run, all or none.

        One whose case and epoch are already there replaces an error, and changes nothing
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
        """The results of a run one by one, by case name (in code points) and epoch."""
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
        """So many results after a case and epoch, in the order of `results`."""
        page = case_results.ResultPage(after, limit, status, with_traces)
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            return case_results.read_after(connection, self.tenant, run_id, page)

    def counted_results(self, run_id: str) -> Iterator[CaseResult]:
        """The same with nothing but what a tally counts: no answers, no reasons, no traces."""
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            yield from case_results.stream_counted(connection, self.tenant, run_id)

    def pick_results(
        self, run_id: str, keys: Iterable[tuple[str, int]], *, with_traces: bool = True
    ) -> Iterator[CaseResult]:
        """The results with these cases and epochs, in this order, a few in memory at a time."""
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
        """Some results without their traces, by case name and epoch; `text` stands in them."""
        with self._database.read() as connection:
            wanted = case_results.ResultFilter(status, text)
            return case_results.read_page(
                connection, (self.tenant, run_id), wanted, limit=limit, offset=offset
            )

    def count_results(
        self, run_id: str, *, status: CaseStatus | None = None, text: str | None = None
    ) -> int:
        """How many results `page_results` gives in all."""
        with self._database.read() as connection:
            wanted = case_results.ResultFilter(status, text)
            return case_results.count_results(connection, (self.tenant, run_id), wanted)

    def measure_results(self, run_id: str) -> tuple[float | None, float | None]:
        """What the results of a run cost together so far, and how long they took on average."""
        with self._database.read() as connection:
            return case_results.measure_results(connection, (self.tenant, run_id))

    def neighbours(
        self, run_id: str, case: str, epoch: int
    ) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """The case and epoch before and after one, by name."""
        with self._database.read() as connection:
            return case_results.find_neighbours(connection, (self.tenant, run_id), (case, epoch))

    def result_statuses(self, run_id: str) -> Iterator[tuple[str, int, CaseStatus]]:
        """The case and epoch of every stored result of a run in that order, and how it ended."""
        with self._database.read() as connection:
            runs.require_run(connection, self.tenant, run_id)
            yield from case_results.stream_statuses(connection, self.tenant, run_id)

    def result_keys(self, run_id: str) -> dict[tuple[str, int], CaseStatus]:
        """The same all at once."""
        return {(case, epoch): status for case, epoch, status in self.result_statuses(run_id)}

    # Variables

    def set_var(self, name: str, value: str) -> None:
        """Stores a variable."""
        secrets.check_value("variable", name, value)
        row = {"tenant": self.tenant, "name": name, "value": value}
        work = partial(secrets.put_value, table=secrets.variables, row=row)
        self._write_and_log(work, "variable set", variable=name)

    def vars(self) -> dict[str, str]:
        """All variables, by name."""
        with self._database.read() as connection:
            return secrets.read_values(connection, secrets.variables, self.tenant)

    def delete_var(self, name: str) -> None:
        """Removes a variable."""
        rows = (secrets.variables, self.tenant, name)
        self._write_and_log(
            lambda c: secrets.delete_value(c, *rows), "variable deleted", variable=name
        )

    # Secrets: no method lists their values

    def set_secret(self, name: str, value: str) -> None:
        """Stores a secret, encrypted."""
        secrets.check_value("secret", name, value)
        row = secrets.seal_row(self._database.address, (self.tenant, name), value)
        work = partial(secrets.put_value, table=secrets.secret_rows, row=row)
        self._write_and_log(work, "secret set", secret=name)

    def rotate_secret_key(self, *, last: bool = False) -> Rotated:
        """Seals the secrets of all tenants by a new key; or, as the last step, forgets the old."""
        from tallymark.store.secrets import finish_rotation, rotate  # noqa: PLC0415 (seldom)

        return (finish_rotation if last else rotate)(self._database)

    def secret_names(self) -> list[str]:
        """The names of all secrets."""
        with self._database.read() as connection:
            return secrets.list_value_names(connection, secrets.secret_rows, self.tenant)

    def delete_secret(self, name: str) -> None:
        """Removes a secret."""
        rows = (secrets.secret_rows, self.tenant, name)
        self._write_and_log(lambda c: secrets.delete_value(c, *rows), "secret deleted", secret=name)

    def secrets_for_run(self, wanted: Iterable[str]) -> dict[str, str]:
        """The values of the named secrets: for the runner alone, never to be shown or kept."""
        with self._database.read() as connection:
            rows = secrets.read_sealed_rows(connection, self.tenant, list(wanted))
        return secrets.open_rows(self._database.address, self.tenant, rows)

    def _write_and_log(self, work: Callable[[Connection], None], event: str, **note: str) -> None:
        """Writes, and says so in the audit log: what it is called, and nothing of what it is."""
        from tallymark.store.contests.audit_log import write_account_entry  # noqa: PLC0415

        at = time.time()

        def both(connection: Connection) -> None:
            work(connection)
            write_account_entry(connection, self.tenant, event, at, **note)

        self._database.write(both)
