"""The jobs of a tenant: added, listed, cancelled, retried. `job_queue.py` is for workers.

The lease of a job is in its row: a batch is claimed by one UPDATE.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from sqlalchemy import Column, Index, Integer, Table, bindparam, select, text, update

from tallymark.errors import Conflict, NotFound
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    dialect_insert,
    metadata,
    partial_index,
)
from tallymark.store.job_wakeups import find_wakeups
from tallymark.store.leases import Holder, read_clock
from tallymark.store.row_numbers import take_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from tallymark.store.job_wakeups import JobWakeups


LIVE = "state IN ('queued', 'running')"
"""Condition of the jobs that workers look at."""
UNFINISHED = "state IN ('queued', 'running', 'set_aside')"
"""A subject has one such job: a set-aside job, which waits for a person, is not replaced."""

jobs = Table(
    "jobs",
    metadata,
    Column("number", RowKey, primary_key=True),  # the order in which they came
    Column("id", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("owner", CodePointText, nullable=False),
    Column("kind", CodePointText, nullable=False),
    Column("subject", CodePointText, nullable=False),
    Column("state", CodePointText, nullable=False),
    Column("takeovers", Integer, nullable=False),
    # Failures of the server since a person last queued the job.
    Column("failures", Integer, nullable=False),
    # All times by the database's clock.
    Column("created_at", FiniteFloat, nullable=False),
    Column("not_before", FiniteFloat, nullable=False),
    Column("started_at", FiniteFloat),
    Column("finished_at", FiniteFloat),
    Column("cancel_at", FiniteFloat),  # time of a request to cancel it
    Column("token", CodePointText),  # of the last lease; it is held while the state is `running`
    Column("holder", JsonText),
    Column("expires_at", FiniteFloat),
    Column("error", CodePointText),
    Column("payload", JsonText, nullable=False),
    Column("result", JsonText),
    Index("ux_jobs_id", "id", unique=True),
    Index("ix_jobs_tenant", "tenant", "number"),
    partial_index("ux_jobs_subject", "tenant", "kind", "subject", where=UNFINISHED, unique=True),
    partial_index(
        "ix_jobs_live", "tenant", "owner", "state", "kind", "not_before", "number", where=LIVE
    ),
)
JobState = Literal["queued", "running", "done", "failed", "set_aside", "cancelled"]
ENDED: frozenset[JobState] = frozenset({"done", "failed", "cancelled"})


def make_job_id() -> str:
    """Make a unique id that cannot be guessed."""
    return f"j{secrets.token_hex(10)}"


def derive_job_id(asked_as: str, number: int) -> str:
    """Derive an id from the unguessable name of a request: the same request has the same id."""
    return f"j{hashlib.sha256(f'{asked_as} {number}'.encode()).hexdigest()[:20]}"


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be queued."""

    kind: str
    subject: str
    """Until a job is finished, there is no second one of its kind with the same subject."""
    owner: str = ""
    """On whose account it is done; workers take turns between owners."""
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    delay: float = 0.0
    """Seconds to wait before it may begin."""
    id: str = msgspec.field(default_factory=make_job_id)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    owner: str
    kind: str
    subject: str
    state: JobState
    takeovers: int
    failures: int
    created_at: float
    not_before: float
    started_at: float | None
    finished_at: float | None
    cancel_at: float | None
    error: str | None
    result: Any
    number: int
    holder: Holder | None = None
    """The current or last holder."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED


_SHOWN = tuple(name for name in Job.__struct_fields__ if name != "holder")


class Jobs(TenantRows):
    """The jobs of one tenant as their owners see them."""

    @property
    def wakeups(self) -> JobWakeups:
        return find_wakeups(self._database)

    def add(self, job: NewJob) -> Job:
        """Queue a job, unless an unfinished job of its kind has the same subject; return the one
        that counts.
        """
        return self.add_many([job])[0]

    def add_many(self, new: Sequence[NewJob]) -> list[Job]:
        """Queue many jobs as `add` does; return the one that counts for each."""

        def work(connection: Connection) -> list[Job]:
            add_rows(connection, self._tenant, new)
            return [self._find_counting(connection, each) for each in new]

        added = self._database.write(work)
        self.wakeups.ring()
        return added

    def get(self, job_id: str) -> Job:
        """A job by its id."""
        with self._database.snapshot() as snapshot:
            return self._read(snapshot.connection, job_id)

    def find(self, kind: str, subject: str) -> Job | None:
        """The last job of a kind about a subject."""
        query = self._select().where(jobs.c.kind == kind, jobs.c.subject == subject)
        with self._database.read() as connection:
            row = connection.execute(query.order_by(jobs.c.number.desc()).limit(1)).first()
        return None if row is None else _to_job(row)

    def list(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        subject: str | None = None,
        owner: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Jobs, newest first; `before` is the number of the last one of the page before."""
        wanted = {"state": state, "kind": kind, "subject": subject, "owner": owner}
        query = self._select().where(
            *(jobs.c[name] == value for name, value in wanted.items() if value is not None),
            *([] if before is None else [jobs.c.number < before]),
        )
        with self._database.read() as connection:
            found = connection.execute(query.order_by(jobs.c.number.desc()).limit(limit))
            return [_to_job(row) for row in found]

    def cancel(self, job_id: str) -> Job:
        """Cancel a waiting job, or request the end of a running one."""

        def work(connection: Connection) -> Job:
            now = read_clock(connection)
            waits = jobs.c.state.in_(("queued", "set_aside"))
            mine = update(jobs).where(jobs.c.tenant == self._tenant, jobs.c.id == job_id)
            ended = {"state": "cancelled", "finished_at": now, "cancel_at": now}
            if not connection.execute(mine.where(waits).values(ended)).rowcount:
                asked = mine.where(jobs.c.state == "running", jobs.c.cancel_at.is_(None))
                connection.execute(asked.values(cancel_at=now))
            return self._read(connection, job_id)

        job = self._database.write(work)
        if job.state in ("done", "failed"):
            raise Conflict(f"the job {job_id} is over: it is {job.state}")
        if job.ended:
            self.wakeups.let_go(job_id)
        else:
            self.wakeups.ring()
        return job

    def retry(self, job_id: str) -> Job:
        """Queue a job again that failed, was cancelled or set aside."""

        def work(connection: Connection) -> Job:
            job = self._read(connection, job_id)
            if job.state not in ("failed", "set_aside", "cancelled"):
                raise Conflict(f"the job {job_id} is {job.state}: there is nothing to restart")
            other = self._select().where(
                jobs.c.kind == job.kind, jobs.c.subject == job.subject, jobs.c.id != job_id
            )
            if (found := connection.execute(other.where(text(UNFINISHED))).first()) is not None:
                raise Conflict(f"another job, {found.id}, is about {job.subject} already")
            anew = {
                **dict.fromkeys(("takeovers", "failures"), 0),
                **dict.fromkeys(
                    ("error", "cancel_at", "finished_at", "started_at", "result"), None
                ),
                "state": "queued",
                "not_before": read_clock(connection),
            }
            connection.execute(update(jobs).where(jobs.c.number == job.number).values(anew))
            return self._read(connection, job_id)

        job = self._database.write(work)
        self.wakeups.ring()
        return job

    def urge(self, job_id: str) -> None:
        """Let a job begin at once at a person's request, however often it failed.

        A running job stays with its worker, and one that is done stays done.
        """

        def work(connection: Connection) -> None:
            mine = update(jobs).where(jobs.c.tenant == self._tenant, jobs.c.id == job_id)
            # A running job may be a dead command's: its takeover queues it with fresh counts.
            goes_on = mine.where(jobs.c.state.in_(("queued", "running")))
            now = read_clock(connection)
            connection.execute(goes_on.values(takeovers=0, failures=0, not_before=now))

        self._database.write(work)
        if self.get(job_id).state in ("failed", "set_aside"):
            self.retry(job_id)

    def _select(self) -> Any:
        columns = (*(jobs.c[name] for name in _SHOWN), jobs.c.holder)
        return select(*columns).where(jobs.c.tenant == self._tenant)

    def _read(self, connection: Connection, job_id: str) -> Job:
        row = connection.execute(self._select().where(jobs.c.id == job_id)).first()
        if row is None:
            raise NotFound(f"there is no job {job_id!r}")
        return _to_job(row)

    def _find_counting(self, connection: Connection, new: NewJob) -> Job:
        """The job with this id if it was added, even if it has ended since; else the unfinished
        one.
        """
        row = connection.execute(self._select().where(jobs.c.id == new.id)).first()
        if row is None:
            alike = (jobs.c.kind == new.kind, jobs.c.subject == new.subject, text(UNFINISHED))
            row = connection.execute(self._select().where(*alike)).one()
        return _to_job(row)


def add_rows(connection: Connection, tenant: str, new: Sequence[NewJob]) -> None:
    """Queue jobs in the caller's transaction; call `ring` after its commit.

    Jobs whose kind and subject have an unfinished job are left out.
    """
    if not new:
        return
    now = read_clock(connection)
    numbers = take_numbers(connection, jobs.name, tenant, len(new))
    rows = [
        {
            "number": number,
            "tenant": tenant,
            "state": "queued",
            "takeovers": 0,
            "failures": 0,
            **{name: getattr(each, name) for name in ("id", "owner", "kind", "subject", "payload")},
            "delay": each.delay,
        }
        for number, each in zip(numbers, new, strict=True)
    ]
    waits = {"created_at": now, "not_before": now + bindparam("delay", type_=FiniteFloat)}
    statement = dialect_insert(connection, jobs).values(waits).on_conflict_do_nothing()
    connection.execute(statement, rows)


def _to_job(row: Row[Any]) -> Job:
    told = row._asdict()
    holder = told.pop("holder")
    return Job(**told, holder=None if holder is None else msgspec.convert(holder, Holder))
