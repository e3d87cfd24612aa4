"""`AsyncRules`: what scores traces as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions
from tallymark.wire import rules as wire


class AsyncRules(AsyncResource):
    """What scores traces as they come; what a rule says is as in `RuleVersion`."""

    async def add(
        self, name: str, rule: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> wire.Rule:
        """Makes a rule; it scores what comes from now on."""
        body = {**rule, "name": name}
        return (await self._ask(wire.OneRule, "POST", "rules", body=body, **options)).rule

    async def edit(
        self, name: str, rule: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> wire.Rule:
        """Makes a new version, which counts from now on: what older ones scored stays."""
        path = ("rules", name, "versions")
        return (await self._ask(wire.OneRule, "POST", *path, body=rule, **options)).rule

    async def try_out(
        self, rule: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> wire.TriedRule:
        """What a rule would make of the newest traces; nothing is stored, and no model asked."""
        return await self._ask(wire.TriedRule, "POST", "rules", "check", body=rule, **options)

    def list(self, **options: Unpack[CallOptions]) -> AsyncIterator[wire.Rule]:
        """Rules by name, each with what it decided and spent."""
        return self._page(wire.Rule, "rules", **options)

    async def get(self, name: str, **options: Unpack[CallOptions]) -> wire.WholeRule:
        """A rule with its versions and backfills."""
        return (await self._ask(wire.OneWholeRule, "GET", "rules", name, **options)).rule

    async def pause(self, name: str, **options: Unpack[CallOptions]) -> wire.Rule:
        """Neither looks nor scores until it is resumed."""
        return (await self._ask(wire.OneRule, "POST", "rules", name, "pause", **options)).rule

    async def resume(self, name: str, **options: Unpack[CallOptions]) -> wire.Rule:
        """Goes on, first with what still waits."""
        return (await self._ask(wire.OneRule, "POST", "rules", name, "resume", **options)).rule

    async def remove(self, name: str, **options: Unpack[CallOptions]) -> wire.Rule:
        """Ends a rule for good: its scores and decisions stay, and its name is free."""
        return (await self._ask(wire.OneRule, "DELETE", "rules", name, **options)).rule

    def decisions(
        self,
        name: str,
        *,
        decision: str | None = None,
        trace: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.RuleDecision]:
        """What it decided of each trace and why, newest first."""
        path, params = ("rules", name, "decisions"), {"decision": decision, "trace": trace}
        return self._page(wire.RuleDecision, *path, limit=limit, params=params, **options)

    async def spending(
        self, name: str, *, since: str | None = None, **options: Unpack[CallOptions]
    ) -> wire.RuleSpending:
        """What it decided and what its judges cost, day by day, since a day such as 2026-01-31."""
        path, params = ("rules", name, "spending"), {"since": since}
        return await self._ask(wire.RuleSpending, "GET", *path, params=params, **options)

    async def backfill(
        self,
        name: str,
        since: float,
        until: float,
        *,
        preview: bool = False,
        **options: Unpack[CallOptions],
    ) -> wire.OneBackfill:
        """Scores kept traces of a span of time; a preview only says what that would come to."""
        path, params = ("rules", name, "backfill"), {"preview": preview}
        body = {"since": since, "until": until}
        return await self._ask(wire.OneBackfill, "POST", *path, params=params, body=body, **options)

    def backfills(self, name: str, **options: Unpack[CallOptions]) -> AsyncIterator[wire.Backfill]:
        """Backfills of a rule, newest first, and how far each is."""
        return self._page(wire.Backfill, "rules", name, "backfills", **options)

    async def get_backfill(
        self, name: str, number: int, **options: Unpack[CallOptions]
    ) -> wire.Backfill:
        """How far a backfill is."""
        path = ("rules", name, "backfills", str(number))
        return (await self._ask(wire.FoundBackfill, "GET", *path, **options)).backfill
