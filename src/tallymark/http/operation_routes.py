"""Routes of declared operations.

Each request passes, in this order: who the caller is, whether they may and how often, the body
within its bounds, the idempotency key, a turn among the threads, the operation, the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallymark.errors import BadRequest, Place, suggest
from tallymark.http.middleware import restore_slashes
from tallymark.http.problems import answer_error, refuse
from tallymark.http.routes import admit, check_key
from tallymark.service.callers import acting
from tallymark.service.idempotency import KeyedRequest, StoredAnswer
from tallymark.service.limits import narrow_body
from tallymark.service.operations import IDEMPOTENCY_KEY, Operation, Resource

if TYPE_CHECKING:
    from tallymark.service.callers import Caller
    from tallymark.service.service import Service

PREFIX = "/api/v1"
_FLAGS = {"1": True, "true": True, "yes": True, "on": True} | dict.fromkeys(
    ("0", "false", "no", "off"), False
)
_KEPT_HEADERS = ("content-type", "location", "cache-control")


def make_routes(
    service: Service, resources: Iterable[type[Resource]], prefix: str = PREFIX
) -> list[Route]:
    """Build a route for each path, with all methods that it has.

    Of two operations of one method, the one with a body of bytes takes what is not JSON.
    """
    by_path: dict[str, dict[tuple[str, bool], _Endpoint]] = {}
    for kind in resources:
        for made in kind.operations().values():
            key = made.method, made.body is bytes
            by_path.setdefault(made.path, {})[key] = _Endpoint(service, kind, made)
    # A fixed word comes before a name that would take it too.
    ordered = sorted(by_path, key=lambda path: [part.startswith("{") for part in path.split("/")])
    return [_make_route(prefix + path, by_path[path]) for path in ordered]


def _make_route(path: str, endpoints: Mapping[tuple[str, bool], _Endpoint]) -> Route:
    async def answer(request: Request) -> Response:
        packed = _is_packed(request)
        chosen = endpoints.get((request.method, packed)) or endpoints[request.method, not packed]
        return await chosen.answer(request)

    return Route(path, answer, methods=[method for method, _ in endpoints])


def _is_packed(request: Request) -> bool:
    """Check if the body is a file, such as an archive."""
    kind = _read_media_type(request)
    return kind.startswith("application/") and not (_is_json(kind) or kind.endswith("-urlencoded"))


class _Endpoint:
    """Answers the requests of one operation."""

    def __init__(self, service: Service, kind: type[Resource], made: Operation) -> None:
        self._service = service
        self._kind = kind
        self._made = made

    async def answer(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except Exception as error:  # noqa: BLE001 (every error has an answer)
            return await answer_error(request, error)

    async def _answer(self, request: Request) -> Response:
        made, service = self._made, self._service
        restore_slashes(request.scope)
        caller = await admit(request, made.may, made.rate, made.cost)
        services = service.tenant(caller.tenant)
        resource = self._kind(services, caller)
        if isinstance(made.find_max_bytes, int):
            narrow_body(request.scope, made.find_max_bytes)
        elif made.find_max_bytes is not None:
            _check_media_type(request, made)
            find = partial(made.find_max_bytes, resource, **request.path_params)
            narrow_body(request.scope, await service.run_in_thread(caller, find))
        body = await _read_body(request, made) if made.method != "GET" else b""
        arguments = made.read(request.path_params, request.query_params.multi_items(), body)
        dry = made.changes and _read_flag(request, "validate_only")
        key = check_key(request.headers.get("idempotency-key"))
        if made.takes_key:
            arguments[IDEMPOTENCY_KEY] = key
        call = _Call(made, resource, arguments, request, dry=dry)
        with acting(caller, dry=dry):
            if key is None or not made.changes or not made.keeps_answer or dry:
                if made.is_async:
                    return await call.run_async()
                return await service.run_in_thread(caller, call.run)
            return await self._answer_once(call, key, caller, body)

    async def _answer_once(self, call: _Call, key: str, caller: Caller, body: bytes) -> Response:
        """Run a request once per key; the same key with another request is a conflict."""
        request = call.request
        target = f"{request.method} {request.url.path}?{request.url.query}\n"
        services = self._service.tenant(caller.tenant)
        keyed = KeyedRequest(services, caller, key, target.encode() + body)
        run = partial(self._service.run_in_thread, caller)
        if not call.made.is_async:
            return await run(_run_once, keyed, call)
        known = await run(keyed.begin)
        if known is not None:
            return _replay(known)
        try:
            response = await call.run_async()
        except BaseException as error:
            await run(keyed.fail, error, patient=True)
            raise
        await run(keyed.finish, _keep(response), patient=True)
        return response


class _Call:
    """One call of an operation, with the request that it answers."""

    def __init__(
        self,
        made: Operation,
        resource: Resource,
        arguments: dict[str, Any],
        request: Request,
        *,
        dry: bool,
    ) -> None:
        self.made = made
        self.request = request
        self._resource = resource
        self._arguments = arguments
        self._dry = dry

    def run(self) -> Response:
        """Run a blocking operation and encode its result. One that reads has one transaction."""
        with self._resource.services.read() if self.made.method == "GET" else nullcontext():
            return self._run()

    def _run(self) -> Response:
        made = self.made
        if not made.etag:
            return self._respond(made.run(self._resource, **self._arguments), {})
        state = made.etag(self._resource, **self._arguments) if callable(made.etag) else None
        tag = None if state is None else make_etag(made.name, self.request.url.query, state)
        if tag is not None and (unchanged := find_unchanged(self.request, tag)) is not None:
            return unchanged
        result = made.run(self._resource, **self._arguments)
        response = self._respond(result, {"cache-control": "no-cache"})
        response.headers["etag"] = tag or make_etag(response.body)
        return find_unchanged(self.request, response.headers["etag"]) or response

    async def run_async(self) -> Response:
        """Await an operation that waits in the event loop."""
        return self._respond(await self.made.run(self._resource, **self._arguments), {})

    def _respond(self, result: Any, headers: dict[str, str]) -> Response:
        made = self.made
        status = made.find_status(result)
        if self._dry and status in (201, 202):
            status = 200
        if made.starts_job and result.job and not self._dry:
            headers["location"] = f"{PREFIX}/jobs/{result.job}"
        if result is None:
            return Response(status_code=status, headers=headers)
        content = made.wrap(result)
        fields = self.request.query_params.get("fields")
        if fields is not None and "fields" not in made.query:
            content = pick_fields(made, content, fields)
        if made.secret is None:
            return Response(msgspec.json.encode(content), status, headers, "application/json")
        headers["cache-control"] = "no-store"
        hidden = msgspec.json.encode(_hide(made, result))
        shown = hidden if self._dry else msgspec.json.encode(content)
        response = Response(shown, status, headers, "application/json")
        response.kept_body = hidden  # type: ignore[attr-defined]
        return response


def make_etag(*state: Any) -> str:
    """Make a tag that stays the same while all of this does."""
    return f'"{hashlib.blake2b(repr(state).encode(), digest_size=12).hexdigest()}"'


def find_unchanged(request: Request, etag: str) -> Response | None:
    """Return status 304 for a client that has this already."""
    if not is_known(request.headers.get("if-none-match"), etag):
        return None
    return Response(status_code=304, headers={"etag": etag, "cache-control": "no-cache"})


def is_known(asked: str | None, etag: str) -> bool:
    """Check if an `If-None-Match` header names the tag."""
    if asked is None:
        return False
    return asked.strip() == "*" or etag in asked.replace("W/", "").split(", ")


def _run_once(keyed: KeyedRequest, call: _Call) -> Response:
    known = keyed.begin()
    if known is not None:
        return _replay(known)
    try:
        response = call.run()
    except BaseException as error:
        keyed.fail(error)
        raise
    keyed.finish(_keep(response))
    return response


def _replay(known: StoredAnswer) -> Response:
    return Response(known.body, known.status, {**known.headers, "idempotency-replayed": "true"})


def _keep(response: Response) -> StoredAnswer:
    """Make the answer to store, without secrets that are shown only once."""
    return StoredAnswer(
        status=response.status_code,
        headers={
            name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers
        },
        body=bytes(getattr(response, "kept_body", response.body)),
    )


def _read_flag(request: Request, name: str) -> bool:
    flag = _FLAGS.get(request.query_params.get(name, "false").lower())
    if flag is None:
        raise BadRequest("it is neither true nor false", place=Place(source=name))
    return flag


async def _read_body(request: Request, made: Operation) -> bytes:
    """Read a body of the right media type. The middleware bounds its bytes and values."""
    _check_media_type(request, made)
    return await request.body()


def _check_media_type(request: Request, made: Operation) -> None:
    kind = _read_media_type(request)
    length = request.headers.get("content-length", "")
    empty = length == "0" or (not length and "transfer-encoding" not in request.headers)
    if not _is_json(kind) and made.body is not bytes and (kind or not empty):
        named = kind or "of no media type that was named"
        raise refuse(415, f"the body is {named}", "send Content-Type: application/json")


def _read_media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")


def pick_fields(made: Operation, content: Any, fields: str) -> Any:
    """Keep only the named fields of a record, or of each item of a page."""
    if made.record is None:
        raise BadRequest("there is no such parameter", place=Place(source="fields"))
    known = {each.encode_name: each for each in msgspec.structs.fields(made.record)}
    wanted = [name.strip() for name in fields.split(",") if name.strip()]
    there = f"there are: {', '.join(known)}"
    if not wanted:
        raise BadRequest("it names none", place=Place(source="fields"), hint=there)
    for name in wanted:
        if name not in known:
            near = suggest(name, known)
            hint = f"did you mean {near!r}?" if near else there
            raise BadRequest(f"there is no field {name!r}", place=Place(source="fields"), hint=hint)
    document = msgspec.to_builtins(content)

    def pick(item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item.get(name, _find_default(known[name])) for name in wanted}

    if made.noun is not None:
        return {made.noun: pick(document[made.noun])}
    return {**document, "items": [pick(each) for each in document["items"]]}


def _find_default(field: msgspec.structs.FieldInfo) -> Any:
    """Find the value of a field that is absent from the JSON because it has its default."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default in (msgspec.NODEFAULT, msgspec.UNSET) else field.default


def _hide(made: Operation, result: Any) -> Any:
    """Remove the secret that is shown once from an answer."""
    assert made.secret is not None  # noqa: S101 (for the type checker)
    return made.wrap(msgspec.structs.replace(result, **{made.secret: None}))
