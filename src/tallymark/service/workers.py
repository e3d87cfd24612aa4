"""`Workers`: threads that do the jobs of all tenants, and the table of what there is to do.

One thread looks for jobs, holds them while they run and hears of those to be ended; each job has a
thread of its own. What is handed back or left by a worker that dies, another goes on with.
"""

from __future__ import annotations

import base64
import logging
import math
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from tallymark.challenges.challenge import DimensionWeight
from tallymark.errors import InvalidInput, LeaseLost, TallymarkError, WorkFailed
from tallymark.instrumentation import watch
from tallymark.service.maintenance_thread import MaintenanceThread
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.stop_signals import StopSignal
from tallymark.service.webhooks import DeliveryPauses
from tallymark.store.contests.audit_log import Actor, act_as
from tallymark.store.jobs import NewJob

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine
    from tallymark.service.app import App
    from tallymark.service.competition import Competition
    from tallymark.service.rule_work import RuleWork
    from tallymark.store.job_queue import Claimed

_log = logging.getLogger("tallymark.workers")
_RENEWED_AFTER = 20.0
_SHORTEST, _LONGEST = 0.05, 1.0
"""Seconds between looks for jobs that other processes add."""
_SETTLED_EVERY = 30.0
_NOTED_EVERY = 1.0
_RULED_EVERY = 1.0
_ANNOUNCED_EVERY = 1.0
_LONGEST_DELAY = 900.0
_LOOKS = 3
_SILENT = 60.0
"""Seconds without a look after which something is wrong."""
_STOP_SECONDS = 7.0
_GRACE = 2.0
"""Seconds of these that are left to hand back what did not end."""


class TryLater(WorkFailed):
    """A temporary failure of the server; the job is queued again."""


@dataclass(frozen=True)
class Task:
    """A job, and what it is done with."""

    job: Claimed
    app: App
    """Name of the tenant."""
    competition: Callable[[], Competition]
    rules: RemoteRules
    own: bool = False
    """True if everything belongs to the owner, on their own machine."""
    stop: StopSignal = field(default_factory=StopSignal)
    clock: Callable[[], float] = field(default_factory=lambda: time.time)
    pauses: DeliveryPauses = field(default_factory=DeliveryPauses)
    _noted: list[float] = field(default_factory=lambda: [0.0])

    def note_progress(self, done: int, total: int | None) -> None:
        """Reports progress, at most once a second."""
        now = time.monotonic()
        if now - self._noted[0] >= _NOTED_EVERY:
            self._noted[0] = now
            self.app.store.job_queue.note_progress(self.job, done, total)


Handler = Callable[[Task], Any]
"""Run a job; its return value is stored as the job's result."""


def _score(task: Task) -> Any:
    """Score a submitted attempt. A server failure leaves it waiting and costs no one anything."""
    attempt = task.competition().settle_attempt(task.job.subject)
    if attempt.state == "submitted":
        raise TryLater(attempt.waiting or "it could not be scored")
    score = None if attempt.outcome is None else attempt.outcome.score
    return {"attempt": attempt.id, "state": attempt.state, "score": score}


def _settle(task: Task) -> Any:
    """Ends attempts that ran out of time; what was left submitted gets a job of its own."""
    store = task.app.store
    expired = store.attempts.expire(task.clock())
    pending = store.attempts.pending()
    owners = store.agents.owners({each.agent for each in pending})
    store.jobs.add_many(
        [
            NewJob(kind="score", subject=each.id, owner=owners.get(each.agent, each.agent))
            for each in pending
        ]
    )
    return {"expired": expired, "pending": len(pending)}


def _run(task: Task) -> Any:
    """Runs a suite, or goes on with it."""
    from tallymark.service.remote_runs import RemoteRuns  # noqa: PLC0415 (models and suites are heavy)

    runs = RemoteRuns(task.app, task.rules)
    record = runs.execute(task.job.subject, task.job.payload, task.stop)
    return {"run": record.id, "status": record.status, "score": record.score}


def _rescore(task: Task) -> Any:
    """Scores a challenge's attempts by another rule."""
    given = task.job.payload
    if task.stop.reason == "cancelled":
        return {"status": "cancelled"}
    counts = task.app.store.challenges.get(given["challenge"])
    wanted = _read_scoring(given)
    done_before = {"challenge": given["challenge"]}  # by the previous worker: all or nothing
    same = all(getattr(counts.scoring, name, None) == value for name, value in wanted.items())
    if task.job.takeovers and wanted and same:
        return done_before
    with tempfile.TemporaryDirectory(prefix="tally-rescore-") as name:
        folder = None
        if (packed := given.get("packed")) is not None:
            from tallymark.challenges.challenge_file import load_challenge  # noqa: PLC0415
            from tallymark.challenges.challenge_folder import unpack  # noqa: PLC0415

            folder = Path(name)
            unpack(base64.b64decode(packed), folder)
            if task.job.takeovers and load_challenge(folder).version == counts.version:
                return done_before
        done = task.competition().rescore(
            given["challenge"],
            folder=folder,
            on_progress=task.note_progress,
            **{"apply": True, **{key: given[key] for key in _HOW if key in given}},
            **wanted,
        )
    return {"challenge": given["challenge"], "rescoring": done}


_HOW = ("apply", "reason", "based_on")


def _read_scoring(given: dict[str, Any]) -> dict[str, Any]:
    """The new rule; JSON has only the fields of dimensions."""
    wanted = dict(given.get("scoring", {}))
    if "dimensions" in wanted:
        wanted["dimensions"] = msgspec.convert(wanted["dimensions"], tuple[DimensionWeight, ...])
    return wanted


def _rescore_run(task: Task) -> Any:
    """Rescore a run by another formula or suite, and store it as a run of its own."""
    from tallymark.service.suite_runs import RunOptions, RunService  # noqa: PLC0415 (suites are heavy)

    given, service = task.job.payload, RunService(task.app, task.rules)
    suite = None
    if (text := given.get("suite")) is not None:
        record = task.app.store.run(given["run"])
        suite = service.resolve_like(record, task.rules.load_suite(text), RunOptions())
    _, after = service.rescore_run(given["run"], formula=given.get("formula"), suite=suite)
    return {"run": service.save_as_new(after).id, "rescored_from": given["run"]}


def _decide(task: Task) -> Any:
    """Has rules look at new traces; what they are to score is queued."""
    done = _open_rule_work(task).decide()
    task.app.store.job_queue.queue_rule_work(task.clock())
    return done


def _apply_rule(task: Task) -> Any:
    """Scores the traces that one rule is to score by now."""
    return {"stored": _open_rule_work(task).score(int(task.job.subject))}


def go_on_with_backfill(task: Task, engine: Engine | None = None) -> Any:
    """Goes on with a rule's backfill, for a while; with an engine, to its end."""
    number = int(task.job.subject)
    if task.stop.reason == "cancelled":
        task.app.store.backfills.end(number, "cancelled")
    done = _open_rule_work(task, engine).backfill(number)
    if task.stop.reason == "cancelled" and done.get("status") == "queued":
        task.app.store.backfills.end(number, "cancelled")
        return _open_rule_work(task).backfill(number)
    return done


def _announce(task: Task) -> Any:
    """Queue what happened at challenges since webhooks were last sent it."""
    return {"queued": task.app.store.follow_challenges()}


def _deliver(task: Task) -> Any:
    """Send a message to a webhook; it is tried again for about a day."""
    from tallymark.service.webhooks import (  # noqa: PLC0415 (most have no webhooks)
        Paused,
        WebhookSender,
        make_egress,
    )

    egress = make_egress(task.rules.may, own=task.own)
    sender = WebhookSender(task.app.store, egress, task.clock, task.pauses)
    answered = sender.deliver(task.job.subject)
    if isinstance(answered, Paused):
        return {"status": "queued", "after": answered.seconds}
    if answered is not None and not answered.taken:
        raise TryLater(answered.error or "it was not taken")
    return {"delivery": task.job.subject, "status": None if answered is None else answered.status}


def _open_rule_work(task: Task, engine: Engine | None = None) -> RuleWork:
    from tallymark.service.rule_work import SLICE, RuleWork  # noqa: PLC0415 (scorers are heavy)

    return RuleWork(
        task.app.store,
        task.rules,
        task.clock,
        stopped=lambda: task.stop.reason is not None,
        seconds=SLICE if engine is None else math.inf,
        engine=engine,
    )


@dataclass(frozen=True)
class Lane:
    """Jobs of some kinds that have places of their own, which no others can take."""

    places: int | None = None
    """Jobs at the same time; None is as many as there are workers."""
    of_owner: int | None = None
    """The most of one owner; None leaves one place to others."""


LANES = {
    # What competitors wait for.
    "score": Lane(),
    # Suites, rescorings, rules: they may take hours, and wait for providers.
    "long": Lane(),
    # Our own short work, on which all else depends.
    "upkeep": Lane(places=2),
    # Webhooks, each an owner: most of their time they wait for an answer.
    "deliver": Lane(places=16, of_owner=4),
}


@dataclass(frozen=True)
class JobKind:
    """Work for jobs of a kind."""

    handle: Handler
    most_failures: int | None = 5
    """Maximum server failures of a job. None: it is never given up."""
    lane: str = "long"


KINDS: dict[str, JobKind] = {
    "score": JobKind(_score, most_failures=None, lane="score"),
    "settle": JobKind(_settle, most_failures=None, lane="upkeep"),
    "run": JobKind(_run),
    "rescore": JobKind(_rescore),
    "rescore_run": JobKind(_rescore_run),
    "decide": JobKind(_decide, most_failures=None, lane="upkeep"),
    "rule": JobKind(_apply_rule, most_failures=None),
    "backfill": JobKind(go_on_with_backfill, most_failures=None),
    "announce": JobKind(_announce, most_failures=None, lane="upkeep"),
    "deliver": JobKind(_deliver, most_failures=None, lane="deliver"),
}
"""A new kind of job is a function here."""


class Workers:
    """Runs a number of jobs of each lane. As a context manager it starts, and stops in time."""

    def __init__(  # noqa: PLR0913 (what a server may replace, by keyword)
        self,
        app: App,
        count: int = 2,
        kinds: Collection[str] = tuple(KINDS),
        *,
        rules: RemoteRules | None = None,
        own: bool = False,
        table: dict[str, JobKind] | None = None,
        find_competition: Callable[[str], Competition] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`find_competition` gives that of a tenant where a server has one open already."""
        self._table = KINDS if table is None else table
        for unknown in sorted(set(kinds) - set(self._table)):
            hint = f"known are {', '.join(self._table)}"
            raise InvalidInput(f"there is no kind of job called {unknown!r}", hint=hint)
        self._app = app
        self._queue = app.store.job_queue
        self._count = count
        self._kinds = tuple(kinds)
        self._lanes = {
            name: [each for each in self._kinds if self._table[each].lane == name] for name in LANES
        }
        self.pauses = DeliveryPauses()
        self._rules = RemoteRules.from_environment() if rules is None else rules
        self._own = own
        self._clock = clock
        self._given_competition = find_competition
        self._competitions: dict[str, Competition] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._under_way: dict[str, tuple[Task, threading.Thread]] = {}
        self._renewed = self._settled = self._ruled = self._announced = time.monotonic()
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._look, name="tally-jobs", daemon=True)
        self._maintenance = MaintenanceThread(app, clock) if "settle" in self._kinds else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to look for jobs; a database that is not there is made."""
        self._queue.prepare()
        self._queue.wakeups.wake(self._wake)
        self._thread.start()
        if self._maintenance is not None:
            self._maintenance.start()

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop within some seconds: running jobs end or are handed back, and no job starts."""
        deadline = time.monotonic() + seconds
        self.stop_taking()
        self._queue.wakeups.leave(self._wake)
        if self._thread.is_alive():  # it is not where the server ended before it began
            self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._maintenance is not None:
            self._maintenance.stop(max(0.0, deadline - time.monotonic()))
        with self._lock:
            left = list(self._under_way.values())
        for task, _ in left:
            task.stop.set("shutdown")
        for _, thread in left:
            thread.join(max(0.0, deadline - _GRACE - time.monotonic()))
        with self._lock:
            left = list(self._under_way.values())
        for task, _ in left:  # they go on until the process ends, and store nothing any more
            with suppress(TallymarkError):
                self._queue.release(task.job)
        with self._lock:
            competitions = list(self._competitions.values())
            self._competitions.clear()
        for competition in competitions:
            competition.close()

    def stop_taking(self) -> None:
        """Nothing begins any more; `stop` waits for what runs."""
        self._stopping.set()
        self._wake.set()

    def wait_until_idle(self, told: threading.Event) -> None:
        """Return when no job runs and none could start, or when woken."""
        idle = 0
        if self._maintenance is not None:
            self._maintenance.finalise_traces()
        if "decide" in self._kinds:
            self._queue.queue_rule_work(self._clock())
        if "announce" in self._kinds:
            self._queue.queue_announcements()
        while idle < _LOOKS and not told.wait(_SHORTEST):
            # Several in a row: between a claim and its thread, nothing is under way yet.
            idle = 0 if self.busy or self._queue.is_wanted(self._kinds) else idle + 1

    @property
    def is_alive(self) -> bool:
        """True if a thread looks for jobs and runs maintenance."""
        kept = self._maintenance is None or self._maintenance.is_alive
        return self._thread.is_alive() and time.monotonic() - self._looked < _SILENT and kept

    @property
    def busy(self) -> int:
        """Number of running jobs."""
        return len(self._under_way)

    def _look(self) -> None:
        pause = _SHORTEST
        while not self._stopping.is_set():
            began = 0
            try:
                began = self._begin_some()
                self._look_after()
            except TallymarkError as error:  # a database that is away for a while
                _log.warning("jobs cannot be looked at: %s", error)
                pause = _LONGEST
            except Exception:  # noqa: BLE001 (the one who looks must go on looking)
                _log.exception("jobs cannot be looked at")
                pause = _LONGEST
            self._looked = time.monotonic()
            pause = _SHORTEST if began else min(2 * pause, _LONGEST)
            if self._wake.wait(pause):
                self._wake.clear()
                pause = _SHORTEST

    def _begin_some(self) -> int:
        ready = self._queue.find_ready(self._kinds)
        return sum(
            self._begin_some_of(LANES[name], kinds)
            for name, kinds in self._lanes.items()
            if not ready.isdisjoint(kinds)
        )

    def _begin_some_of(self, lane: Lane, kinds: Collection[str]) -> int:
        with self._lock:
            held = [task.job for task, _ in self._under_way.values() if task.job.kind in kinds]
        claimed = self._queue.claim(
            kinds,
            (lane.places or self._count) - len(held),
            # On the owner's own machine, no one else needs a free worker.
            held=None if self._own else held,
            of_owner=lane.of_owner,
        )
        for job in claimed:
            if self._stopping.is_set():
                self._queue.release(job)
                continue
            app = self._app.for_tenant(job.tenant)
            competition = partial(self._find_competition, app)
            task = Task(
                job,
                app,
                competition,
                self._rules,
                self._own,
                clock=self._clock,
                pauses=self.pauses,
            )
            if job.cancel_at is not None:
                task.stop.set("cancelled")
            thread = threading.Thread(
                target=self._work, args=(task,), name=f"tally-{job.kind}", daemon=True
            )
            with self._lock:
                self._under_way[job.id] = (task, thread)
            self._queue.wakeups.hold(job.id)
            thread.start()
        return len(claimed)

    def _look_after(self) -> None:
        """Holds what runs, ends what others want ended, and looks after what was left."""
        with self._lock:
            tasks = [task for task, _ in self._under_way.values()]
        now = time.monotonic()
        if tasks:
            cancelled = self._queue.find_cancelled([task.job for task in tasks])
            for task in tasks:
                if task.job.id in cancelled:
                    task.stop.set("cancelled")
        if now - self._renewed >= _RENEWED_AFTER:
            held = self._queue.renew([task.job for task in tasks])
            self._renewed = now
            for task in tasks:
                if task.job.id not in held and task.job.id in self._under_way:
                    task.stop.set("lost")
        if "settle" in self._kinds and now - self._settled >= _SETTLED_EVERY:
            self._settled = now
            self._queue.queue_unfinished_attempts(self._clock())
        if "decide" in self._kinds and now - self._ruled >= _RULED_EVERY:
            self._ruled = now
            self._queue.queue_rule_work(self._clock())
        if "announce" in self._kinds and now - self._announced >= _ANNOUNCED_EVERY:
            self._announced = now
            self._queue.queue_announcements()

    def _find_competition(self, app: App) -> Competition:
        if self._given_competition is not None:
            return self._given_competition(app.tenant)
        with self._lock:
            if app.tenant not in self._competitions:
                self._competitions[app.tenant] = app.competition()
            return self._competitions[app.tenant]

    def _work(self, task: Task) -> None:
        job = task.job
        try:
            with act_as(Actor(job.owner or "worker")), watch("job", kind=job.kind) as work:
                work.outcomes[self._do(task)] += 1
        except LeaseLost:
            _log.warning("another worker has taken over the job %s", job.id)
        except TallymarkError as error:  # the lease runs out, and another goes on
            _log.warning("the end of the job %s could not be stored: %s", job.id, error)
        except Exception:  # noqa: BLE001 (here too)
            _log.exception("the end of the job %s could not be stored", job.id)
        finally:
            with self._lock:
                self._under_way.pop(job.id, None)
            with suppress(TallymarkError):
                task.app.close()  # of the shared database, only what this job held
            self._queue.wakeups.let_go(job.id)
            self._wake.set()

    def _do(self, task: Task) -> str:
        """Does a job and stores how it ended, in one of five ways; which."""
        job, kind = task.job, self._table[task.job.kind]
        try:
            result = kind.handle(task)
        except LeaseLost:
            raise
        except InvalidInput as error:  # doing it again would have the same result
            self._queue.fail(job, str(error))
            return "failed"
        except Exception as error:  # noqa: BLE001 (whatever it is, it is our fault)
            if not isinstance(error, TallymarkError):
                _log.exception("the job %s failed", job.id)
            if kind.most_failures is not None and job.failures + 1 >= kind.most_failures:
                self._queue.fail(job, _explain(error))
                return "failed"
            self._queue.fail(job, _explain(error), again_after=find_delay(job.failures))
            return "again"
        status = result.get("status") if isinstance(result, dict) else None
        if status == "queued":
            self._queue.release(job, result.get("after", 0.0))
            return "queued"
        ended = task.stop.reason == status == "cancelled"
        state: Literal["cancelled", "done"] = "cancelled" if ended else "done"
        self._queue.finish(job, result, state=state)
        return state


def find_delay(failures: int) -> float:
    """Seconds until a job is tried again that failed so often before: 2, 4, 8, up to 15 minutes."""
    return min(_LONGEST_DELAY, 2.0 ** min(failures + 1, 20))


def _explain(error: Exception) -> str:
    """Error text for the job's owner."""
    if isinstance(error, TallymarkError):
        return str(error)
    return f"internal error: {type(error).__name__}"
