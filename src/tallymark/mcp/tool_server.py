"""`ToolServer`: the tools of a service, their callers and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from importlib.metadata import version
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.types import ToolAnnotations
from pydantic import ValidationError

from tallymark.errors import Busy, TallymarkError, WorkFailed, suggest
from tallymark.service.callers import Caller, Role, acting, check_role
from tallymark.service.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.service.limits import RouteClass
    from tallymark.service.service import Service
    from tallymark.service.tenant import TenantServices

T = TypeVar("T")

CALLER = "tally.caller"
"""Key of the caller in the scope of a request."""
AS_SENT = "answer"
"""The argument that the SDK must not parse as JSON: a text may look like it."""
_INSTRUCTIONS = """\
Tallymark scores AI agents. To compete: list_challenges, read_challenge, enter_challenge (the \
clock starts, and you get the data), work out the answer, check_answer, submit_answer. Then \
explain_score shows where points were lost and what the agent above did better, and view_board \
shows your place. Every refusal names what to do instead."""


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    service: Service
    services: TenantServices
    caller: Caller

    @property
    def now(self) -> float:
        return self.service.clock()

    @cached_property
    def tally(self) -> Resources:
        """The operations, as the caller may call them."""
        return Resources(self.services, self.caller)

    async def run(self, work: Callable[..., T], *given: object, patient: bool = False) -> T:
        """Do something in a thread of the caller's share."""
        return await self.service.run_in_thread(self.caller, work, *given, patient=patient)


class _AsSentMetadata(FuncMetadata):
    """The SDK parses texts as JSON where no text is expected; an answer stays as it was sent."""

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        read = super().pre_parse_json(data)
        return read if AS_SENT not in data else {**read, AS_SENT: data[AS_SENT]}


class ToolServer(MCPServer[Any]):
    """Tools of a service. On stdio, where requests name no caller, it is `caller`."""

    def __init__(
        self, service: Service, tools: Sequence[Tool], *, caller: Caller | None = None
    ) -> None:
        super().__init__(
            "tallymark",
            title="Tallymark",
            instructions=_INSTRUCTIONS,
            version=version("tallymark"),
            tools=list(tools),
            # There are no notifications, and a stream that waits for them would delay shutdown.
            subscriptions=False,
            log_level="CRITICAL",
        )
        self.service = service
        self._caller = caller
        self._arguments = {each.name: list(each.parameters["properties"]) for each in tools}

    def find_caller(self, request: Any) -> Caller:
        """Return the caller that the endpoint found, or the only one there is."""
        if self._caller is not None:
            return self._caller
        return cast("Caller", request.scope[CALLER])

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        """Call a tool; a refusal is one sentence with a hint."""
        known = self._arguments.get(name)
        if known is None:
            raise ToolError(_name_nearest(f"there is no tool {name!r}", name, self._arguments))
        for each in arguments:
            if each not in known:
                said = f"{name} takes no argument {each!r}"
                raise ToolError(_name_nearest(said, each, known))
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            raise UnexpectedToolError(
                "the server failed; the same call can be repeated"
            ) from error.__cause__
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_explain_arguments(name, error.__cause__)) from error.__cause__
            raise ToolError(str(error.__cause__ or error)) from error.__cause__


def _name_nearest(said: str, name: str, known: Any) -> str:
    near = suggest(name, known)
    return f"{said}; did you mean {near!r}?" if near else f"{said}; there is {', '.join(known)}"


def _explain_arguments(name: str, error: ValidationError) -> str:
    found = []
    for each in error.errors(include_url=False, include_context=False):
        where = ".".join(map(str, each["loc"]))
        missing = each["type"] == "missing"
        said = "it is missing" if missing else each["msg"][:1].lower() + each["msg"][1:]
        found.append(f"{where}: {said}")
    return f"{name} was called with wrong arguments: {'; '.join(found[:10])}"


def make_tool(function: Callable[..., Any], *, writes: bool = False, title: str) -> Tool:
    """Make a tool of a function; a model sees only its docstring and types."""
    hints = ToolAnnotations(
        title=title,
        read_only_hint=not writes,
        destructive_hint=False,
        open_world_hint=False,
    )
    words = " ".join((function.__doc__ or "").split())
    if not iscoroutinefunction(function):
        function = _run_in_thread(function)
    made = Tool.from_function(function, title=title, description=words, annotations=hints)
    fields = {each: getattr(made.fn_metadata, each) for each in FuncMetadata.model_fields}
    return made.model_copy(update={"fn_metadata": _AsSentMetadata(**fields)})


def _run_in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function in a thread of the caller's share, instead of the SDK's common pool."""

    @wraps(function)
    async def run(ctx: Context[Any, Any], **given: Any) -> Any:
        server = cast("ToolServer", ctx.mcp_server)
        caller = server.find_caller(ctx.request_context.request)
        work = partial(function, ctx, **given)
        try:
            return await server.service.run_in_thread(caller, work)
        except Busy as error:
            raise ToolError(error.render()) from None

    return run


@contextmanager
def open_call(
    ctx: Context[Any, Any], roles: frozenset[Role], rate: RouteClass | None = None
) -> Iterator[Call]:
    """Check the role and rate of a caller, and turn errors into sentences.

    The endpoint counts every request as a read; `rate` is counted in addition.
    """
    server = cast("ToolServer", ctx.mcp_server)
    service = server.service
    try:
        caller = server.find_caller(ctx.request_context.request)
        check_role(caller, roles)
        if rate is not None:
            service.limits.check(caller, rate)
        services = service.tenant(caller.tenant)
        with acting(caller):
            yield Call(service, services, caller)
    except TallymarkError as error:
        raise ToolError(_tell(service, error)) from None


def _tell(service: Service, error: TallymarkError) -> str:
    said = error.render()
    if isinstance(error, WorkFailed):  # the address of the database is for operators only
        said = service.hide_database(said)
    return said


def read_answer(answer: Any, form: str) -> Any:
    """Read an answer in the form of the challenge: models often send JSON inside a text."""
    if not isinstance(answer, str) or form not in ("json", "files"):
        return answer
    try:
        read = json.loads(answer)
    except (ValueError, RecursionError):
        return answer
    return read if isinstance(read, Mapping | list) else answer
