# Written by `make client` from the operations in service/: change those.
import typing

import msgspec

import tallymark.service.audit
import tallymark.service.cursors
import tallymark.service.keys
import tallymark.service.operations
import tallymark.service.rule_definitions
import tallymark.service.rules
import tallymark.service.server_limits
import tallymark.service.webhooks
import tallymark.store.accounts.invitations
import tallymark.store.accounts.keys
import tallymark.store.accounts.tenants
import tallymark.store.contests.audit_log
import tallymark.store.webhooks.deliveries
import tallymark.store.webhooks.webhooks

class AsyncAccounts:
    async def me(self) -> tallymark.service.keys.Account: ...
    async def register(
        self, agent: tallymark.service.keys.Handle, owner: tallymark.service.keys.Owner | None = ...
    ) -> tallymark.service.keys.NewKey: ...

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
    ) -> tallymark.service.operations.Page[tallymark.store.contests.audit_log.LogEntry]: ...

class AsyncInvitations:
    async def list(
        self,
    ) -> tallymark.service.operations.Page[tallymark.store.accounts.invitations.Invitation]: ...
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
    ) -> tallymark.store.accounts.invitations.Invitation: ...
    async def accept(
        self,
        code: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=200)],
        owner: tallymark.service.keys.Owner | None = ...,
        agent: tallymark.service.keys.Handle | None = ...,
        secret: tallymark.service.keys.OwnSecret | None = ...,
    ) -> tallymark.service.keys.NewKey: ...

class AsyncKeys:
    async def list(
        self,
        owner: tallymark.service.keys.Owner | None = ...,
        agent: tallymark.service.keys.Handle | None = ...,
    ) -> tallymark.service.operations.Page[tallymark.store.accounts.keys.Key]: ...
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
    async def revoke(self, key: tallymark.service.keys.Id) -> tallymark.store.accounts.keys.Key: ...

class AsyncLimits:
    async def get(self) -> tallymark.service.server_limits.ServerLimits: ...

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

class AsyncTenants:
    async def list(
        self,
    ) -> tallymark.service.operations.Page[tallymark.store.accounts.tenants.Tenant]: ...
    async def get(
        self, name: tallymark.service.keys.Id
    ) -> tallymark.store.accounts.tenants.Tenant: ...
    async def add(
        self,
        name: tallymark.service.keys.Id,
        settings: tallymark.service.keys.Settings | None = ...,
    ) -> tallymark.service.keys.NewKey: ...
    async def change(
        self, name: tallymark.service.keys.Id, settings: tallymark.service.keys.Settings
    ) -> tallymark.store.accounts.tenants.Tenant: ...

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
