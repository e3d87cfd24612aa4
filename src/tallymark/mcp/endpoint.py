"""`/mcp`: stateless streamable HTTP, with the keys, limits and Host checks of the API.

The SDK takes a second to load, so it is loaded by the first request that needs it. There are
no sessions, so each request has its own session manager, which ends with it:
docs/decisions/0044-tools-without-sessions.md.
"""

from __future__ import annotations

from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tallymark.errors import Busy, NotAllowed, NotSignedIn, Problem, TallymarkError, TooMany
from tallymark.service.limits import narrow_body
from tallymark.service.problems import describe_problem
from tallymark.service.sign_in import find_caller
from tallymark.service.submissions import find_open_bytes

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from tallymark.mcp.tool_server import ToolServer
    from tallymark.service.service import Service

PATH = "/mcp"
SMALL_BYTES = 2_000_000
"""Largest body without a key; an agent may send as much as its open attempts allow."""
_STATUS: tuple[tuple[type[TallymarkError], int], ...] = (
    (NotSignedIn, 401),
    (NotAllowed, 403),
    (TooMany, 429),
    (Busy, 503),
)
_INVALID_REQUEST = -32600
_JSON = "application/json"
_ORIGINS = "TALLY_CORS_ORIGINS of the server names the sites whose pages may"
_ONE_MESSAGE = "the body is no message of JSON-RPC 2.0; send one object with jsonrpc, id and method"
_SEND_JSON = f"send Content-Type: {_JSON}, as the Model Context Protocol requires"


class Endpoint:
    """The ASGI application at `/mcp`, with bodies of at most `most_bytes`."""

    def __init__(self, service: Service, most_bytes: int) -> None:
        self._service = service
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await self._refuse(request)
        if answer is not None:
            await answer(scope, receive, send)
            return
        try:
            tools = await self._service.run_in_thread(scope["tally.caller"], lambda: self._tools)
        except Busy as error:
            await _refuse_caller(error)(scope, receive, send)
            return
        answer = _refuse_version(request.headers.get("mcp-protocol-version"))
        if answer is not None:
            await answer(scope, receive, send)
            return
        try:
            # Read it before the SDK does, whose task group would wrap a refusal.
            body = iter([await receive()])
        except HTTPException as error:  # the body is too large or cannot be decompressed
            told = _answer(error.status_code, error.detail, dict(error.headers or {}))
            await told(scope, receive, send)
            return

        async def receive_again() -> Message:
            return next(body, None) or await receive()

        await self._serve(tools, scope, receive_again, _say_plainly(send))

    @cached_property
    def _tools(self) -> ToolServer:
        from tallymark.mcp.tools import make_tool_server  # noqa: PLC0415 (it takes a second)

        return make_tool_server(self._service)

    async def _refuse(self, request: Request) -> Response | None:
        """Refuse a request before its body is read; None if it may go on."""
        if request.method != "POST":
            # GET would open a stream of messages, DELETE would end a session: there are neither.
            return _answer(
                405, "only POST is allowed here: there are no sessions", {"Allow": "POST"}
            )
        origin = request.headers.get("origin")
        if origin is not None and not self._is_known(origin, request.headers.get("host", "")):
            return _answer(403, f"a page of {origin!r} may not use these tools; {_ORIGINS}")
        try:
            caller = await find_caller(self._service, request)
            self._service.limits.check(caller, "read")
            if caller.role == "agent" and _may_be_large(request):
                tenant = self._service.tenant(caller.tenant)
                most = await self._service.run_in_thread(caller, find_open_bytes, tenant, caller)
                narrow_body(request.scope, most or SMALL_BYTES)
        except TallymarkError as error:
            return _refuse_caller(error)
        return _refuse_kind(request)

    def _is_known(self, origin: str, host: str) -> bool:
        """Check for an origin of this server, or one that the operator allows."""
        named = self._service.settings.cors
        return urlsplit(origin).netloc.lower() == host.lower() or origin in named or "*" in named

    async def _serve(self, tools: ToolServer, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

        known = scope["tally.caller"].role != "anonymous"
        tools.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=self._most if known else SMALL_BYTES,
            # The server's middleware has checked the Host header.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        manager = tools.session_manager
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _may_be_large(request: Request) -> bool:
    """Check if a body may be larger than any tool except submit_answer needs."""
    length = request.headers.get("content-length", "")
    plain = "content-encoding" not in request.headers
    return not (plain and length.isdigit() and len(length) < len(str(SMALL_BYTES)))


def _refuse_version(version: str | None) -> Response | None:
    """Refuse an unknown protocol version, of which the SDK would demand newer headers."""
    from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION  # noqa: PLC0415 (with the SDK)
    from mcp_types.version import KNOWN_PROTOCOL_VERSIONS  # noqa: PLC0415

    if version is None or version in KNOWN_PROTOCOL_VERSIONS:
        return None
    known = list(KNOWN_PROTOCOL_VERSIONS)
    error = {
        "code": UNSUPPORTED_PROTOCOL_VERSION,
        "message": f"the version {version[:40]!r} is not known; there is {', '.join(known)}",
        "data": {"supported": known, "requested": version[:40]},
    }
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)


def _say_plainly(send: Send) -> Send:
    """Replace the SDK's page-long validation error for a body that is no message."""
    held: list[Message] = []

    async def pass_on(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.BAD_REQUEST:
            held.append(message)
            return
        if held and b"Validation error:" in message.get("body", b""):
            body = _answer(400, _ONE_MESSAGE).body
            headers = MutableHeaders(raw=held[0]["headers"])
            headers["content-length"] = str(len(body))
            message = {"type": "http.response.body", "body": body}
        for each in (*held, message):
            await send(each)
        held.clear()

    return pass_on


def _refuse_kind(request: Request) -> Response | None:
    """Refuse other media types than JSON with a problem document, as the API does."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != _JSON:
        said = f"the body is {sent or 'of no named media type'}"
        return _tell_problem(request, 415, said, _SEND_JSON)
    accepted = request.headers.get("accept", "*/*").lower()
    if not any(each in accepted for each in (_JSON, "application/*", "*/*")):
        said = "the answer is JSON, which is not accepted"
        return _tell_problem(request, 406, said, f"send Accept: {_JSON}")
    return None


def _tell_problem(request: Request, status: int, message: str, hint: str) -> Response:
    request_id = str(request.scope.get("tally.request_id", "-"))
    problem = describe_problem(status, [Problem(message, None, hint)], request_id)
    return JSONResponse(problem, status, media_type="application/problem+json")


def _refuse_caller(error: TallymarkError) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 503)
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    if isinstance(error, TooMany | Busy):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return _answer(status, str(error), headers)


def _answer(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Make a refusal as a JSON-RPC error, whose message clients show."""
    error: dict[str, Any] = {"code": _INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
