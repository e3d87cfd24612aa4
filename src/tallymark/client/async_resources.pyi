# Written by `make client` from the operations in service/: change those.
import collections.abc
import typing

import msgspec

import tallymark.runs.record
import tallymark.service.cursors
import tallymark.service.operations
import tallymark.service.rule_definitions
import tallymark.service.rules
import tallymark.service.runs

class AsyncRules:
    async def add(
        self, rule: tallymark.service.rule_definitions.RuleDocument
    ) -> tallymark.service.rules.Rule: ...
    async def try_out(
        self, rule: tallymark.service.rule_definitions.RuleDocument
    ) -> tallymark.service.rules.RuleTrial: ...
    async def list(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.rules.Rule]: ...
    async def get(
        self, name: tallymark.service.rules.Name
    ) -> tallymark.service.rules.RuleDetails: ...
    async def edit(
        self,
        name: tallymark.service.rules.Name,
        rule: tallymark.service.rule_definitions.RuleDocument,
    ) -> tallymark.service.rules.Rule: ...
    async def pause(self, name: tallymark.service.rules.Name) -> tallymark.service.rules.Rule: ...
    async def resume(self, name: tallymark.service.rules.Name) -> tallymark.service.rules.Rule: ...
    async def archive(self, name: tallymark.service.rules.Name) -> tallymark.service.rules.Rule: ...
    async def decisions(
        self,
        name: tallymark.service.rules.Name,
        decision: tallymark.service.rules.Decided | None = ...,
        trace: typing.Annotated[str, msgspec.Meta(max_length=200)] | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.rules.Decision]: ...
    async def spending(
        self,
        name: tallymark.service.rules.Name,
        since: typing.Annotated[str, msgspec.Meta(pattern="^\\d{4}-\\d{2}-\\d{2}$")] | None = ...,
    ) -> tallymark.service.rules.Spending: ...
    async def preview_backfill(
        self, name: tallymark.service.rules.Name, since: float, until: float
    ) -> tallymark.service.rules.BackfillPreview: ...
    async def backfill(
        self, name: tallymark.service.rules.Name, since: float, until: float
    ) -> tallymark.service.rules.PlannedBackfill: ...
    async def backfills(
        self,
        name: tallymark.service.rules.Name,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.rules.Backfill]: ...
    async def get_backfill(
        self,
        name: tallymark.service.rules.Name,
        number: typing.Annotated[int, msgspec.Meta(ge=1, le=2**53)],
    ) -> tallymark.service.rules.Backfill: ...

class AsyncRuns:
    async def create(
        self,
        run: typing.Annotated[
            dict[str, typing.Any],
            msgspec.Meta(
                description="A finished run, as `tally run --json` prints it: record and `results`. With an id of yours in `keep_as` it may be sent again, or in parts: `more` says that others follow."
            ),
        ]
        | None = ...,
        suite: typing.Annotated[
            str | dict[str, typing.Any],
            msgspec.Meta(description="The suite, as YAML text or as JSON."),
        ]
        | None = ...,
        models: typing.Annotated[
            collections.abc.Sequence[tallymark.service.runs.Model], msgspec.Meta(max_length=20)
        ] = ...,
        name: typing.Annotated[
            str, msgspec.Meta(min_length=1, max_length=500, description="Of an unnamed suite.")
        ]
        | None = ...,
        limit: typing.Annotated[int, msgspec.Meta(ge=1, description="Maximum number of cases.")]
        | None = ...,
        epochs: typing.Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = ...,
        threads: typing.Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = ...,
        timeout: typing.Annotated[float, msgspec.Meta(gt=0, le=1000000.0, description="Seconds.")]
        | None = ...,
        budget: typing.Annotated[
            float, msgspec.Meta(gt=0, description="US dollars, judges included.")
        ]
        | None = ...,
        judge: tallymark.service.runs.Model | None = ...,
        vars: typing.Annotated[dict[str, str], msgspec.Meta(max_length=1000)] | None = ...,
        idempotency_key: str | None = ...,
    ) -> tallymark.service.runs.StartedRuns: ...
    async def list(
        self,
        suite: tallymark.service.runs.Text | None = ...,
        model: tallymark.service.runs.Text | None = ...,
        status: tallymark.runs.record.RunStatus | None = ...,
        group: typing.Annotated[str, msgspec.Meta(max_length=100)] | None = ...,
        since: typing.Annotated[float, msgspec.Meta(description="Seconds since 1970.")]
        | None = ...,
        min_score: float | None = ...,
        text: typing.Annotated[
            str, msgspec.Meta(max_length=500, description="Part of the id, suite, model or tags.")
        ]
        | None = ...,
        sort: tallymark.service.runs.Sort = ...,
        order: typing.Literal["asc", "desc"] = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.runs.record.RunRecord]: ...
    async def get(
        self,
        run: tallymark.service.runs.RunId,
        whole: typing.Annotated[
            bool, msgspec.Meta(description="With the definition of the suite and all metrics.")
        ] = ...,
    ) -> tallymark.runs.record.RunDetails: ...
    async def cases(
        self,
        run: tallymark.service.runs.RunId,
        status: tallymark.runs.record.CaseStatus | None = ...,
        traces: typing.Annotated[
            bool, msgspec.Meta(description="With the trace of the agent.")
        ] = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.runs.record.CaseResult]: ...
    async def get_case(
        self,
        run: tallymark.service.runs.RunId,
        case: typing.Annotated[str, msgspec.Meta(max_length=2000)],
        epoch: typing.Annotated[int, msgspec.Meta(ge=0, le=2**31)] = ...,
    ) -> tallymark.runs.record.CaseResult: ...
    async def cancel(
        self, run: tallymark.service.runs.RunId
    ) -> tallymark.runs.record.RunRecord: ...
    async def rename(
        self,
        run: tallymark.service.runs.RunId,
        name: typing.Annotated[
            str, msgspec.Meta(min_length=1, max_length=200, description="Beside its id.")
        ],
        reason: tallymark.service.runs.Reason = ...,
    ) -> tallymark.runs.record.RunRecord: ...
    async def delete(
        self, run: tallymark.service.runs.RunId, reason: tallymark.service.runs.Reason = ...
    ) -> tallymark.runs.record.RunRecord: ...
    async def rescore(
        self,
        run: tallymark.service.runs.RunId,
        formula: tallymark.service.runs.Formula | None = ...,
        suite: str | dict[str, typing.Any] | None = ...,
        preview: typing.Annotated[
            bool, msgspec.Meta(description="Show it and store nothing.")
        ] = ...,
    ) -> tallymark.service.runs.RescoredRun: ...
    async def compare(
        self,
        run: typing.Annotated[
            collections.abc.Sequence[tallymark.service.runs.RunId],
            msgspec.Meta(min_length=2, max_length=6),
        ],
        formula: tallymark.service.runs.Formula | None = ...,
        alpha: typing.Annotated[float, msgspec.Meta(ge=0.005, le=0.5)] = ...,
        tolerance: typing.Annotated[
            str,
            msgspec.Meta(
                max_length=40, description="Points of the score, or % of the first run's."
            ),
        ] = ...,
        strict: bool = ...,
    ) -> tallymark.service.runs.ComparedRuns: ...
    async def report_failed_gate(
        self,
        run: tallymark.service.runs.RunId,
        failures: typing.Annotated[
            collections.abc.Sequence[
                typing.Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
            ],
            msgspec.Meta(min_length=1, max_length=50),
        ],
    ) -> tallymark.service.runs.FailedGate: ...
    async def suites(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.runs.SuiteHistory]: ...
    def events(
        self, run: tallymark.service.runs.RunId, after: int | None = ...
    ) -> collections.abc.AsyncIterator[tallymark.service.operations.Event]: ...
