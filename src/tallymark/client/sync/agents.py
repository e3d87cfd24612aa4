"""`Agents`: who takes part."""

# Written by `make client` from client/aio/agents.py: change that one.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Unpack

from tallymark.client.exchange import CallOptions
from tallymark.client.sync.resource import Resource
from tallymark.wire import attempts as wire


class Agents(Resource):
    """Who takes part."""

    def list(
        self,
        *,
        owner: str | None = None,
        named: bool = False,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[wire.AgentState]:
        """Agents by handle; only those with a name of their own, if that is asked for."""
        return self._page(
            wire.AgentState,
            "agents",
            limit=limit,
            params={"owner": owner, "named": named or None},
            **options,
        )

    def get(
        self, handle: str, *, live: bool | None = None, **options: Unpack[CallOptions]
    ) -> wire.WholeAgent:
        """One agent with its rating and places."""
        path, params = ("agents", handle), {"live": live}
        return (self._ask(wire.OneAgent, "GET", *path, params=params, **options)).agent

    def change(
        self,
        handle: str,
        changes: Mapping[str, str | None],
        **options: Unpack[CallOptions],
    ) -> wire.AgentState:
        """Gives it another `name` or `owner`; the owner None makes it nobody's."""
        path = ("agents", handle)
        return (self._ask(wire.OneAgent, "PATCH", *path, body=changes, **options)).agent

    def disqualify(
        self, handle: str, *, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AgentState:
        """Takes an agent off all boards."""
        return self._act(handle, "disqualify", reason, **options)

    def reinstate(
        self, handle: str, *, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AgentState:
        """Puts it back, with all it had."""
        return self._act(handle, "reinstate", reason, **options)

    def _act(
        self, handle: str, act: str, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AgentState:
        path, body = ("agents", handle, act), {"reason": reason}
        return (self._ask(wire.OneAgent, "POST", *path, body=body, **options)).agent
