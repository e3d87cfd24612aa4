"""`ApiRoute`: what happens to every request before its handler, in this order.

Who asks, whether they may, whether they ask too often, whether the body is of a kind that is read,
and whether the same was asked before under the same idempotency key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tallymark.errors import TallymarkError, WorkFailed
from tallymark.http.access import Allow, find_service
from tallymark.http.envelope import restore_slashes
from tallymark.http.problems import refuse
from tallymark.service.callers import Caller, Role, check_role
from tallymark.service.limits import RouteClass, narrow_body
from tallymark.service.sign_in import find_caller
from tallymark.store.accounts.idempotent_answers import KeptAnswer
from tallymark.store.actors import act_as
from tallymark.store.rehearsals import is_rehearsal, rehearse
from tallymark.wire.problems import Problem

_JSON = ("application/json",)
_LONGEST_KEY = 255
_REFUSALS = (TallymarkError, RequestValidationError, HTTPException)
_KEPT = ("content-type", "location", "cache-control")
_TRUE = {"1", "t", "true", "y", "yes", "on"}
"""As FastAPI reads a boolean."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in (
        (400, "The request cannot be read."),
        (401, "It needs a key."),
        (403, "This key may not."),
        (404, "It is not there."),
        (409, "It does not go with what was done before."),
        (413, "The body is too large."),
        (415, "The body is of another kind."),
        (422, "Something in it is wrong."),
        (429, "Too often."),
        (503, "It could not be done now."),
    )
}
"""What every route may answer besides what it says itself."""


class ApiRequest(Request):
    """A request whose JSON is read as strictly as everywhere else: no NaN, no repeated rules."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


_request: ContextVar[Request] = ContextVar("request")
"""The one that is being answered, whose caller's share of the threads its handler uses."""


class ApiRoute(APIRoute):
    """A route of the API; one that does not say who may use it is a mistake."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        if not iscoroutinefunction(endpoint):
            endpoint = _run_in_thread(endpoint)
        super().__init__(path, endpoint, **given)

    @property
    def allow(self) -> Allow:
        """Who may."""
        found = [each.dependency for each in self.dependencies]
        allowed = next((each for each in found if isinstance(each, Allow)), None)
        if allowed is None:
            raise TypeError(f"{self.path} does not say who may use it")
        return allowed

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which media types its body may have."""
        extra = self.openapi_extra or {}
        content = extra.get("requestBody", {}).get("content", {})
        return tuple(content) or _JSON

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        allow, kinds = self.allow, self.kinds
        own_keys = getattr(self.endpoint, "keeps_idempotency", False)
        no_keys = getattr(self.endpoint, "changes_nothing", False)
        find_most = getattr(self.endpoint, "find_bound", None)

        async def guard(request: Request) -> Response:
            request = ApiRequest(request.scope, request.receive)
            restore_slashes(request.scope)
            caller = await admit(request, allow.roles, allow.rate, allow.cost)
            if request.method in ("POST", "PUT", "PATCH"):
                _check_kind(request, kinds)
            _request.set(request)
            if find_most is not None:
                services = find_service(request).tenant(caller.tenant)
                names = request.path_params
                bound = await find_service(request).run_in_thread(
                    caller, partial(find_most, services, caller, **names)
                )
                request.state.bound = bound
                narrow_body(request.scope, bound.most_bytes)
            with act_as(caller.actor), rehearse(really=_asks_to_validate(request)):
                key = request.headers.get("idempotency-key")
                plain = own_keys or no_keys or is_rehearsal()
                if key is None or request.method == "GET" or plain:
                    return await handle(request)
                return await _answer_once(request, key, handle)

        return guard


def _run_in_thread(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """FastAPI would run it in a thread of the pool that all share, whoever asks."""

    @wraps(endpoint)
    async def run(**given: Any) -> Any:
        request = _request.get()
        service = find_service(request)
        return await service.run_in_thread(request.state.caller, partial(endpoint, **given))

    return run


async def admit(
    request: Request, roles: frozenset[Role], rate: RouteClass, cost: int = 1
) -> Caller:
    """Find the caller of a request, and refuse one who may not or asks too often."""
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise refuse(400, "the address holds a NUL character", "leave it out")
    service = find_service(request)
    caller = await find_caller(service, request)
    request.state.caller = caller
    check_role(caller, roles)
    service.limits.check(caller, rate, cost)
    return caller


def _asks_to_validate(request: Request) -> bool:
    asked = request.query_params.get("validate_only", "")
    return request.method != "GET" and asked.lower() in _TRUE


def make_router(tag: str) -> APIRouter:
    """A resource's routes."""
    return APIRouter(route_class=ApiRoute, tags=[tag], responses=PROBLEMS)


def keeps_idempotency(endpoint: Any) -> Any:
    """Marks a handler that gives the key to a service which obeys it in its own transaction."""
    endpoint.keeps_idempotency = True
    return endpoint


def changes_nothing(endpoint: Any) -> Any:
    """Marks a handler that only answers: under an idempotency key, nothing is kept for it."""
    endpoint.changes_nothing = True
    return endpoint


class BodyBound(NamedTuple):
    """How large a body may be, and what was read to find that out."""

    most_bytes: int
    found: Any = None


def bounds_body(find_bound: Callable[..., BodyBound]) -> Callable[[Any], Any]:
    """Marks a handler whose body has a bound of its own, found before it is read.

    `find_bound` is called with the tenant's services, the caller and the names in the path; the
    handler has its answer as `request.state.bound`.
    """

    def mark(endpoint: Any) -> Any:
        endpoint.find_bound = find_bound
        return endpoint

    return mark


def _check_kind(request: Request, kinds: tuple[str, ...]) -> None:
    sent = request.headers.get("content-type")
    kind = (sent or "").partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "")
    empty = length == "0" or (not length and "transfer-encoding" not in request.headers)
    if (sent is None and empty) or kind in kinds or (kind.endswith("+json") and _JSON[0] in kinds):
        return
    said = f"the body is {kind or 'of no kind that was named'}"
    raise refuse(415, said, f"send Content-Type: {' or '.join(kinds)}")


def check_key(key: str | None, longest: int = _LONGEST_KEY) -> str | None:
    """An idempotency key as it came; one that cannot be kept is refused."""
    if key is not None and not (0 < len(key) <= longest and key.isprintable()):
        hint = f"give 1 to {longest} characters"
        raise refuse(400, "Idempotency-Key: it cannot be used", hint)
    return key


async def _answer_once(
    request: Request, key: str, handle: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    """Done once however often it is sent; the same key for another request is a conflict."""
    check_key(key)
    service, caller = find_service(request), request.state.caller
    digest = hashlib.sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    digest.update(await request.body())
    answers = service.tenant(caller.tenant).store.idempotent_answers
    who = caller.asker
    run = partial(service.run_in_thread, caller)
    begin = partial(answers.begin, who, key, digest.hexdigest(), at=service.clock())
    known = await run(begin)
    if known is not None:
        headers = {**known.headers, "idempotency-replayed": "true"}
        return Response(known.body, known.status, headers)
    try:
        response = await handle(request)
    except BaseException as error:
        if isinstance(error, _REFUSALS) and not isinstance(error, WorkFailed):
            await run(answers.forget, who, key, patient=True)
        else:
            answers.leave(who, key)
        raise
    # What is shown once is not kept, and so not shown again.
    body = getattr(response, "kept_body", getattr(response, "body", None))
    if body is None:  # it streams, or says how far something is
        await run(answers.forget, who, key, patient=True)
        return response
    kept = KeptAnswer(
        status=response.status_code,
        headers={name: response.headers[name] for name in _KEPT if name in response.headers},
        body=bytes(body),
    )
    await run(answers.finish, who, key, kept, patient=True)
    return response
