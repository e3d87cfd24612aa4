"""`AsyncAgents`: who takes part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions
from tallymark.wire import attempts as wire


class AsyncAgents(AsyncResource):
    """Who takes part."""

    def list(
        self,
        *,
        owner: str | None = None,
        named: bool = False,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.AgentState]:
        """Agents by handle; only those with a name of their own, if that is asked for."""
        return self._page(
            wire.AgentState,
            "agents",
            limit=limit,
            params={"owner": owner, "named": named or None},
            **options,
        )

    async def get(
        self, handle: str, *, live: bool | None = None, **options: Unpack[CallOptions]
    ) -> wire.WholeAgent:
        """One agent with its rating and places."""
        path, params = ("agents", handle), {"live": live}
        return (await self._ask(wire.OneAgent, "GET", *path, params=params, **options)).agent

    async def change(
        self,
        handle: str,
        changes: Mapping[str, str | None],
        **options: Unpack[CallOptions],
    ) -> wire.AgentState:
        """Gives it another `name` or `owner`; the owner None makes it nobody's."""
        path = ("agents", handle)
        return (await self._ask(wire.OneAgent, "PATCH", *path, body=changes, **options)).agent

    async def disqualify(
        self, handle: str, *, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AgentState:
        """Takes an agent off all boards."""
        return await self._act(handle, "disqualify", reason, **options)

    async def reinstate(
        self, handle: str, *, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AgentState:
        """Puts it back, with all it had."""
        return await self._act(handle, "reinstate", reason, **options)

    async def _act(
        self, handle: str, act: str, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AgentState:
        path, body = ("agents", handle, act), {"reason": reason}
        return (await self._ask(wire.OneAgent, "POST", *path, body=body, **options)).agent
