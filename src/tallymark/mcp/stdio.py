"""Tools on standard input and output, of a local store or of a server."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.types import INTERNAL_ERROR

from tallymark.challenges.agent_names import check_handle
from tallymark.client import AsyncClient
from tallymark.client.addresses import Address
from tallymark.client.exchange import describe_failure, find_wait, read_refusal
from tallymark.errors import TallymarkError
from tallymark.mcp.endpoint import PATH
from tallymark.mcp.tools import TOOLS, make_tool_server
from tallymark.service.callers import Caller

if TYPE_CHECKING:
    from tallymark.service.service import Service

_TIMEOUT_S = 90.0
"""The server waits 30 s for a submission or a suite."""
_KEY = "idempotency_key"
_WITH_KEY = frozenset(each.name for each in TOOLS if _KEY in each.parameters["properties"])


def serve_own(service: Service, agent: str | None) -> None:
    """Serve the tools of a local store until standard input ends.

    With `agent`, calls see what that agent's key would show; otherwise everything.
    """
    caller = Caller(service.app.tenant, "admin", "owner")
    if agent is not None:
        check_handle(agent)
        caller = Caller(service.app.tenant, "agent", agent, agent=agent)
    service.open(create=True)
    try:
        anyio.run(make_tool_server(service, caller).run_stdio_async)
    finally:
        service.close()


def serve_remote(address: str, key: str) -> None:
    """Serve the tools of a server, for clients that can only start a program."""
    anyio.run(_forward, address.rstrip("/"), key)


async def _forward(address: str, key: str) -> None:
    async with AsyncClient(address, key) as known:
        await known.accounts.me()  # before anything is served: a client would show no reason
    async with (
        httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"},
            timeout=_TIMEOUT_S,
            transport=PatientTransport(Address(url=address)),
        ) as client,
        streamable_http_client(address + PATH, http_client=client) as (heard, told),
        stdio_server() as (asked, answered),
        anyio.create_task_group() as group,
    ):
        group.start_soon(_pass_on, heard, answered)
        async with answered:  # as long as it is open, standard output waits for more
            await _pass_on(asked, told)
            group.cancel_scope.cancel()


async def _pass_on(source: Any, target: Any) -> None:
    async for message in source:
        if not isinstance(message, Exception):
            give_key(message.message)
            await target.send(message)


def give_key(message: Any) -> None:
    """Add an idempotency key to a call that changes something, so that a retry runs it once."""
    called = getattr(message, "params", None)
    if getattr(message, "method", None) != "tools/call" or not isinstance(called, dict):
        return
    given = called.get("arguments")
    if called.get("name") in _WITH_KEY and isinstance(given, dict | None):
        called["arguments"] = {_KEY: secrets.token_hex(16), **(given or {})}


class PatientTransport(httpx2.AsyncBaseTransport):
    """Repeats lost requests; a final failure becomes a JSON-RPC error of one sentence."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return a complete answer; a truncated one is requested again."""
        await request.aread()
        tries = 0
        while True:
            tries += 1
            answer, failed = None, None
            try:
                answer = await self._inner.handle_async_request(request)
                await answer.aread()
            except httpx2.TransportError as error:
                answer, failed = None, error
            wait = None
            if answer is None or answer.status_code >= HTTPStatus.BAD_REQUEST:
                wait = find_wait(answer, tries)
            if wait is not None:
                await anyio.sleep(wait)
            elif answer is None:
                assert failed is not None  # noqa: S101 (for the type checker)
                return _tell_failure(describe_failure(self._address, failed, tries))
            elif answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR or _is_ours(answer):
                return answer
            else:
                code, headers = answer.status_code, answer.headers
                return _tell_failure(read_refusal(code, headers, answer.content))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _is_ours(answer: httpx2.Response) -> bool:
    """Check for an answer of `/mcp` itself."""
    return b'"jsonrpc"' in answer.content[:200]


def _tell_failure(error: TallymarkError) -> httpx2.Response:
    told = {"code": INTERNAL_ERROR, "message": str(error)}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": told})
