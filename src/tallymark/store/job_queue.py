"""The queue that workers share: jobs of all tenants, claimed in batches, ended by their holder.

A lease is a token and a time by the database's clock, in the row of the job. A job whose lease has
run out, or whose process has ended on this machine, goes back to the queue, three times; then it is
set aside for a person. Ending a job requires its lease. See docs/decisions/0033-jobs.md.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import and_, case, func, or_, select, text, update

from tallymark.errors import LeaseLost
from tallymark.store.contests.tables import attempts, is_unfinished
from tallymark.store.job_wakeups import find_wakeups
from tallymark.store.jobs import LIVE, UNFINISHED, NewJob, add_rows, jobs
from tallymark.store.leases import SECONDS, Holder, describe_process, read_clock
from tallymark.store.tenants import DEFAULT, tenants
from tallymark.store.traces.backfills import find_delay, queue_rule_jobs
from tallymark.store.webhooks import queue_announcements

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from tallymark.store.database import Database
    from tallymark.store.job_wakeups import JobWakeups
    from tallymark.store.jobs import JobState


_MOST_REMEMBERED = 10_000
"""Owners whose last turn is known."""
MOST_TAKEOVERS = 3
_ON_ITS_WAY = 60.0
"""Seconds for which a submission may be on its way to its score before a job is made of it."""
_OURS = ("announce", "decide", "settle")
"""Recurring kinds of the server's own code: what killed their workers was not the job, and nothing
would go on without them. They are retried later, without a person."""
_LATER = 60.0
_GONE = "its worker stopped without a word"
_RUNNING = "state = 'running'"


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A job claimed by a worker, which alone may end it."""

    id: str
    tenant: str
    owner: str
    kind: str
    subject: str
    payload: dict[str, Any]
    token: str
    """Shared by the jobs that were claimed together."""
    takeovers: int
    failures: int
    cancel_at: float | None
    """Time of a request to cancel, if it came before the job began."""


class _Waiting(NamedTuple):
    """Running and ready jobs of one owner."""

    tenant: str
    owner: str
    running: int
    ready: int
    oldest: float | None
    """Since when the first of these waits."""


class JobQueue:
    """The jobs of all tenants as workers see them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun: dict[str | tuple[str, str], int] = {}
        """Which tenants and owners began a job here, the later the higher."""
        self._turns = itertools.count(1)

    @property
    def wakeups(self) -> JobWakeups:
        return find_wakeups(self._database)

    def prepare(self) -> None:
        """Make the tables if nothing has been stored yet."""
        self._database.look(create=True)

    def claim(
        self,
        kinds: Collection[str],
        most: int,
        holder: Holder | None = None,
        *,
        held: Sequence[Claimed] | None = None,
        of_owner: int | None = None,
    ) -> list[Claimed]:
        """Claim up to `most` jobs that may begin, for this process or another `holder`.

        Tenants, then owners, with the fewest running jobs of these kinds go first; then those that
        began a job longest ago; then older jobs. `held` is what the same workers have already: if
        given, no owner gets all of their places, or more than `of_owner`, and no tenant if there
        are others.
        """
        # Reading is cheap; on SQLite, a writer blocks all other writers.
        if most < 1 or not self.is_wanted(kinds):
            return []
        if held is not None:
            with self._database.read() as connection:
                shares = self._share_out(connection, kinds, most, held, of_owner)
                if not shares and not _find_left(connection):
                    return []
        # Made here, so that a retried transaction claims the same jobs.
        token = secrets.token_hex(16)
        who = holder or describe_process(os.getpid())

        def work(connection: Connection) -> list[Claimed]:
            self._take_back(connection)
            begun = {"token": token, "holder": who, **_begin(connection), "state": "running"}
            shares = self._share_out(connection, kinds, most, held, of_owner)
            for (tenant, owner), count in shares.items():
                chosen = (
                    select(jobs.c.number)
                    .where(jobs.c.tenant == tenant, jobs.c.owner == owner)
                    .where(_may_begin(connection, kinds))
                    .order_by(jobs.c.number)
                    .limit(count)
                    .with_for_update(skip_locked=True)
                )
                numbers = connection.scalars(chosen).all()
                if numbers:
                    connection.execute(update(jobs).where(jobs.c.number.in_(numbers)).values(begun))
            return self._read_claimed(connection, token)

        claimed = self._database.write(work)
        for each in claimed:
            self._note_turn(each)
        return claimed

    def _note_turn(self, claimed: Claimed) -> None:
        turn = next(self._turns)
        for who in (claimed.tenant, (claimed.tenant, claimed.owner)):
            self._begun.pop(who, None)
            self._begun[who] = turn
        while len(self._begun) > _MOST_REMEMBERED:
            self._begun.pop(next(iter(self._begun)), None)

    def is_wanted(self, kinds: Collection[str]) -> bool:
        """Return whether there is a job to claim or to take back."""
        return bool(self.find_ready(kinds))

    def find_ready(self, kinds: Collection[str]) -> set[str]:
        """Kinds with a job to claim; all of them if a job is to be taken back."""
        with self._database.read() as connection:
            ready = select(jobs.c.kind).where(_may_begin(connection, kinds)).distinct()
            if _find_left(connection):
                return set(kinds)
            return set(connection.scalars(ready))

    def renew(self, claimed: Sequence[Claimed]) -> set[str]:
        """Renew leases; return the ids of the jobs still held."""
        tokens, ids = {each.token for each in claimed}, {each.id for each in claimed}

        def work(connection: Connection) -> set[str]:
            until = {"expires_at": read_clock(connection) + SECONDS}
            mine = (jobs.c.token.in_(tokens), jobs.c.id.in_(ids), text(_RUNNING))
            query = update(jobs).where(*mine).values(until).returning(jobs.c.id)
            return set(connection.scalars(query))

        return self._database.write(work) if claimed else set()

    def find_cancelled(self, claimed: Sequence[Claimed]) -> set[str]:
        """Ids of jobs whose cancellation was requested."""
        ids = [each.id for each in claimed]
        query = select(jobs.c.id).where(jobs.c.id.in_(ids), jobs.c.cancel_at.is_not(None))
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def finish(self, claimed: Claimed, result: Any = None, *, state: JobState = "done") -> None:
        """End a job; LeaseLost if another worker has it by now."""
        ended = {"state": state, "result": result, "error": None}
        self._end(claimed, ended)

    def fail(self, claimed: Claimed, error: str, *, again_after: float | None = None) -> None:
        """End a job that cannot be done, or queue it again after a failure of the server."""
        if again_after is None:
            self._end(claimed, {"state": "failed", "error": error})
            return
        again = {"state": "queued", "error": error, "failures": jobs.c.failures + 1}
        self._end(claimed, again, again_after)

    def release(self, claimed: Claimed, after: float = 0.0) -> None:
        """Hand back a job that was not done, to begin after some seconds; this is no takeover."""
        self._end(claimed, {"state": "queued"}, after)

    def note_progress(self, claimed: Claimed, done: int, total: int | None) -> None:
        """Store the progress of a job; its result replaces it."""
        mine = (jobs.c.id == claimed.id, jobs.c.token == claimed.token, text(_RUNNING))
        told = {"progress": {"done": done, "of": total}}
        self._database.write(
            lambda c: c.execute(update(jobs).where(*mine).values(result=told)).rowcount
        )

    def count(self) -> dict[tuple[str, str], int]:
        """Number of jobs that wait, run or were set aside, by kind and state."""
        query = select(jobs.c.kind, jobs.c.state, func.count()).group_by(jobs.c.kind, jobs.c.state)
        with self._database.read() as connection:
            found = connection.execute(query.where(text(UNFINISHED)))
            return {(kind, state): count for kind, state, count in found}

    def find_ages(self) -> dict[str, tuple[float, float]]:
        """By kind: seconds since the oldest unfinished job was queued, and since the oldest ready
        one.
        """
        with self._database.read() as connection:
            now = read_clock(connection)
            ready = case((jobs.c.state == "queued", jobs.c.not_before))
            ages = (now - func.min(jobs.c.created_at), now - func.min(ready))
            found = connection.execute(
                select(jobs.c.kind, *ages).where(text(LIVE)).group_by(jobs.c.kind)
            )
            return {kind: (oldest, max(0.0, waiting or 0.0)) for kind, oldest, waiting in found}

    def find_rule_delay(self, now: float) -> float:
        """Seconds for which the oldest trace waits for its rule."""
        return find_delay(self._database, now)

    def queue_unfinished_attempts(self, at: float) -> None:
        """Queue a job for each tenant with attempts that expired or were left submitted."""
        late = (attempts.c.state == "entered") & (attempts.c.expires_at < at)
        left = (attempts.c.state == "submitted") & (attempts.c.submitted_at < at - _ON_ITS_WAY)
        query = select(attempts.c.tenant).where(is_unfinished, or_(late, left)).distinct()
        with self._database.read() as connection:
            tenants = list(connection.scalars(query))
        for tenant in tenants:
            job = NewJob(kind="settle", subject="settle")
            self._database.write(partial(add_rows, tenant=tenant, new=[job]))
        if tenants:
            self.wakeups.ring()

    def queue_rule_work(self, at: float) -> int:
        """Queue a job for each rule that has traces to look at or to score; return their number."""
        return queue_rule_jobs(self._database, at)

    def queue_announcements(self) -> int:
        """Queue a job for each tenant whose webhooks are behind the log; return their number."""
        return queue_announcements(self._database)

    def _take_back(self, connection: Connection) -> None:
        """Queue abandoned jobs again, or set them aside."""
        later = read_clock(connection) + _LATER
        for number, token in _find_left(connection):
            # Its holder may have renewed or ended it meanwhile.
            mine = (jobs.c.number == number, jobs.c.token == token, text(_RUNNING))
            often = jobs.c.takeovers >= MOST_TAKEOVERS
            aside = and_(often, jobs.c.kind.not_in(_OURS))
            left = {
                "state": case((aside, "set_aside"), else_="queued"),
                "error": case((aside, f"{_GONE}, {MOST_TAKEOVERS + 1} times"), else_=_GONE),
                "takeovers": case((aside, jobs.c.takeovers), else_=jobs.c.takeovers + 1),
                "not_before": case((often, later), else_=jobs.c.not_before),
            }
            connection.execute(update(jobs).where(*mine).values(left))

    def _share_out(
        self,
        connection: Connection,
        kinds: Collection[str],
        most: int,
        held: Sequence[Claimed] | None,
        of_owner: int | None,
    ) -> Counter[tuple[str, str]]:
        ready = _may_begin(connection, kinds)
        running = and_(jobs.c.state == "running", jobs.c.kind.in_(sorted(kinds)))
        columns = (
            func.sum(case((running, 1), else_=0)),
            func.sum(case((ready, 1), else_=0)),
            func.min(case((ready, jobs.c.not_before))),
        )
        query = select(jobs.c.tenant, jobs.c.owner, *columns).where(text(LIVE))
        found = connection.execute(query.group_by(jobs.c.tenant, jobs.c.owner))
        slots = None
        if held is not None:
            others = select(tenants.c.tenant).where(tenants.c.tenant != DEFAULT).limit(1)
            is_shared = connection.execute(others).first() is not None
            slots = _WorkerSlots(most, held, is_shared=is_shared, of_owner=of_owner)
        return share_out([_Waiting(*row) for row in found], most, slots, self._begun)

    def _read_claimed(self, connection: Connection, token: str) -> list[Claimed]:
        columns = [jobs.c[name] for name in Claimed.__struct_fields__]
        query = select(*columns).where(jobs.c.token == token, text(_RUNNING))
        found = connection.execute(query.order_by(jobs.c.number))
        return [Claimed(**row._asdict()) for row in found]

    def _end(self, claimed: Claimed, values: dict[str, Any], delay: float | None = None) -> None:
        def work(connection: Connection) -> None:
            now = read_clock(connection)
            times = {"finished_at": now} if delay is None else {"not_before": now + delay}
            mine = (jobs.c.id == claimed.id, jobs.c.token == claimed.token)
            query = update(jobs).where(*mine, text(_RUNNING)).values(values | times)
            if connection.execute(query).rowcount:
                return
            # After a lost connection it is done again, and may find that it was done.
            state = connection.scalar(select(jobs.c.state).where(*mine))
            if state != values["state"]:
                raise LeaseLost(
                    f"the job {claimed.id} was taken over by another worker",
                    hint="what was done here is not stored",
                )

        self._database.write(work)
        self.wakeups.let_go(claimed.id)
        if delay is not None:
            self.wakeups.ring()


class _WorkerSlots:
    """Places of some workers, of which each owner and tenant leaves one to others."""

    def __init__(
        self, free: int, held: Sequence[Claimed], *, is_shared: bool, of_owner: int | None = None
    ) -> None:
        self._most = max(1, free + len(held) - 1)
        self._most_of_owner = min(self._most, of_owner or self._most)
        self._is_shared = is_shared
        self._of_owner = Counter((each.tenant, each.owner) for each in held)
        self._of_tenant = Counter(each.tenant for each in held)

    def has_one_for(self, tenant: str, owner: str) -> bool:
        # Jobs without an owner are the server's own short work, on which all others depend.
        if not owner:
            return True
        if self._is_shared and self._of_tenant[tenant] >= self._most:
            return False
        return self._of_owner[tenant, owner] < self._most_of_owner

    def take(self, tenant: str, owner: str) -> None:
        self._of_owner[tenant, owner] += 1
        self._of_tenant[tenant] += 1


def share_out(
    waiting: Sequence[_Waiting],
    most: int,
    slots: _WorkerSlots | None = None,
    begun: Mapping[str | tuple[str, str], int] | None = None,
) -> Counter[tuple[str, str]]:
    """Share free places among owners: each goes to the one with the fewest running jobs.

    Among equals it goes to the one that `begun` a job longest ago: otherwise many short jobs of one
    owner would all go before the first of another.
    """
    last = begun or {}
    of_tenant, of_owner, chosen = Counter[str](), Counter[tuple[str, str]](), Counter[Any]()
    for each in waiting:
        of_tenant[each.tenant] += each.running
        of_owner[each.tenant, each.owner] += each.running

    def rank(each: _Waiting) -> tuple[float | None, ...]:
        owner = each[:2]
        running = (of_tenant[each.tenant], of_owner[owner])
        return (*running, last.get(each.tenant, 0), last.get(owner, 0), each.oldest)

    left = [each for each in waiting if each.ready]
    while left and chosen.total() < most:
        first = min(left, key=rank)
        if slots is not None and not slots.has_one_for(*first[:2]):
            left.remove(first)
            continue
        if slots is not None:
            slots.take(*first[:2])
        of_tenant[first.tenant] += 1
        of_owner[first[:2]] += 1
        chosen[first[:2]] += 1
        if chosen[first[:2]] == first.ready:
            left.remove(first)
    return chosen


def _begin(connection: Connection) -> dict[str, Any]:
    now = read_clock(connection)
    return {"expires_at": now + SECONDS, "started_at": func.coalesce(jobs.c.started_at, now)}


def _may_begin(connection: Connection, kinds: Collection[str]) -> ColumnElement[bool]:
    wanted = (jobs.c.state == "queued", jobs.c.kind.in_(sorted(kinds)))
    # The first condition is the index's own, in its words.
    return and_(text(LIVE), *wanted, jobs.c.not_before <= read_clock(connection))


def _find_left(connection: Connection) -> list[tuple[int, str]]:
    """Running jobs whose lease ran out or whose process has ended."""
    over = jobs.c.expires_at <= read_clock(connection)
    query = select(jobs.c.number, jobs.c.token, jobs.c.holder, over)
    found = connection.execute(query.where(text(LIVE), jobs.c.state == "running"))
    return [
        (number, token)
        for number, token, holder, ended in found
        if ended or msgspec.convert(holder, Holder).is_gone
    ]
