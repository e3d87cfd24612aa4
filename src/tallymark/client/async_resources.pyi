# Written by `make client` from the operations in service/: change those.
# ruff: noqa: I001
import collections.abc
import msgspec
import tallymark.challenges.attempt
import tallymark.challenges.challenge
import tallymark.challenges.challenge_report
import tallymark.challenges.kept_submission
import tallymark.challenges.tracks
import tallymark.challenges.versus.pairings
import tallymark.challenges.versus.standings
import tallymark.runs.record
import tallymark.runs.reviews
import tallymark.service.agents
import tallymark.service.attempts
import tallymark.service.audit
import tallymark.service.boards
import tallymark.service.challenges
import tallymark.service.cursors
import tallymark.service.exports
import tallymark.service.formulas
import tallymark.service.jobs
import tallymark.service.keys
import tallymark.service.limits
import tallymark.service.operations
import tallymark.service.ratings
import tallymark.service.reports
import tallymark.service.reviews
import tallymark.service.rule_definitions
import tallymark.service.rules
import tallymark.service.runs
import tallymark.service.server_limits
import tallymark.service.suite_variables
import tallymark.service.traces
import tallymark.service.tracks
import tallymark.service.versus
import tallymark.service.visibility
import tallymark.service.webhooks
import typing

class AsyncAccounts:
    async def me(self) -> tallymark.service.keys.Account: ...
    async def register(
        self, agent: tallymark.service.keys.Handle, owner: tallymark.service.keys.Owner | None = ...
    ) -> tallymark.service.keys.NewKey: ...

class AsyncAgents:
    async def list(
        self,
        owner: tallymark.service.keys.Owner | None = ...,
        named: typing.Annotated[
            bool, msgspec.Meta(description="Only those shown by another name than their handle.")
        ] = ...,
        handle: tallymark.service.agents.Handles = ...,
        text: tallymark.service.agents.Text | None = ...,
        disqualified: bool | None = ...,
        live: tallymark.service.visibility.Live = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.agents.Agent]: ...
    async def get(
        self, handle: tallymark.service.agents.Handle, live: tallymark.service.visibility.Live = ...
    ) -> tallymark.service.agents.Agent: ...
    async def change(
        self,
        handle: tallymark.service.agents.Handle,
        name: typing.Annotated[
            str, msgspec.Meta(min_length=1, max_length=200, description="As boards show it.")
        ]
        | None = ...,
        owner: typing.Annotated[
            tallymark.service.keys.Owner | msgspec.UnsetType | None,
            msgspec.Meta(description="Null: no owner."),
        ] = ...,
    ) -> tallymark.service.agents.Agent: ...
    async def disqualify(
        self, handle: tallymark.service.agents.Handle, reason: tallymark.service.agents.Reason
    ) -> tallymark.service.agents.Agent: ...
    async def reinstate(
        self, handle: tallymark.service.agents.Handle, reason: tallymark.service.agents.Reason
    ) -> tallymark.service.agents.Agent: ...
    async def rivals(
        self,
        handle: tallymark.service.agents.Handle,
        live: tallymark.service.visibility.Live = ...,
        limit: typing.Annotated[int, msgspec.Meta(ge=1, le=100)] = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.agents.Rival]: ...
    async def compare(
        self,
        handle: tallymark.service.agents.Handle,
        other: tallymark.service.agents.Handle,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.agents.HeadToHead: ...

class AsyncAttempts:
    async def enter(
        self,
        challenge: tallymark.service.attempts.Name,
        agent: tallymark.service.attempts.Handle | None = ...,
        memoryless: typing.Annotated[
            bool, msgspec.Meta(description="The agent remembers nothing of earlier attempts.")
        ] = ...,
        attempt: typing.Annotated[
            tallymark.service.attempts.AttemptId,
            msgspec.Meta(description="Only this open attempt, once more: none is begun."),
        ]
        | None = ...,
        idempotency_key: str | None = ...,
    ) -> tallymark.service.attempts.EnteredAttempt: ...
    async def list(
        self,
        challenge: tallymark.service.attempts.Name,
        agent: typing.Annotated[str, msgspec.Meta(max_length=40)] | None = ...,
        state: tallymark.challenges.attempt.State | None = ...,
        live: tallymark.service.visibility.Live = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.attempts.AttemptRecord]: ...
    async def get(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.attempts.AttemptDetails: ...
    async def token(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        agent: tallymark.service.attempts.Handle | None = ...,
    ) -> tallymark.service.attempts.AttemptToken: ...
    async def form(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        agent: tallymark.service.attempts.Handle | None = ...,
    ) -> tallymark.service.attempts.AnswerForm: ...
    async def submit(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        answer: tallymark.service.attempts.Answer,
        metadata: tallymark.service.attempts.Claims = ...,
        trajectory: tallymark.service.attempts.Trajectory = ...,
        agent: tallymark.service.attempts.Handle | None = ...,
        wait: typing.Annotated[
            bool,
            msgspec.Meta(description="False: do not wait up to 30 s for a score that takes long."),
        ] = ...,
        idempotency_key: str | None = ...,
    ) -> tallymark.service.attempts.SubmittedAttempt: ...
    async def check(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        answer: tallymark.service.attempts.Answer,
        metadata: tallymark.service.attempts.Claims = ...,
        trajectory: tallymark.service.attempts.Trajectory = ...,
        agent: tallymark.service.attempts.Handle | None = ...,
    ) -> tallymark.service.attempts.CheckedAnswer: ...
    async def submission(
        self, attempt: tallymark.service.attempts.AttemptId
    ) -> tallymark.challenges.kept_submission.KeptSubmission: ...
    async def withdraw(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        agent: tallymark.service.attempts.Handle | None = ...,
        reason: tallymark.service.attempts.Reason | None = ...,
    ) -> tallymark.service.attempts.AttemptRecord: ...
    async def void(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        reason: tallymark.service.attempts.Reason,
    ) -> tallymark.service.attempts.AttemptRecord: ...
    async def unvoid(
        self,
        attempt: tallymark.service.attempts.AttemptId,
        reason: tallymark.service.attempts.Reason,
    ) -> tallymark.service.attempts.AttemptRecord: ...

class AsyncAudit:
    async def list(
        self,
        challenge: tallymark.service.audit.Name | None = ...,
        agent: typing.Annotated[str, msgspec.Meta(max_length=40)] | None = ...,
        actor: tallymark.service.audit.Name | None = ...,
        event: typing.Annotated[str, msgspec.Meta(max_length=40)] | None = ...,
        since: tallymark.service.audit.Moment | None = ...,
        until: tallymark.service.audit.Moment | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.audit.LogEntry]: ...

class AsyncBoards:
    async def get(
        self,
        name: tallymark.service.boards.Name,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
        around: tallymark.service.boards.Around | None = ...,
        each: tallymark.service.boards.Neighbours = ...,
        side: tallymark.service.boards.Side | None = ...,
        text: tallymark.service.boards.Text | None = ...,
        details: tallymark.service.boards.Details = ...,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.boards.Board: ...
    async def what_if(
        self,
        name: tallymark.service.boards.Name,
        formula: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] | None = ...,
        weights: dict[str, float] | None = ...,
        config: dict[str, typing.Any] | None = ...,
        around: tallymark.service.boards.Around | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.boards.WhatIfBoard: ...
    async def history(
        self, name: tallymark.service.boards.Name, live: tallymark.service.visibility.Live = ...
    ) -> tallymark.service.boards.BoardHistory: ...
    def events(
        self, name: tallymark.service.boards.Name, after: int | None = ...
    ) -> collections.abc.AsyncIterator[tallymark.service.operations.Event]: ...

class AsyncChallenges:
    async def publish(
        self,
        packed: bytes,
        force: tallymark.service.challenges.Force = ...,
        based_on: tallymark.service.challenges.BasedOn | None = ...,
    ) -> tallymark.service.challenges.Challenge: ...
    async def add(
        self,
        name: tallymark.service.challenges.Name,
        title: typing.Annotated[str, msgspec.Meta(max_length=500)] | None = ...,
        goal: typing.Annotated[str, msgspec.Meta(max_length=100000)] = ...,
        difficulty: tallymark.challenges.challenge.Tier = ...,
        visibility: tallymark.challenges.challenge.Visibility = ...,
        scoring_strategy: tallymark.challenges.challenge.StrategyName = ...,
        scoring_plugin_id: str | None = ...,
        scoring_entrypoint: str | None = ...,
        scoring_config: dict[str, typing.Any] | None = ...,
        scoring_formula: tallymark.service.challenges.Formula | None = ...,
        metrics: tallymark.service.challenges.Metrics | None = ...,
        attempts: typing.Annotated[int, msgspec.Meta(ge=1)] | None = ...,
        attempts_per_day: typing.Annotated[int, msgspec.Meta(ge=1)] | None = ...,
        force: tallymark.service.challenges.Force = ...,
        based_on: tallymark.service.challenges.BasedOn | None = ...,
    ) -> tallymark.service.challenges.Challenge: ...
    async def check(
        self, packed: bytes
    ) -> tallymark.challenges.challenge_report.ChallengeReport: ...
    async def list(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.challenges.Challenge]: ...
    async def get(
        self, name: tallymark.service.challenges.Name
    ) -> tallymark.service.challenges.Challenge: ...
    async def change(
        self,
        name: tallymark.service.challenges.Name,
        reason: tallymark.service.challenges.Reason,
        closed: bool | None = ...,
        frozen: bool | None = ...,
        visibility: tallymark.challenges.challenge.Visibility | None = ...,
        new_name: typing.Annotated[str, msgspec.Meta(description="Its new name and address.")]
        | None = ...,
    ) -> tallymark.service.challenges.Challenge: ...
    async def delete(
        self, name: tallymark.service.challenges.Name, reason: tallymark.service.challenges.Reason
    ) -> tallymark.service.challenges.Challenge: ...
    async def files(
        self,
        name: tallymark.service.challenges.Name,
        version: typing.Annotated[str, msgspec.Meta(max_length=64)] | None = ...,
    ) -> tallymark.service.challenges.ChallengeFiles: ...
    async def rescore(
        self,
        name: tallymark.service.challenges.Name,
        strategy: tallymark.challenges.challenge.StrategyName | None = ...,
        plugin: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = ...,
        formula: tallymark.service.challenges.Formula | None = ...,
        config: dict[str, typing.Any] | None = ...,
        weights: dict[str, float] | None = ...,
        preview: tallymark.service.challenges.Preview = ...,
        reason: typing.Annotated[str, msgspec.Meta(max_length=2000)] | None = ...,
        based_on: tallymark.service.challenges.BasedOn | None = ...,
        queue: tallymark.service.challenges.Queue = ...,
    ) -> tallymark.service.challenges.Rescored: ...
    async def rescore_files(
        self,
        name: tallymark.service.challenges.Name,
        packed: bytes,
        preview: tallymark.service.challenges.Preview = ...,
        reason: typing.Annotated[str, msgspec.Meta(max_length=2000)] | None = ...,
        based_on: tallymark.service.challenges.BasedOn | None = ...,
        queue: tallymark.service.challenges.Queue = ...,
    ) -> tallymark.service.challenges.Rescored: ...
    async def waiting(
        self,
        challenge: tallymark.service.challenges.Name | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.challenges.WaitingAttempts: ...
    async def count_attempts(self, name: tallymark.service.challenges.Name) -> int: ...
    async def pauses(
        self,
        challenge: tallymark.service.challenges.Name | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.challenges.challenge.PluginPause]: ...
    async def resume(
        self,
        name: tallymark.service.challenges.Name,
        agent: tallymark.service.challenges.Handle | None = ...,
    ) -> tallymark.service.challenges.Resumed: ...

class AsyncExports:
    def rows(
        self,
        kind: tallymark.service.exports.ExportKind,
        run: str | None = ...,
        challenge: str | None = ...,
        filter: str = ...,
        live: bool | None = ...,
    ) -> collections.abc.AsyncIterator[dict[str, typing.Any]]: ...

class AsyncFormulas:
    async def check(
        self,
        formula: tallymark.service.formulas.Text,
        names: tallymark.service.formulas.EvalNames = ...,
    ) -> tallymark.service.formulas.FormulaCheck: ...
    async def explain(
        self,
        formula: tallymark.service.formulas.Text,
        values: tallymark.service.formulas.Values = ...,
    ) -> tallymark.service.formulas.FormulaExplanation: ...

class AsyncInvitations:
    async def list(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.keys.Invitation]: ...
    async def add(
        self,
        role: tallymark.service.keys.KeyRole = ...,
        owner: tallymark.service.keys.Owner | None = ...,
        uses: typing.Annotated[int, msgspec.Meta(ge=1, le=10000)] = ...,
        expires_in_s: typing.Annotated[
            float, msgspec.Meta(gt=0, le=365 * 86400, description="Else 14 days.")
        ]
        | None = ...,
    ) -> tallymark.service.keys.NewInvitation: ...
    async def revoke(
        self, invitation: tallymark.service.keys.Id
    ) -> tallymark.service.keys.Invitation: ...
    async def accept(
        self,
        code: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=200)],
        owner: tallymark.service.keys.Owner | None = ...,
        agent: tallymark.service.keys.Handle | None = ...,
        secret: tallymark.service.keys.OwnSecret | None = ...,
    ) -> tallymark.service.keys.NewKey: ...

class AsyncJobs:
    async def list(
        self,
        state: tallymark.service.jobs.JobState | None = ...,
        kind: typing.Annotated[str, msgspec.Meta(max_length=40)] | None = ...,
        subject: typing.Annotated[str, msgspec.Meta(max_length=1000)] | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.jobs.Job]: ...
    async def get(self, job: tallymark.service.jobs.Id) -> tallymark.service.jobs.Job: ...
    async def cancel(self, job: tallymark.service.jobs.Id) -> tallymark.service.jobs.Job: ...
    async def retry(self, job: tallymark.service.jobs.Id) -> tallymark.service.jobs.Job: ...

class AsyncKeys:
    async def list(
        self,
        owner: tallymark.service.keys.Owner | None = ...,
        agent: tallymark.service.keys.Handle | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.keys.Key]: ...
    async def add(
        self,
        name: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=100, examples=["ci"])],
        role: tallymark.service.keys.KeyRole = ...,
        agent: tallymark.service.keys.Handle | None = ...,
        owner: tallymark.service.keys.Owner | None = ...,
        expires_in_s: tallymark.service.keys.Seconds | None = ...,
    ) -> tallymark.service.keys.NewKey: ...
    async def rotate(
        self,
        key: tallymark.service.keys.Id,
        overlap_s: tallymark.service.keys.Overlap = ...,
        expires_in_s: typing.Annotated[
            float, msgspec.Meta(gt=0, description="From now on; else it expires with the old one.")
        ]
        | None = ...,
    ) -> tallymark.service.keys.NewKey: ...
    async def revoke(self, key: tallymark.service.keys.Id) -> tallymark.service.keys.Key: ...

class AsyncLimits:
    async def get(self) -> tallymark.service.server_limits.ServerLimits: ...

class AsyncRatings:
    async def list(
        self,
        k: tallymark.service.ratings.K = ...,
        sort: tallymark.service.ratings.Sort = ...,
        live: tallymark.service.visibility.Live = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.ratings.RatingPage: ...
    async def challenges(
        self,
        live: tallymark.service.visibility.Live = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.ratings.Difficulty]: ...
    async def get(
        self,
        agent: tallymark.service.ratings.Handle,
        k: tallymark.service.ratings.K = ...,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.ratings.RatingDetails: ...

class AsyncReports:
    async def send(
        self,
        name: str,
        agent: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=200)],
        metrics: typing.Annotated[
            dict[str, typing.Any],
            msgspec.Meta(
                description="Numbers and truth values: `succeeded`, `tokens_total`, `elapsed_ms`, `rating`, `created_at` (milliseconds since 1970), `cost`, `calls`, and those that the challenge declares.",
                examples=[{"succeeded": True, "tokens_total": 1200}],
            ),
        ],
        key: tallymark.service.reports.Key | None = ...,
        idempotency_key: str | None = ...,
    ) -> tallymark.service.attempts.SubmittedAttempt: ...
    async def send_many(
        self,
        name: str,
        lines: tallymark.service.limits.Lines,
        atomic: typing.Annotated[bool, msgspec.Meta(description="All lines or none.")] = ...,
        idempotency_key: str | None = ...,
    ) -> tallymark.service.reports.ReportedLines: ...

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
                description="A finished run, as `tally run --json` prints it: record and `results`. With an id of your own in `keep_as`, it can be sent again, or in parts: `more` means that others follow."
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
    async def suites(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.runs.SuiteHistory]: ...
    def events(
        self, run: tallymark.service.runs.RunId, after: int | None = ...
    ) -> collections.abc.AsyncIterator[tallymark.service.operations.Event]: ...

class AsyncScores:
    async def list(
        self,
        run: tallymark.service.reviews.RunName | None = ...,
        case: tallymark.service.reviews.CaseName | None = ...,
        epoch: tallymark.service.reviews.Epoch | None = ...,
        name: tallymark.service.reviews.ScoreName | None = ...,
        author: typing.Annotated[str, msgspec.Meta(max_length=200)] | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.runs.reviews.Review]: ...
    async def give(
        self,
        run: tallymark.service.reviews.RunName,
        case: tallymark.service.reviews.CaseName,
        value: tallymark.service.reviews.Value | None = ...,
        label: tallymark.service.reviews.Label | None = ...,
        comment: tallymark.service.reviews.Comment = ...,
        name: tallymark.service.reviews.ScoreName = ...,
        epoch: tallymark.service.reviews.Epoch = ...,
    ) -> tallymark.runs.reviews.Review: ...
    async def change(
        self,
        score: tallymark.service.reviews.Identifier,
        value: tallymark.service.reviews.Value | None = ...,
        label: tallymark.service.reviews.Label | None = ...,
        comment: tallymark.service.reviews.Comment = ...,
    ) -> tallymark.runs.reviews.Review: ...
    async def withdraw(
        self, score: tallymark.service.reviews.Identifier
    ) -> tallymark.runs.reviews.Review: ...
    async def queue(
        self,
        show: tallymark.service.reviews.Shown = ...,
        run: tallymark.service.reviews.RunName | None = ...,
        name: tallymark.service.reviews.ScoreName = ...,
        limit: typing.Annotated[int, msgspec.Meta(ge=1, le=200)] = ...,
        newest: typing.Annotated[
            int, msgspec.Meta(ge=1, le=tallymark.service.reviews.MOST_REVIEWS)
        ] = ...,
    ) -> tallymark.service.reviews.ReviewQueue: ...
    async def case(
        self,
        run: tallymark.service.reviews.RunName,
        case: tallymark.service.reviews.CaseName,
        epoch: tallymark.service.reviews.Epoch = ...,
    ) -> tallymark.service.reviews.ReviewCaseDetails: ...

class AsyncSettings:
    async def vars(self) -> dict[str, str]: ...
    async def set_var(
        self,
        name: tallymark.service.suite_variables.Name,
        value: tallymark.service.suite_variables.VarValue,
    ) -> dict[str, str]: ...
    async def remove_var(self, name: tallymark.service.suite_variables.Name) -> dict[str, str]: ...
    async def secrets(self) -> list[str]: ...
    async def set_secret(
        self,
        name: tallymark.service.suite_variables.Name,
        value: tallymark.service.suite_variables.SecretValue,
    ) -> list[str]: ...
    async def remove_secret(self, name: tallymark.service.suite_variables.Name) -> list[str]: ...

class AsyncTenants:
    async def list(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.keys.Tenant]: ...
    async def get(self, name: tallymark.service.keys.Id) -> tallymark.service.keys.Tenant: ...
    async def add(
        self,
        name: tallymark.service.keys.Id,
        settings: tallymark.service.keys.Settings | None = ...,
    ) -> tallymark.service.keys.NewKey: ...
    async def change(
        self, name: tallymark.service.keys.Id, settings: tallymark.service.keys.Settings
    ) -> tallymark.service.keys.Tenant: ...

class AsyncTraces:
    async def list(
        self,
        filter: tallymark.service.traces.Filter = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.traces.TracePage: ...
    async def load(
        self, lines: tallymark.service.limits.Lines
    ) -> tallymark.service.traces.LoadedTraces: ...
    async def sums(
        self,
        filter: tallymark.service.traces.Filter = ...,
        by: typing.Annotated[
            str,
            msgspec.Meta(max_length=20, description="model, tool, version, service, session, ..."),
        ]
        | None = ...,
        every: typing.Annotated[
            str,
            msgspec.Meta(max_length=20, description="minute, hour, day, week, seconds, or auto."),
        ]
        | None = ...,
        measure: tallymark.service.traces.Measure | None = ...,
    ) -> tallymark.service.traces.TraceSummary: ...
    async def compare(
        self,
        first: tallymark.service.traces.Filter,
        second: tallymark.service.traces.Filter,
        measure: tallymark.service.traces.Measure,
    ) -> tallymark.service.traces.TraceComparison: ...
    async def worst(
        self,
        score: typing.Annotated[
            str, msgspec.Meta(min_length=1, max_length=100, description="Name of a score.")
        ],
        filter: tallymark.service.traces.Filter = ...,
        limit: tallymark.service.cursors.Limit = ...,
        best: typing.Annotated[bool, msgspec.Meta(description="List the highest instead.")] = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.traces.WorstTrace]: ...
    async def choices(self) -> tallymark.service.traces.TraceChoices: ...
    async def session(self, name: str) -> tallymark.service.traces.TraceSession: ...
    async def settings(self) -> tallymark.service.traces.TraceSettings: ...
    async def change_settings(
        self,
        quiet_s: typing.Annotated[float, msgspec.Meta(ge=0.1, le=86400)]
        | msgspec.UnsetType
        | None = ...,
        keep_days: typing.Annotated[float, msgspec.Meta(gt=0, le=36500)]
        | msgspec.UnsetType
        | None = ...,
        keep_mb: typing.Annotated[int, msgspec.Meta(ge=1, le=1000000000)]
        | msgspec.UnsetType
        | None = ...,
        redact_attributes: tallymark.service.traces.AttributeNames | msgspec.UnsetType | None = ...,
        redact_patterns: tallymark.service.traces.Patterns | msgspec.UnsetType | None = ...,
    ) -> tallymark.service.traces.TraceSettings: ...
    async def make_suite(
        self,
        filter: tallymark.service.traces.Filter = ...,
        traces: tallymark.service.traces.TraceIds | None = ...,
        name: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = ...,
        scorers: tallymark.service.traces.ScorerNames = ...,
        limit: tallymark.service.cursors.Limit = ...,
    ) -> tallymark.service.traces.TracedSuite: ...
    async def get(
        self,
        trace_id: tallymark.service.traces.TraceId,
        version: typing.Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = ...,
    ) -> tallymark.service.traces.TraceDetails: ...
    async def remove(self, trace_id: tallymark.service.traces.TraceId) -> None: ...
    async def score(
        self,
        trace_id: tallymark.service.traces.TraceId,
        name: tallymark.service.traces.ScoreName,
        value: typing.Annotated[float, msgspec.Meta(description="From 0 to 1.")] | None = ...,
        label: typing.Annotated[str, msgspec.Meta(max_length=200)] | None = ...,
        reason: typing.Annotated[str, msgspec.Meta(max_length=5000)] | None = ...,
        expected: typing.Annotated[
            str, msgspec.Meta(max_length=100000, description="The answer it should have given.")
        ]
        | None = ...,
    ) -> tallymark.service.traces.TraceScore: ...

class AsyncTracks:
    async def publish(
        self,
        name: tallymark.service.tracks.Name,
        challenges: tallymark.service.tracks.Names,
        title: tallymark.service.tracks.Title | None = ...,
        combine: tallymark.service.tracks.Combine = ...,
        missing: tallymark.challenges.tracks.Missing | None = ...,
    ) -> tallymark.challenges.tracks.Track: ...
    async def list(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.challenges.tracks.Track]: ...
    async def remove(
        self, name: tallymark.service.tracks.Name
    ) -> tallymark.challenges.tracks.Track: ...
    async def board(
        self,
        name: tallymark.service.tracks.Name,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
        around: tallymark.service.tracks.Around | None = ...,
        each: tallymark.service.tracks.Neighbours = ...,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.tracks.TrackBoard: ...
    async def suppose_board(
        self,
        name: tallymark.service.tracks.Name,
        challenges: tallymark.service.tracks.Names,
        title: tallymark.service.tracks.Title | None = ...,
        combine: tallymark.service.tracks.Combine = ...,
        missing: tallymark.challenges.tracks.Missing | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
        around: tallymark.service.tracks.Around | None = ...,
        each: tallymark.service.tracks.Neighbours = ...,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.tracks.TrackBoard: ...

class AsyncVersus:
    async def submit(
        self,
        name: tallymark.service.versus.Name,
        side: tallymark.service.versus.Side,
        answer: tallymark.service.versus.Answer,
        agent: tallymark.service.versus.Handle | None = ...,
    ) -> tallymark.service.versus.JudgedSubmission: ...
    async def settle(
        self,
        name: tallymark.service.versus.Name,
        again: typing.Annotated[
            bool, msgspec.Meta(description="Also what a judge tried and failed to judge.")
        ] = ...,
    ) -> tallymark.service.versus.SettledSides: ...
    async def list(
        self,
        name: tallymark.service.versus.Name,
        agent: tallymark.service.versus.Handle | None = ...,
        side: tallymark.service.versus.Side | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.challenges.versus.pairings.SideSubmission]: ...
    async def get(
        self, name: tallymark.service.versus.Name, submission: int
    ) -> tallymark.challenges.kept_submission.KeptSideSubmission: ...
    async def tallies(
        self,
        name: tallymark.service.versus.Name,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.operations.Page[tallymark.challenges.versus.standings.VersusTally]: ...

class AsyncWebhooks:
    async def add(
        self,
        url: tallymark.service.webhooks.Url,
        events: tallymark.service.webhooks.Events = ...,
        challenge: tallymark.service.webhooks.OnlyChallenge | None = ...,
        suite: tallymark.service.webhooks.OnlySuite | None = ...,
    ) -> tallymark.service.webhooks.NewWebhook: ...
    async def list(
        self,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.webhooks.Webhook]: ...
    async def get(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.Webhook: ...
    async def pause(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.Webhook: ...
    async def resume(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.Webhook: ...
    async def rotate(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.NewWebhook: ...
    async def remove(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.Webhook: ...
    async def ping(self, webhook: tallymark.service.webhooks.Id) -> int: ...
    async def deliveries(
        self,
        webhook: tallymark.service.webhooks.Id,
        state: tallymark.service.webhooks.DeliveryState | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.service.webhooks.Delivery]: ...
    async def replay(
        self, webhook: tallymark.service.webhooks.Id, delivery: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.Delivery: ...
    async def report_failed_gate(
        self, run: tallymark.service.webhooks.Id, failures: tallymark.service.webhooks.Failures
    ) -> int: ...
