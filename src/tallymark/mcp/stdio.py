"""Tools on standard input and output: of one's own store, or of a server elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server

from tallymark.app.callers import Caller
from tallymark.challenges.agent_names import check_handle
from tallymark.errors import NotSignedIn, WorkFailed
from tallymark.mcp.endpoint import PATH
from tallymark.mcp.tools import make_tool_server

if TYPE_CHECKING:
    from tallymark.app.service import Service

_TIMEOUT_S = 90.0
"""A submission or a suite is waited for 30 s by the server."""


def serve_own(service: Service, agent: str | None) -> None:
    """The tools of one's own store, until nobody writes any more.

    As an agent one sees what an agent's key would show; otherwise all, as the owner.
    """
    caller = Caller(service.app.tenant, "admin", "owner")
    if agent is not None:
        check_handle(agent)
        caller = Caller(service.app.tenant, "agent", agent, agent=agent)
    service.app.store.prepare()
    service.open()
    try:
        anyio.run(make_tool_server(service, caller).run_stdio_async)
    finally:
        service.close()


def serve_remote(address: str, key: str) -> None:
    """The tools of a server, for clients that know only how to start a program."""
    anyio.run(_forward, address.rstrip("/"), key)


async def _forward(address: str, key: str) -> None:
    async with httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {key}"}, timeout=_TIMEOUT_S
    ) as client:
        await _try_key(client, address)
        async with (
            streamable_http_client(address + PATH, http_client=client) as (heard, told),
            stdio_server() as (asked, answered),
            anyio.create_task_group() as group,
        ):
            group.start_soon(_pass_on, heard, answered)
            await _pass_on(asked, told)
            group.cancel_scope.cancel()


async def _try_key(client: httpx2.AsyncClient, address: str) -> None:
    """Before anything is served: a client would show no reason."""
    try:
        found = await client.get(f"{address}/api/v1/limits")
    except httpx2.HTTPError as error:
        raise WorkFailed(f"{address} cannot be reached: {error}", hint="check --server") from None
    if found.status_code == 401:
        raise NotSignedIn(f"{address} does not know this key", hint="check TALLY_KEY")


async def _pass_on(source: Any, target: Any) -> None:
    async for message in source:
        if not isinstance(message, Exception):
            await target.send(message)
