"""`RemoteRuns`: runs of suites that were sent to a server, from a text to a job and to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import Timer
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tallymark.errors import Conflict, InvalidInput, NotFound, WorkFailed
from tallymark.runs.ongoing_run import derive_id, make_id
from tallymark.runs.record import RunRecord
from tallymark.runs.run import Run
from tallymark.service.jobs import cancel_job, mark_cancelled
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.suite_runs import RunOptions, RunService, choose_part
from tallymark.store.jobs import NewJob, derive_job_id
from tallymark.suites.suite_evaluation import (
    DEFAULT_THREADS,
    RunLimits,
    count_planned,
    plan_cases,
)
from tallymark.suites.templates import refuse_unknown

if TYPE_CHECKING:
    from tallymark.service.app import App
    from tallymark.service.stop_signals import StopSignal
    from tallymark.suites.resolved_suite import FilledSuite
    from tallymark.suites.suite_definition import SuiteDefinition

KIND = "run"
_OVER = ("completed", "partial_failure", "failed")


class RunWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options that come with a sent suite."""

    epochs: int | None = None
    limit: int | None = None
    """Only the first cases."""
    threads: int | None = None
    timeout: float | None = None
    """Seconds for each request."""
    budget: float | None = None
    """US dollars."""
    judge: str | None = None
    vars: dict[str, str] = {}

    def check(self) -> None:
        """Refuses numbers that no run can be done with."""
        for name in ("epochs", "limit", "threads", "timeout", "budget"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise InvalidInput(f"{name} is {value}, and must be more than 0")


@dataclass(frozen=True)
class RemoteRuns:
    """Suites of others on a server, for one tenant."""

    app: App
    rules: RemoteRules = field(default_factory=RemoteRules.from_environment)
    clock: Callable[[], float] = field(default_factory=lambda: time.time)

    @property
    def _service(self) -> RunService:
        return RunService(self.app, self.rules)

    def check(
        self, suite: str, models: Sequence[str] = (), wish: RunWish | None = None
    ) -> list[RunRecord]:
        """Runs that a suite would make, with all its mistakes; nothing is stored."""
        return self._plan(suite, models, wish or RunWish())[0]

    def _plan(
        self, suite: str, models: Sequence[str], wish: RunWish, name: str | None = None
    ) -> tuple[list[RunRecord], RunWish]:
        """The runs, and what is wished for them with the suite's own number of threads."""
        wish.check()
        definition = self.rules.load_suite(suite, name=name or "suite")
        refuse_unknown(definition, wish.vars, "vars")
        options = self._make_options(wish)
        filled = self._resolve(definition, options)
        chosen = list(models) or list(filled[0].models)
        if not chosen:
            raise InvalidInput("no model is named", hint="name one in models or metadata.model")
        planned = list(
            islice(
                (
                    case
                    for each in filled
                    for _ in chosen
                    for case in plan_cases(each, options.limits)
                ),
                self.rules.most_cases + 1,
            )
        )
        self.rules.limit_cases(len(planned))
        for each in filled:
            for model in chosen:
                self._service.open_model(model, each, options)
        group = make_id("g")
        records = [
            self._make_record(each, model, group, wish) for each in filled for model in chosen
        ]
        threads = wish.threads or definition.threads or DEFAULT_THREADS
        return records, replace(wish, threads=min(threads, self.rules.most_threads))

    def submit(
        self,
        suite: str,
        models: Sequence[str] = (),
        wish: RunWish | None = None,
        *,
        owner: str = "",
        name: str | None = None,
        asked_as: str | None = None,
    ) -> list[tuple[RunRecord, str]]:
        """Queues the runs of a suite, one for each prompt and model; each with its job's id.

        Under the name of a request, those are the same when it is made again.
        """
        store = self.app.store
        records, wish = self._plan(suite, models, wish or RunWish(), name)
        if asked_as is not None:
            group = derive_id("g", asked_as)
            records = [
                replace(each, id=derive_id("r", asked_as, number), group=group)
                for number, each in enumerate(records)
            ]
        payload = msgspec.to_builtins(wish)
        jobs = [
            NewJob(kind=KIND, subject=record.id, owner=owner, payload=payload) for record in records
        ]
        if asked_as is not None:
            jobs = [
                replace(job, id=derive_job_id(asked_as, number)) for number, job in enumerate(jobs)
            ]
            with suppress(NotFound):  # all are there, or none
                records = [store.run(each.id) for each in records]
                return [(record, job.id) for record, job in zip(records, jobs, strict=True)]
        store.queue_runs(records, jobs)
        return [(record, job.id) for record, job in zip(records, jobs, strict=True)]

    def execute(self, run_id: str, payload: dict[str, Any], stop: StopSignal) -> RunRecord:
        """Runs what was queued, or goes on with what another left without asking it all again.

        How it was stopped, if it was, the signal knows.
        """
        store = self.app.store
        record = store.run(run_id)
        if record.status in _OVER:
            return record
        if record.status == "running":
            raise WorkFailed(f"another process still works on the run {run_id}")
        if stop.reason == "cancelled":
            mark_cancelled(store, run_id, self.clock())
            return store.run(run_id)
        left = (record.started_at or self.clock()) + self.rules.most_seconds - self.clock()
        timer = Timer(max(0.0, left), stop.set, ("late",))
        timer.daemon = True
        timer.start()
        try:
            options = self._make_options(msgspec.convert(payload, RunWish), stop)
            done = self._service.resume(run_id, options, None).record
        finally:
            timer.cancel()
        if stop.reason == "shutdown" and done.status == "cancelled":
            again: dict[str, Any] = {"status": "queued", "error": None, "finished_at": None}
            store.update_run(run_id, **again)
            return replace(done, **again)
        return done

    def cancel(self, run_id: str) -> RunRecord:
        """Ends a run: at once where it waits, at its next case where it runs."""
        store = self.app.store
        record = store.run(run_id)
        job = store.jobs.find(KIND, record.id)
        if job is None or job.ended:
            if record.status == "cancelled":
                return record
            raise Conflict(f"the run {record.id} does not wait or run here: it is {record.status}")
        cancel_job(store, job.id)
        return store.run(record.id)

    def rescore(
        self, run_id: str, *, formula: str | None = None, suite: str | None = None
    ) -> tuple[Run, Run]:
        """A run as it is, and as another formula or a suite that was sent sees it."""
        other = None
        if suite is not None:
            record = self.app.store.run(run_id)
            definition = self.rules.load_suite(suite)
            other = self._service.resolve_like(record, definition, RunOptions())
        return self._service.rescore_run(run_id, formula=formula, suite=other)

    def _make_options(self, wish: RunWish, stop: StopSignal | None = None) -> RunOptions:
        limits = RunLimits(
            epochs=wish.epochs,
            cases=wish.limit,
            threads=wish.threads,
            timeout=wish.timeout,
            budget=wish.budget,
        )
        return RunOptions(limits, values=wish.vars, judge=wish.judge, stop=stop)

    def _resolve(self, definition: SuiteDefinition, options: RunOptions) -> list[FilledSuite]:
        asked = [definition]
        if definition.prompts:
            from tallymark.suites.chosen_cases import ask_with_each  # noqa: PLC0415 (few have any)

            asked = ask_with_each(definition, ())
        return [self._service.resolve_suite(each, options) for each in asked]

    def _make_record(self, suite: FilledSuite, model: str, group: str, wish: RunWish) -> RunRecord:
        definition = suite.definition
        options = self._make_options(wish)
        total = count_planned(suite, options.limits)
        part = {} if wish.limit is None else choose_part(definition, suite, options)[1]
        prompt = {} if definition.prompt is None else {"prompt": definition.prompt}
        return RunRecord(
            id=make_id("r"),
            suite=definition.name,
            model=suite.redact(model),
            status="queued",
            group=group,
            definition=definition.to_json(),
            definition_hash=definition.hash,
            epochs=wish.epochs or definition.epochs,
            created_at=self.clock(),
            score_formula=str(suite.formula),
            total=total,
            # No folder: nothing of this machine belongs to the run.
            tags={**definition.tags, "limit": wish.limit, "epochs": wish.epochs, **prompt, **part},
        )
