"""MCP servers whose tools a model may call: started or reached once, and shared by all requests."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from tallymark.errors import ModelError
from tallymark.models.failures import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturnPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    from tallymark.models.model import McpServer
    from tallymark.models.provider_steps import Steps

_START_SECONDS = 60.0


class Tools:
    """The toolboxes of one model, one for each set of servers that requests name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._boxes: dict[bytes, Toolbox] = {}
        self._opening = asyncio.Lock()

    async def of(self, servers: tuple[McpServer, ...]) -> Toolbox:
        """The tools of these servers, started when first asked for, or again after they failed."""
        key = msgspec.json.encode(servers, order="sorted")
        box = self._boxes.get(key)
        if box is None or box.broken:
            async with self._opening:
                box = self._boxes.get(key)
                if box is None or box.broken:
                    if box is not None:
                        await box.close()
                    box = self._boxes[key] = await Toolbox.opened(self._name, servers)
        return box

    async def close(self) -> None:
        """Stops the servers that were started."""
        boxes, self._boxes = self._boxes, {}
        for box in boxes.values():
            await box.close()


class Toolbox:
    """The tools of some servers: what the model is told of them, and calling them."""

    def __init__(self, name: str) -> None:
        from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415 (heavy)

        self._name = name
        self._servers: list[_Server] = []
        self._owners: dict[str, tuple[_Server, str]] = {}
        self.parameters: ModelRequestParameters = ModelRequestParameters()
        self.broken = False

    @classmethod
    async def opened(cls, name: str, servers: tuple[McpServer, ...]) -> Toolbox:
        """Starts or reaches every server, and asks for its tools."""
        from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415 (heavy)

        box = cls(name)
        try:
            definitions = [
                definition
                for server in servers
                for definition in await box._added(server, prefixed=len(servers) > 1)
            ]
        except BaseException:
            await box.close()
            raise
        box.parameters = ModelRequestParameters(function_tools=definitions)
        return box

    async def called(self, calls: Sequence[ToolCallPart], steps: Steps) -> ModelRequest:
        """Calls the tools, all at once, and gives what goes back to the model."""
        from pydantic_ai.messages import ModelRequest  # noqa: PLC0415 (heavy)

        working = [asyncio.ensure_future(self._call(call, steps)) for call in calls]
        await asyncio.gather(*working, return_exceptions=True)  # none goes on when one fails
        return ModelRequest(parts=[task.result() for task in working])

    async def close(self) -> None:
        """Stops what was started."""
        for server in self._servers:
            await server.close()

    async def _added(self, wanted: McpServer, *, prefixed: bool) -> list[ToolDefinition]:
        server = _Server(wanted)
        self._servers.append(server)
        prefix = f"{wanted.name}_" if prefixed and wanted.name else ""
        definitions = [_definition(tool, prefix) for tool in await server.open(self._name)]
        for definition in definitions:
            if definition.name in self._owners:
                raise ModelError(
                    f"{self._name}: two MCP servers have a tool {definition.name!r}",
                    hint="give each server a name of its own: it is put before its tools' names",
                )
            self._owners[definition.name] = (server, definition.name.removeprefix(prefix))
        return definitions

    async def _call(self, call: ToolCallPart, steps: Steps) -> ToolReturnPart:
        from fastmcp.exceptions import ToolError  # noqa: PLC0415 (heavy)
        from pydantic_ai.messages import ToolReturnPart  # noqa: PLC0415 (heavy)

        began = perf_counter()
        error = None
        try:
            content = await self._content(call)
        except ToolError as failed:  # the tool's own failure is for the model to deal with
            content = error = str(failed)
        except ModelError:
            raise
        except Exception as gone:
            self.broken = True
            raise ModelError(
                f"{self._name}: the MCP server of the tool {call.tool_name!r} failed: "
                f"{one_line(gone)}",
                retryable=True,
            ) from gone
        part = ToolReturnPart(
            tool_name=call.tool_name,
            content=content,
            tool_call_id=call.tool_call_id,
            outcome="success" if error is None else "failed",
        )
        steps.tool_call(call, began, part.model_response_str(wrap_if_error=False), error)
        return part

    async def _content(self, call: ToolCallPart) -> Any:
        from fastmcp.exceptions import ToolError  # noqa: PLC0415 (heavy)

        if call.tool_name not in self._owners:
            raise ToolError(f"there is no tool {call.tool_name!r}")
        server, name = self._owners[call.tool_name]
        return await server.toolset.direct_call_tool(name, call.args_as_dict())


class _Server:
    """One MCP server, and what it writes to its standard error."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._log: TextIO | None = None
        self._entered = False
        self.toolset: MCPToolset[Any] = self._toolset()

    async def open(self, model: str) -> list[dict[str, Any]]:
        """Connects, and gives the server's tools in the protocol's own form."""
        try:
            await self.toolset.__aenter__()
            self._entered = True
            return [tool.model_dump(by_alias=True) for tool in await self.toolset.list_tools()]
        except Exception as error:
            name = self._server.url or self._server.command
            said = self._last_words() or one_line(error)
            raise ModelError(
                f"{model}: the MCP server {name} cannot be used: {said}",
                hint="check its address or command",
            ) from error

    async def close(self) -> None:
        """Disconnects, which ends a server that was started."""
        if self._entered:
            self._entered = False
            with suppress(Exception):  # it may be gone already
                await self.toolset.__aexit__(None, None, None)
        if self._log is not None:
            self._log.close()

    def _toolset(self) -> MCPToolset[Any]:
        from pydantic_ai.mcp import MCPToolset  # noqa: PLC0415 (heavy)

        return MCPToolset(
            self._server.url or self._transport(),
            headers=self._server.headers if self._server.url else None,
            tool_error_behavior="error",
            init_timeout=_START_SECONDS,
        )

    def _transport(self) -> Any:
        from fastmcp.client.transports import StdioTransport  # noqa: PLC0415 (heavy)

        words = list(self._server.arguments)
        command = self._server.command or ""
        if not words:
            command, *words = shlex.split(command) or [""]
        if not command:
            raise ModelError("an MCP server needs a url or a command")
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        return StdioTransport(
            command,
            words,
            env=dict(self._server.environment),
            keep_alive=False,
            log_file=self._log,
        )

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return one_line(lines[-1]) if lines else ""


def _definition(tool: dict[str, Any], prefix: str) -> ToolDefinition:
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415 (heavy)

    return ToolDefinition(
        name=prefix + tool["name"],
        description=tool.get("description"),
        parameters_json_schema=tool["inputSchema"],
    )
