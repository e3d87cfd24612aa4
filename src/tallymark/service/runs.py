"""Stored runs: records and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from urllib.parse import quote

import msgspec
from msgspec import Meta

from tallymark.errors import InvalidInput, NotAllowed, NotFound
from tallymark.runs.problems import describe_unrun, show_result
from tallymark.runs.record import CaseResult, CaseStatus, RunDetails, RunRecord, RunStatus
from tallymark.service.callers import ORGANISERS, REPORTERS, TEAM, check_role
from tallymark.service.cursors import Cursor, Limit, read_cursor, slice_page, write_cursor
from tallymark.service.idempotency import KeyedRequest, StoredAnswer
from tallymark.service.jobs import name_owner
from tallymark.service.operations import Event, Page, Resource, operation, stream
from tallymark.store.dry_run import is_dry_run

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison, RegressionRule
    from tallymark.runs.run import Run
    from tallymark.service.remote_runs import RemoteRuns
    from tallymark.store.runs import RunFilter

RunId = Annotated[
    str, Meta(max_length=200, description="An id, its beginning, a name, latest or latest~1.")
]
Text = Annotated[str, Meta(max_length=500)]
Model = Annotated[str, Meta(min_length=1, max_length=500, description="As `-m` takes it.")]
Formula = Annotated[str, Meta(min_length=1, max_length=4096)]
Reason = Annotated[str, Meta(max_length=2000, description="Reason, stored in the log.")]
Sort = Literal["created_at", "started_at", "finished_at", "score", "suite", "model", "status"]
_ENDED = ("completed", "partial_failure", "failed", "cancelled")
_FEW = 5_000
_MOST_CACHED = 50_000
"""Results of runs whose comparison is cached: they are in memory then."""
"""Results that are read to describe a run in full."""
_TRACES = 100
"""Results on a page with traces."""
_EARLIER = 3
"""Runs among which the previous one is looked for."""
_POINTS = 30
"""Scores in the history of a suite."""


class Difference(msgspec.Struct, frozen=True):
    """A number of a sent run that differs from the one computed from its results."""

    field: str
    sent: float | None
    computed: float | None


class StartedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that were stored or queued: the first, all of them, and the jobs that run them."""

    run: RunRecord
    runs: list[RunRecord]
    job: str | None = None
    jobs: list[str] = []
    differences: Annotated[
        list[list[Difference]], Meta(description="Of each sent run: numbers computed otherwise.")
    ] = []


class RescoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run before and after rescoring."""

    before: RunDetails
    after: RunDetails
    saved_as: Annotated[str | None, Meta(description="Id of the new run; null in a preview.")]
    notes: Annotated[list[str], Meta(description="Where the other suite asks something else.")]


class ComparedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs against the first of them."""

    comparisons: list[dict[str, Any]]


class SuiteHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A suite with its newest run and the scores of the last ones."""

    suite: str
    runs: Annotated[int, Meta(description="Number of runs.")]
    newest: Annotated[RunRecord, Meta(description="The newest that has ended, if any has.")]
    scores: Annotated[list[float | None], Meta(description="Of the last runs, oldest first.")]
    change: Annotated[float | None, Meta(description="Since the previous run of the same model.")]


class Runs(Resource):
    """Runs of suites and of scored traces."""

    @operation(
        "POST /runs",
        REPORTERS,
        rate="work",
        status=201,
        keeps_answer=True,
    )
    def create(  # noqa: PLR0913 (a declaration names all fields)
        self,
        run: Annotated[
            dict[str, Any],
            Meta(
                description="A finished run, as `tally run --json` prints it: record and `results`."
                " With an id of your own in `keep_as`, it can be sent again, or in parts: `more`"
                " means that others follow."
            ),
        ]
        | None = None,
        suite: Annotated[
            str | dict[str, Any], Meta(description="The suite, as YAML text or as JSON.")
        ]
        | None = None,
        models: Annotated[Sequence[Model], Meta(max_length=20)] = (),
        *,
        name: Annotated[str, Meta(min_length=1, max_length=500, description="Of an unnamed suite.")]
        | None = None,
        limit: Annotated[int, Meta(ge=1, description="Maximum number of cases.")] | None = None,
        epochs: Annotated[int, Meta(ge=1, le=1000)] | None = None,
        threads: Annotated[int, Meta(ge=1, le=1000)] | None = None,
        timeout: Annotated[float, Meta(gt=0, le=1e6, description="Seconds.")] | None = None,
        budget: Annotated[float, Meta(gt=0, description="US dollars, judges included.")]
        | None = None,
        judge: Model | None = None,
        vars: Annotated[dict[str, str], Meta(max_length=1000)] | None = None,  # noqa: A002 (its name)
        idempotency_key: str | None = None,
    ) -> StartedRuns:
        """Execute a suite, or store a run that was executed elsewhere.

        A finished run is tallied and scored again from its results.
        """
        if (suite is None) == (run is None):
            raise InvalidInput(
                "give either 'suite', to execute it, or 'run', finished elsewhere",
                hint="leave the other out",
            )
        named = self._name_request(idempotency_key)
        if run is not None:
            return self._keep(run, named)
        from tallymark.service.remote_runs import RunWish  # noqa: PLC0415 (models are heavy)

        if self.caller is not None and self.caller.role not in ORGANISERS:
            raise NotAllowed("a reporter's key may send finished runs, not start any")
        wish = RunWish(
            epochs=epochs,
            limit=limit,
            threads=threads,
            timeout=timeout,
            budget=budget,
            judge=judge,
            vars=vars or {},
        )
        queued = self._remote.submit(
            _write_suite(suite) or "",
            models,
            wish,
            owner="" if self.caller is None else name_owner(self.caller),
            name=name,
            asked_as=named,
        )
        shown = [show_record(record) for record, _ in queued]
        jobs = [job for _, job in queued]
        return StartedRuns(run=shown[0], runs=shown, job=jobs[0], jobs=jobs)

    @operation("GET /runs", TEAM)
    def list(  # noqa: PLR0913 (the filters of a list)
        self,
        suite: Text | None = None,
        model: Text | None = None,
        *,
        status: RunStatus | None = None,
        group: Annotated[str, Meta(max_length=100)] | None = None,
        since: Annotated[float, Meta(description="Seconds since 1970.")] | None = None,
        min_score: float | None = None,
        text: Annotated[
            str, Meta(max_length=500, description="Part of the id, suite, model or tags.")
        ]
        | None = None,
        sort: Sort = "created_at",
        order: Literal["asc", "desc"] = "desc",
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[RunRecord]:
        """List runs, newest first; those with very many metrics have only some of them."""
        kind = str if sort in ("suite", "model", "status") else float | None
        place = read_cursor(cursor, kind, float, str)
        if not self.store.exists:
            return Page(items=[])
        found = self.store.runs(
            sort=sort,
            descending=order == "desc",
            limit=limit + 1,
            after=None if place is None else (place[0], place[1], place[2]),
            suite=suite,
            model=model,
            status=status,
            group=group,
            since=since,
            min_score=min_score,
            text=text,
        )
        last = found[limit - 1] if len(found) > limit else None
        more = None if last is None else write_cursor(getattr(last, sort), last.created_at, last.id)
        return Page(items=[show_record(each) for each in found[:limit]], next=more)

    @operation("GET /runs/{run}", TEAM, noun="run", etag=True)
    def get(
        self,
        run: RunId,
        whole: Annotated[
            bool, Meta(description="With the definition of the suite and all metrics.")
        ] = False,
    ) -> RunDetails:
        """Get a run; one with very many results is described by its record alone."""
        from tallymark.runs.reports.json_report import describe_run  # noqa: PLC0415 (formulas)
        from tallymark.runs.run import Run  # noqa: PLC0415 (formulas)
        from tallymark.runs.tally import Tally  # noqa: PLC0415 (formulas)
        from tallymark.store.stored_results import load_results  # noqa: PLC0415 (as above)

        record = self.store.run(run) if whole else self._measure(self.store.brief_run(run))
        if record.status in _ENDED and record.passed + record.failed + record.errors <= _FEW:
            found = Run(record, *load_results(self.store, record))
        else:
            found = Run(record, (), Tally())
        return msgspec.structs.replace(describe_run(found), definition=record.definition)

    @operation("GET /runs/{run}/cases", TEAM)
    def cases(
        self,
        run: RunId,
        status: CaseStatus | None = None,
        traces: Annotated[bool, Meta(description="With the trace of the agent.")] = False,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[CaseResult]:
        """List results of a run by case and epoch."""
        after = read_cursor(cursor, str, int)
        if traces:  # a page is one answer, which has a largest size
            limit = min(limit, _TRACES)
        found = self.store.results_after(
            self.store.brief_run(run).id,
            after=None if after is None else (after[0], after[1]),
            limit=limit + 1,
            status=status,
            with_traces=traces,
        )
        last = found[limit - 1] if len(found) > limit else None
        items = [show_result(each) for each in found[:limit]]
        return Page(items=items, next=None if last is None else write_cursor(*last.key))

    @operation("GET /runs/{run}/cases/{case}", TEAM, noun="case")
    def get_case(
        self,
        run: RunId,
        case: Annotated[str, Meta(max_length=2000)],
        epoch: Annotated[int, Meta(ge=0, le=2**31)] = 0,
    ) -> CaseResult:
        """Get one result with the trace of the agent; epochs count from 0."""
        record = self.store.brief_run(run)
        found = next(self.store.pick_results(record.id, [(case, epoch)]), None)
        if found is None:
            message = f"the run {record.id} has no result of the case {case[:80]!r}"
            raise NotFound(message if not epoch else f"{message}, epoch {epoch + 1}")
        return show_result(found)

    @operation("POST /runs/{run}/cancel", ORGANISERS, rate="write", noun="run")
    def cancel(self, run: RunId) -> RunRecord:
        """Stop a queued or running run; its results so far are stored."""
        return show_record(self._remote.cancel(run))

    @operation("PATCH /runs/{run}", ORGANISERS, rate="write", noun="run")
    def rename(
        self,
        run: RunId,
        name: Annotated[str, Meta(min_length=1, max_length=200, description="Beside its id.")],
        reason: Reason = "",
    ) -> RunRecord:
        """Name a run that has ended; the name can be used in place of its id."""
        return show_record(self.store.rename_run(run, name, at=self.now, reason=reason))

    @operation("DELETE /runs/{run}", ORGANISERS, rate="write", noun="run")
    def delete(self, run: RunId, reason: Reason = "") -> RunRecord:
        """Delete a run that has ended, by its whole id, with its results and reviews."""
        return show_record(self.store.remove_run(run, at=self.now, reason=reason))

    @operation(
        "POST /runs/{run}/rescore",
        ORGANISERS,
        rate="write",
        query=("preview",),
        status=lambda rescored: 200 if rescored.saved_as is None else 201,
    )
    def rescore(
        self,
        run: RunId,
        formula: Formula | None = None,
        suite: str | dict[str, Any] | None = None,
        preview: Annotated[bool, Meta(description="Show it and store nothing.")] = False,
    ) -> RescoredRun:
        """Score a run by another formula or suite and store it as a new run; asks no model."""
        from tallymark.runs.reports.json_report import describe_run  # noqa: PLC0415 (formulas)

        if formula is None and suite is None:
            raise InvalidInput("give 'formula' or 'suite'", hint="or both")
        before, after = self._remote.rescore(run, formula=formula, suite=_write_suite(suite))
        keep = not (preview or is_dry_run())
        return RescoredRun(
            before=describe_run(before),
            after=describe_run(after),
            saved_as=self.services.app.runs.save_as_new(after).id if keep else None,
            notes=[*after.rescore_notes],
        )

    @operation("GET /compare", TEAM, rate="work")
    def compare(
        self,
        run: Annotated[Sequence[RunId], Meta(min_length=2, max_length=6)],
        formula: Formula | None = None,
        alpha: Annotated[float, Meta(ge=0.005, le=0.5)] = 0.05,
        tolerance: Annotated[
            str, Meta(max_length=40, description="Points of the score, or % of the first run's.")
        ] = "1%",
        strict: bool = False,
    ) -> ComparedRuns:
        """Compare runs with the first of them: changes, and whether the difference is real."""
        from tallymark.runs.comparison import RegressionRule  # noqa: PLC0415 (numpy is heavy)

        rule = RegressionRule(alpha, tolerance, strict)
        _, found = self.load_compared(run, formula, rule)
        return ComparedRuns(comparisons=[msgspec.to_builtins(each.to_dict()) for each in found])

    @operation("GET /suites", TEAM)
    def suites(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[SuiteHistory]:
        """List suites that have runs, the one with the newest run first."""
        if not self.store.exists:
            return Page(items=[])
        page = slice_page(self.store.suites(10_000), limit, cursor)
        found = [self._describe_suite(each.suite, each.runs) for each in page.items]
        return Page(items=found, next=page.next)

    @stream("/runs/{run}/events")
    def events(self, run: RunId, after: int | None = None) -> Iterator[Event]:
        """Follow a run on a server until it ends."""
        return self.listen(f"/runs/{quote(run, '')}/events", after, ends=True)

    def load(self, run: str, *, traces: bool = False) -> Run:
        """Load a run with its results.

        Locally they stay in the store and are read while it is open.
        """
        if self.sender is None:
            self._require_reader()
            return self._load(run)
        from tallymark.runs.ongoing_run import sort_by_suite  # noqa: PLC0415 (formulas)
        from tallymark.runs.run import Run  # noqa: PLC0415 (formulas)

        record = self.read_record(run)
        found = list(self.cases(record.id, traces=traces))
        return Run(record, sort_by_suite(record, found))

    def read_record(self, run: str) -> RunRecord:
        """Read the record of a run with its definition and all metrics."""
        found = self.get(run, whole=True)
        fields = {name: getattr(found, name) for name in RunRecord.__struct_fields__}
        return RunRecord(**fields)

    def brief(self, run: str, formula: str = "") -> RunRecord:
        """Read a run as lists have it; of very many metrics, also those that a formula may mean."""
        self._require_reader()
        self.store.require()
        return show_record(self.store.brief_run(run, metrics_for=formula))

    def load_compared(
        self, runs: Sequence[str], formula: str | None = None, rule: RegressionRule | None = None
    ) -> tuple[Sequence[Run], Sequence[Comparison]]:
        """Load runs and compare them with the first; of finished runs, that is cached."""
        from tallymark.runs.comparison import compare_all  # noqa: PLC0415 (numpy is heavy)

        self._require_reader()
        records = [self.store.brief_run(each) for each in runs]

        def make() -> tuple[Sequence[Run], Sequence[Comparison]]:
            found = [self._load(each.id) for each in records]
            return found, compare_all(found, formula=formula, rule=rule)

        results = sum(each.passed + each.failed + each.errors for each in records)
        if results > _MOST_CACHED or any(each.status not in _ENDED for each in records):
            return make()
        # A run that is gone on with after its end has another end.
        made_of = tuple((each.finished_at, each.passed, each.errors) for each in records)
        key = ("compared", tuple(each.id for each in records), formula, rule)
        return self.services.find_table(self.caller, key, made_of, make, cost=0)

    def newest(
        self, limit: int, suite: str | None = None, formula: str = ""
    ) -> Sequence[RunRecord]:
        """Read the newest runs, with the metrics that a formula may mean."""
        self._require_reader()
        if not self.store.exists:
            return []
        found = self.store.runs(suite=suite, limit=limit, metrics_for=formula)
        return [show_record(each) for each in found]

    def create_once(self, key: str | None, **given: Any) -> StartedRuns:
        """Create runs for a caller in this process, once for each key."""
        if key is None or self.caller is None:
            return self.create(**given)
        content = msgspec.json.encode(["runs", given])
        request = KeyedRequest(self.services, self.caller, key, content)
        known = request.begin()
        if known is not None:
            return msgspec.json.decode(known.body, type=StartedRuns)
        try:
            started = self.create(**given, idempotency_key=key)
        except BaseException as error:
            request.fail(error)
            raise
        body = msgspec.json.encode(started)
        request.finish(StoredAnswer(status=202, headers={}, body=body))
        return started

    def count(self, **filters: Any) -> int:
        """Count the runs that fit filters of `list`."""
        self._require_reader()
        return self.store.count_runs(**cast("RunFilter", filters)) if self.store.exists else 0

    def page(
        self, limit: int, offset: int, sort: str, descending: bool, **filters: Any
    ) -> Sequence[RunRecord]:
        """Read a numbered page of the list."""
        self._require_reader()
        if not self.store.exists:
            return []
        wanted = cast("RunFilter", filters)
        found = self.store.runs(
            sort=sort, descending=descending, limit=limit, offset=offset, **wanted
        )
        return [show_record(each) for each in found]

    def page_cases(
        self, run: str, status: CaseStatus | None, text: str | None, limit: int, offset: int
    ) -> Sequence[CaseResult]:
        """Read a numbered page of the results whose case, input or output has a text."""
        self._require_reader()
        found = self.store.page_results(run, status=status, text=text, limit=limit, offset=offset)
        return [show_result(each) for each in found]

    def count_cases(self, run: str, status: CaseStatus | None, text: str | None) -> int:
        """Count the results of `page_cases`."""
        self._require_reader()
        return self.store.count_results(run, status=status, text=text)

    def find_neighbours(
        self, run: str, case: str, epoch: int
    ) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """Find the case and epoch before and after one."""
        self._require_reader()
        return self.store.neighbours(run, case, epoch)

    def find_previous(self, record: RunRecord) -> RunRecord | None:
        """Find the previous complete run of the same suite, model and prompt that has a score."""
        self._require_reader()
        if record.score is None or describe_unrun(record) is not None:
            return None
        earlier = self.store.runs(
            suite=record.suite,
            model=record.model,
            after=(record.created_at, record.created_at, record.id),
            limit=_EARLIER,
        )
        return next(
            (
                each
                for each in earlier
                if each.score is not None
                and each.tags.get("prompt") == record.tags.get("prompt")
                and describe_unrun(each) is None
            ),
            None,
        )

    def _describe_suite(self, suite: str, count: int) -> SuiteHistory:
        records = self.store.runs(suite=suite, limit=_POINTS)
        ended = [each for each in records if each.status not in ("queued", "running")]
        newest, *others = ended or records
        # The score of a run that was cut short is not the score of the suite.
        whole = (each for each in others if describe_unrun(each) is None)
        before = next((each for each in whole if each.model == newest.model), None)
        change = None
        if before is not None and before.score is not None and newest.score is not None:
            change = newest.score - before.score
        return SuiteHistory(
            suite=suite,
            runs=count,
            newest=show_record(newest),
            scores=[each.score for each in reversed(ended)],
            change=change,
        )

    def _keep(self, run: Mapping[str, Any], named: str | None) -> StartedRuns:
        from tallymark.service.sent_runs import SentRuns  # noqa: PLC0415 (formulas)

        sent = SentRuns(self.store, lambda: self.now)
        kept = sent.check(run) if is_dry_run() else sent.keep(run, asked_as=named)
        shown = [show_record(each.record) for each in kept]
        return StartedRuns(
            run=shown[0], runs=shown, differences=[[*each.differences] for each in kept]
        )

    def _name_request(self, key: str | None) -> str | None:
        """The name that ids are derived from, so that a repeated request finds its own runs."""
        if key is None or self.caller is None:
            return None
        return self.store.idempotent_answers.find_name(self.caller.asker, key)

    def _measure(self, record: RunRecord) -> RunRecord:
        """Add cost and latency so far to a run that has not ended."""
        if record.status in _ENDED:
            return record
        cost, latency = self.store.measure_results(record.id)
        metrics = record.metrics | {"total_cost": cost, "avg_latency": latency}
        return msgspec.structs.replace(record, metrics=metrics)

    def _load(self, run: str) -> Run:
        return self.services.app.load_run(run)

    def _require_reader(self) -> None:
        if self.caller is not None:
            check_role(self.caller, TEAM)

    @property
    def _remote(self) -> RemoteRuns:
        from tallymark.service.remote_runs import RemoteRuns  # noqa: PLC0415 (models are heavy)

        services = self.services
        return RemoteRuns(services.app, services.settings.rules, services.clock)


def show_record(record: RunRecord) -> RunRecord:
    """A run as it is shown: without the definition, and with a reason where it has no score."""
    error = record.score_error if record.score is not None else record.explain_no_score()
    return msgspec.structs.replace(record, definition="", score_error=error)


def _write_suite(suite: str | Mapping[str, Any] | None) -> str | None:
    return suite if isinstance(suite, str | None) else msgspec.json.encode(suite).decode()
