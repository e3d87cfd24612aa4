# Written by `make client` from the operations in service/: change those.
import msgspec
import tallymark.runs.reviews
import tallymark.service.cursors
import tallymark.service.operations
import tallymark.service.reviews
import tallymark.service.rule_definitions
import tallymark.service.rules
import typing

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
