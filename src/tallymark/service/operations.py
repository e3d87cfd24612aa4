"""Operations: typed methods, declared once, that become routes, client calls and OpenAPI entries.

`Rules(services, caller).get("x")` runs the method here; `Rules(sender).get("x")` sends the same
call to a server and returns the same record. `http/operation_routes.py` makes the routes,
`http/openapi.py` the document, `client/client.py` the clients.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from collections.abc import (
    Set as AbstractSet,
)
from contextlib import nullcontext
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
)
from urllib.parse import quote, urlencode

import anyio
import msgspec
from anyio import from_thread
from msgspec.inspect import (
    CollectionType,
    ListType,
    LiteralType,
    Metadata,
    StructType,
    UnionType,
    VarTupleType,
)

from tallymark.errors import (
    BadRequest,
    InvalidInput,
    NotFound,
    Place,
    Problem,
    WorkFailed,
    suggest,
)
from tallymark.service.callers import ORGANISERS, Caller, Role, check_role
from tallymark.store.contests.audit_log import act_as

if TYPE_CHECKING:
    from tallymark.service.limits import RouteClass
    from tallymark.service.tenant import TenantServices
    from tallymark.store import Store

P = ParamSpec("P")
R = TypeVar("R", bound="Resource")
T = TypeVar("T")

COMMON_QUERY = frozenset({"tenant", "validate_only", "fields"})
"""Query names that the routes read themselves."""
IDEMPOTENCY_KEY = "idempotency_key"
"""A parameter of this name is the request's header, not part of its query or body."""
_LISTS = (ListType, VarTupleType)


class Page(msgspec.Struct, Generic[T], dict=True):
    """One page of a list, with the cursor of the next one.

    Iterating goes on through all following pages, unless the call had a `limit`. `items` holds
    this page alone.
    """

    items: list[T]
    next: str | None = None

    def __iter__(self) -> Iterator[T]:
        page: Page[T] | None = self
        while page is not None:
            yield from page.items
            following = page.load_next()
            _refuse_circle(page, following)
            page = following

    async def __aiter__(self) -> AsyncIterator[T]:
        page: Page[T] | None = self
        while page is not None:
            for item in page.items:
                yield item
            loaded: Any = page.load_next()
            following = None if loaded is None else await loaded
            _refuse_circle(page, following)
            page = following

    def load_next(self) -> Page[T] | None:
        """Load the page that follows; None at the end, or where the call had a `limit`."""
        load: Callable[[str], Page[T]] | None = self.__dict__.get("load")
        return None if load is None or self.next is None else load(self.next)


def _refuse_circle(page: Page[T], following: Page[T] | None) -> None:
    if following is not None and following.next is not None and following.next == page.next:
        raise WorkFailed("the server returns the same page again and again")


class Event(msgspec.Struct, frozen=True):
    """An event of a stream, such as a stored result of a run."""

    kind: str
    seq: int
    data: dict[str, Any]


class Sender(Protocol):
    """Sends calls to a server. An asynchronous one returns awaitables."""

    def send(self, operation: Operation, arguments: Mapping[str, Any]) -> Any: ...

    def listen(self, path: str, after: int | None, *, ends: bool) -> Any: ...

    def read_rows(self, path: str) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Everything that routes, clients and OpenAPI need to know of a method."""

    name: str
    """Resource and method, such as `RulesGet`; prefix of the generated types."""
    run: Callable[..., Any]
    method: str
    path: str
    may: frozenset[Role]
    rate: RouteClass
    cost: int
    changes: bool
    """True if a call may change something."""
    status: int | Callable[[Any], int]
    noun: str | None
    starts_job: bool
    """True if the answer may name a started job: status 202, with its path as Location."""
    etag: Callable[..., Hashable] | bool
    secret: str | None
    make_secret: Callable[[], str] | None
    find_max_bytes: Callable[..., int] | int | None
    query: frozenset[str]
    lists: frozenset[str]
    """Query names that may be repeated."""
    parameters: type[msgspec.Struct]
    """Path and query parameters."""
    body: Any
    """Type of the body, or None."""
    media_type: str
    """Media type of the body; `Annotated[bytes, "application/x-ndjson"]` for bytes."""
    whole_body: str | None
    """The argument that is the whole body."""
    body_names: tuple[str, ...]
    largest_page: int | None
    """The largest `limit`, used to request pages after the first."""
    takes_key: bool
    """True if the method takes the idempotency key."""
    keeps_answer: bool
    """True if the answer to a request with a key is stored for repetitions; otherwise the
    method handles the key itself.
    """
    answer: Any
    """Type of the answer; with a noun, a struct of one field."""
    record: Any
    """Type of the noun, or of one item of a page; None where the answer is neither."""

    @functools.cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.run)

    @functools.cached_property
    def _body_decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.body)

    @functools.cached_property
    def _answer_decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.answer)

    def read(
        self, path: Mapping[str, str], query: Iterable[tuple[str, str]], body: bytes
    ) -> dict[str, Any]:
        """Decode the arguments of a request. Text is converted; a JSON body is read strictly."""
        parameters = read_parameters(self.parameters, path, query, self.lists)
        return parameters | self._read_body(body)

    def _read_body(self, body: bytes) -> dict[str, Any]:
        if self.body is None:
            return {}
        if self.body is bytes:
            return {self.whole_body or "body": body}
        if not body and self.whole_body is None:
            body = b"{}"
        try:
            content = self._body_decoder.decode(body)
        except msgspec.ValidationError as error:
            raise InvalidInput([_explain_mistake(error, self.body)]) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"the body is not JSON: {error}"
            raise BadRequest(message, hint="send one JSON document") from None
        if self.whole_body is not None:
            return {self.whole_body: content}
        return msgspec.structs.asdict(content)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments of a call in the process as a request with them would be refused."""
        _check_finite(arguments)
        for kind in (self.parameters, self.body if self.whole_body is None else None):
            if kind is not None:
                names = kind.__struct_fields__
                values = {name: arguments[name] for name in names}
                given = {key: each for key, each in values.items() if each is not msgspec.UNSET}
                try:
                    msgspec.convert(given, kind)
                except msgspec.ValidationError as error:
                    raise InvalidInput([_explain_mistake(error, kind)]) from None

    def write(self, arguments: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """Encode arguments as a path with query, and a body."""
        parts: dict[str, str] = {}
        for key, value in arguments.items():
            if f"{{{key}}}" in self.path:
                if str(value) in ("", ".", ".."):  # an intermediary would resolve them
                    raise NotFound(f"nothing is called {str(value)!r}", hint="check the name")
                parts[key] = quote(str(value), "")
        pairs = [
            (name, str(each).lower() if isinstance(each, bool) else str(each))
            for name in sorted(self.query)
            for each in (arguments[name] if name in self.lists else (arguments[name],)) or ()
            if each is not None
        ]
        address = self.path.format_map(parts) + (f"?{urlencode(pairs)}" if pairs else "")
        if self.body is None:
            return address, None
        if self.whole_body is not None:
            content = arguments[self.whole_body]
            return address, content if self.body is bytes else msgspec.json.encode(content)
        body = self.body(**{name: arguments[name] for name in self.body_names})
        return address, msgspec.json.encode(body)

    def find_status(self, result: Any) -> int:
        if self.starts_job and result.job:
            return 202
        return self.status(result) if callable(self.status) else self.status

    def pack(self, result: Any) -> bytes:
        return msgspec.json.encode(self.wrap(result))

    def wrap(self, result: Any) -> Any:
        """Put a record under its noun."""
        return result if self.noun is None else self.answer(result)

    def bring_secret(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the secret at the client, so that it is not lost with the answer."""
        if self.make_secret is None or arguments[str(self.secret)] is not None:
            return arguments
        return {**arguments, str(self.secret): self.make_secret()}

    def unpack(self, content: bytes, arguments: Mapping[str, Any]) -> Any:
        if self.answer is type(None):  # status 204
            return None
        answer = self._answer_decoder.decode(content)
        if self.make_secret is not None:
            brought = {str(self.secret): arguments[str(self.secret)]}
            answer = msgspec.structs.replace(answer, **brought)
        return answer if self.noun is None else getattr(answer, self.noun)


class Resource:
    """Operations on one subject, run here for a tenant or sent to a server.

    Without a caller, the owner of the store acts.
    """

    sender: Sender | None = None
    services: TenantServices
    caller: Caller | None

    def __init__(self, where: Sender | TenantServices, caller: Caller | None = None) -> None:
        self.caller = caller
        if hasattr(where, "send"):
            self.sender = cast("Sender", where)
        else:
            self.services = where

    @property
    def store(self) -> Store:
        return self.services.store

    @property
    def now(self) -> float:
        return self.services.now

    @property
    def is_organiser(self) -> bool:
        """True if the caller has the rights of organisers."""
        return self.caller is None or self.caller.role in ORGANISERS

    async def await_operation(self, name: str, **arguments: Any) -> Any:
        """Await an asynchronous operation in the event loop, where a blocking call would hold a
        thread for as long as it waits.
        """
        made = self.operations()[name]
        if self.caller is not None:
            check_role(self.caller, made.may)
        return await made.run(self, **arguments)

    def listen(self, path: str, after: int | None, *, ends: bool) -> Iterator[Event]:
        """Follow events of a server; `ends` is true if the stream is over when the server ends it.

        An asynchronous sender returns an asynchronous iterator.
        """
        if self.sender is None:
            raise InvalidInput("only a server has events", hint="name one with --server")
        return cast("Iterator[Event]", self.sender.listen(path, after, ends=ends))

    @classmethod
    def operations(cls) -> dict[str, Operation]:
        """Operations by method name."""
        return {
            name: each.operation for name, each in vars(cls).items() if hasattr(each, "operation")
        }


class Declare(Protocol):
    """Decorator of a method. An `async` method blocks its callers; its route awaits it."""

    @overload
    def __call__(
        self, run: Callable[Concatenate[R, P], Coroutine[Any, Any, T]], /
    ) -> Callable[Concatenate[R, P], T]: ...

    @overload
    def __call__(
        self, run: Callable[Concatenate[R, P], T], /
    ) -> Callable[Concatenate[R, P], T]: ...


def operation(  # noqa: PLR0913 (a declaration names everything that differs)
    route: str,
    may: frozenset[Role],
    *,
    rate: RouteClass = "read",
    cost: int = 1,
    status: int | Callable[[Any], int] = 200,
    noun: str | None = None,
    query: Iterable[str] = (),
    body: str | None = None,
    etag: Callable[..., Hashable] | bool = False,
    secret: str | None = None,
    make_secret: Callable[[], str] | None = None,
    find_max_bytes: Callable[..., int] | int | None = None,
    keeps_answer: bool = False,
    reads: bool = False,
) -> Declare:
    """Declare an operation: its route, the roles that may call it, and how it is answered.

    Arguments that are neither in the path nor in `query` form the body of POST, PUT and PATCH;
    `body` names one that is the whole body. `noun` is the key that the answer is wrapped in. `etag`
    is called with the resource and the arguments, before the method, and returns what the answer
    depends on; None, or `etag=True`, makes the tag from the answer itself. `secret` names a field
    of the answer that is shown once and not kept for repeated requests; `make_secret` makes it at
    the client, as the parameter of the same name. `find_max_bytes` bounds the body by what is
    stored; it is called with the resource and the names in the path, or is a number. `keeps_answer`
    keeps the answer also for a method that takes the idempotency key. `reads` says that a POST
    changes nothing.
    """
    method, path = route.split()

    def declare(run: Callable[Concatenate[R, P], Any]) -> Callable[Concatenate[R, P], Any]:
        signature = inspect.signature(run)
        made = _read_declaration(run, signature)

        @functools.wraps(run)
        def call(self: R, /, *args: P.args, **named: P.kwargs) -> Any:
            bound = signature.bind(self, *args, **named)
            is_limited = "limit" in bound.arguments
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[1:])
            follow = "cursor" in arguments and not is_limited
            return _call(made, self, arguments, follow=follow)

        call.operation = made  # type: ignore[attr-defined]
        return call

    def _read_declaration(run: Callable[..., Any], signature: inspect.Signature) -> Operation:
        hints = get_type_hints(run, include_extras=True)
        name = "".join(
            word[:1].upper() + word[1:]
            for part in run.__qualname__.split(".")[-2:]
            for word in part.split("_")
        )
        fields: dict[str, Any] = {
            key: (key, hints[key], *(() if each.default is each.empty else (each.default,)))
            for key, each in list(signature.parameters.items())[1:]
            if key != IDEMPOTENCY_KEY
        }
        in_path = {key for key in fields if f"{{{key}}}" in path}
        asked = set(query) if method in ("POST", "PUT", "PATCH") else set(fields) - in_path
        inside = tuple(key for key in fields if key not in in_path | asked)
        parameters = msgspec.defstruct(
            f"{name}Parameters",
            [field for key, field in fields.items() if key not in inside],
            kw_only=True,
        )
        body_type: Any = None
        media_type = "application/json"
        if body is not None:
            body_type = hints[body]
            if getattr(body_type, "__origin__", body_type) is bytes:
                (media_type,) = getattr(body_type, "__metadata__", ("application/octet-stream",))
                body_type = bytes
        elif inside:
            body_type = msgspec.defstruct(
                f"{name}Body",
                [fields[key] for key in inside],
                kw_only=True,
                forbid_unknown_fields=True,
            )
        result = hints["return"]
        origin = getattr(result, "__origin__", result)
        is_page = inspect.isclass(origin) and issubclass(origin, Page)
        page = result if get_args(result) or not is_page else result.__orig_bases__[0]
        shown = get_args(page)[0] if is_page else result
        is_record = isinstance(shown, type) and issubclass(shown, msgspec.Struct)
        known = cast("StructType", msgspec.inspect.type_info(parameters))
        return Operation(
            name=name,
            run=run,
            method=method,
            path=path,
            may=may,
            rate=rate,
            cost=cost,
            changes=method != "GET" and not reads,
            status=status,
            noun=noun,
            starts_job=noun is None and "job" in getattr(result, "__struct_fields__", ()),
            etag=etag,
            secret=secret,
            make_secret=make_secret,
            find_max_bytes=find_max_bytes,
            query=frozenset(asked),
            lists=frozenset(
                each.name
                for each in known.fields
                if any(isinstance(kind, CollectionType) for kind in _list_options(each.type))
            ),
            parameters=parameters,
            body=body_type,
            media_type=media_type,
            whole_body=body,
            body_names=inside,
            largest_page=next(
                (
                    getattr(_list_options(each.type)[0], "le", None)
                    for each in known.fields
                    if each.name == "limit"
                ),
                None,
            ),
            takes_key=IDEMPOTENCY_KEY in signature.parameters,
            keeps_answer=keeps_answer or IDEMPOTENCY_KEY not in signature.parameters,
            answer=result if noun is None else msgspec.defstruct(f"{name}Answer", [(noun, result)]),
            record=shown if is_record and (is_page or noun is not None) else None,
        )

    return declare


def stream(path: str) -> Callable[[Callable[P, Iterator[T]]], Callable[P, Iterator[T]]]:
    """Declare a method that follows the stream at a path; its route is written by hand."""

    def declare(follow: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
        follow.stream_path = path  # type: ignore[attr-defined]
        return follow

    return declare


def _call(
    made: Operation, resource: Resource, arguments: Mapping[str, Any], *, follow: bool
) -> Any:
    if resource.sender is not None:
        result = resource.sender.send(made, arguments)
    else:
        result = run_here(made, resource, arguments)
    if not follow:
        return result

    def load(cursor: str) -> Any:
        more = {**arguments, "cursor": cursor, "limit": made.largest_page or arguments["limit"]}
        return _call(made, resource, more, follow=True)

    async def attach_later() -> Any:
        page = await result
        page.__dict__["load"] = load
        return page

    if inspect.isawaitable(result):
        return attach_later()
    result.__dict__["load"] = load
    return result


def run_here(made: Operation, resource: Resource, arguments: Mapping[str, Any]) -> Any:
    """Run an operation for the caller of the resource, and wait for it."""
    caller = resource.caller
    if caller is not None:
        check_role(caller, made.may)
    elif made.method == "GET" or ("{" in made.path and made.method != "PUT"):
        resource.store.require()  # nothing to read or change: a mistyped database is not created
    made.check(arguments)
    with nullcontext() if caller is None else act_as(caller.actor):
        if not made.is_async:
            return made.run(resource, **arguments)
        work = functools.partial(made.run, resource, **arguments)
        try:
            return from_thread.run(work)  # in a thread of a server's event loop
        except anyio.NoEventLoopError:
            return anyio.run(work)


def read_parameters(
    kind: type[msgspec.Struct],
    path: Mapping[str, str],
    query: Iterable[tuple[str, str]],
    lists: AbstractSet[str] = frozenset(),
) -> dict[str, Any]:
    """Decode the path and query of a request as fields of a struct; `lists` may be repeated."""
    known = set(kind.__struct_fields__) - set(path)
    given: dict[str, Any] = {}
    for name, value in query:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise BadRequest("it is given twice", place=Place(source=name))
        elif name in known or name in COMMON_QUERY:
            given[name] = value
        else:
            raise BadRequest([_explain_unknown(name, "parameter", known)])
    given.update(path)
    try:
        found = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest([_explain_mistake(error, kind)]) from None
    arguments = msgspec.structs.asdict(found)
    _check_finite(arguments)
    for name, value in arguments.items():
        if value is None and name in given:  # msgspec reads the text `null` so
            raise BadRequest("null is no value here", place=Place(source=name), hint="leave it out")
        if type(value) is int and not re.fullmatch(r"-?\d+", str(given.get(name, value)), re.ASCII):
            raise BadRequest("expected int", place=Place(source=name))  # such as 1e3
    return arguments


def _check_finite(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadRequest("it is not a finite number", place=Place(source=name))


def _explain_unknown(name: str, noun: str, known: Iterable[str]) -> Problem:
    near = suggest(name, known)
    there = ", ".join(sorted(known)) or "none"
    hint = f"did you mean {near!r}?" if near else f"there are: {there}"
    return Problem(f"there is no such {noun}", Place(source=name), hint)


def _explain_mistake(error: msgspec.ValidationError, kind: Any) -> Problem:
    """Name the field of a mistake, what is wrong with it, and what is allowed."""
    message, _, place = str(error).partition(" - at `$")
    place = place.strip(".`")
    info = msgspec.inspect.type_info(kind)
    fields = {each.encode_name: each.type for each in getattr(info, "fields", ())}
    quoted = re.search(r"field `(.+)`$", message)
    if quoted and not place and "unknown" in message:
        return _explain_unknown(quoted[1], "field", fields)
    if quoted and "missing" in message:
        where = f"{place}.{quoted[1]}" if place else quoted[1]
        return Problem("it is missing", Place(source=where))
    where = Place(source=place) if place else None
    name, _, index = place.partition("[")
    options = _list_options(fields[name]) if name in fields else []
    if index:
        items = [each.item_type for each in options if isinstance(each, _LISTS)]
        options = [option for item in items for option in _list_options(item)]
    literals = [
        str(value) for each in options if isinstance(each, LiteralType) for value in each.values
    ]
    wrong = re.search(r"nvalid enum value '(.+)'$", message)
    near = suggest(wrong[1], literals) if wrong else None
    hint = f"did you mean {near!r}?" if near else None
    if literals and hint is None:
        hint = f"give one of: {', '.join(literals)}"
    if wrong:
        return Problem(f"there is no {name} {wrong[1]!r}", None, hint)
    message = message[:1].lower() + message[1:].replace("`", "")
    return Problem(message, where, hint)


def _list_options(kind: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    """The members of a union, or the type itself, without metadata."""
    inner = kind.type if isinstance(kind, Metadata) else kind
    if isinstance(inner, UnionType):
        return [option for each in inner.types for option in _list_options(each)]
    return [inner]
