# Written by `make client` from the operations in service/: change those.
import typing

import msgspec

import tallymark.service.cursors
import tallymark.service.operations
import tallymark.service.rule_definitions
import tallymark.service.rules

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
