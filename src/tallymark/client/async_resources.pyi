# Written by `make client` from the operations in service/: change those.
import typing

import msgspec

import tallymark.challenges.tracks
import tallymark.service.cursors
import tallymark.service.operations
import tallymark.service.rule_definitions
import tallymark.service.rules
import tallymark.service.tracks
import tallymark.service.visibility
import tallymark.service.webhooks
import tallymark.store.webhooks.deliveries
import tallymark.store.webhooks.webhooks

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
        live: tallymark.service.visibility.Live = ...,
    ) -> tallymark.service.tracks.TrackBoard: ...

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
    ) -> tallymark.service.operations.Page[tallymark.store.webhooks.webhooks.Webhook]: ...
    async def get(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.store.webhooks.webhooks.Webhook: ...
    async def pause(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.store.webhooks.webhooks.Webhook: ...
    async def resume(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.store.webhooks.webhooks.Webhook: ...
    async def rotate(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.service.webhooks.NewWebhook: ...
    async def remove(
        self, webhook: tallymark.service.webhooks.Id
    ) -> tallymark.store.webhooks.webhooks.Webhook: ...
    async def ping(self, webhook: tallymark.service.webhooks.Id) -> int: ...
    async def deliveries(
        self,
        webhook: tallymark.service.webhooks.Id,
        state: tallymark.store.webhooks.deliveries.DeliveryState | None = ...,
        limit: tallymark.service.cursors.Limit = ...,
        cursor: tallymark.service.cursors.Cursor | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.store.webhooks.deliveries.Delivery]: ...
    async def replay(
        self, webhook: tallymark.service.webhooks.Id, delivery: tallymark.service.webhooks.Id
    ) -> tallymark.store.webhooks.deliveries.Delivery: ...
    async def tell_gate(
        self, run: tallymark.service.webhooks.Id, failures: tallymark.service.webhooks.Failures
    ) -> int: ...
