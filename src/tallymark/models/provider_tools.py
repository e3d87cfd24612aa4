"""MCP servers whose tools a model may call: started or reached once, and shared by all requests.

Loads pydantic-ai.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from tallymark.errors import ModelError
from tallymark.models.model_failures import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallymark.models.mcp_connection import McpConnection
    from tallymark.models.model import McpServer
    from tallymark.models.provider_translation import ProviderSteps


class Toolboxes:
    """The toolboxes of one model in one event loop, one for each set of servers requests name."""

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
                # Look again: another task may have opened it while this one waited for the lock.
                box = self._boxes.get(key)
                if box is None or box.broken:
                    if box is not None:
                        await box.close()
                    box = self._boxes[key] = await _open_toolbox(self._name, servers)
        return box

    async def close(self) -> None:
        """Close all toolboxes."""
        boxes, self._boxes = self._boxes, {}
        for box in boxes.values():
            await box.close()


class Toolbox:
    """The tools of some servers: their definitions for the model, and their calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._servers: list[McpConnection] = []
        self._owners: dict[str, tuple[McpConnection, str]] = {}
        self.parameters = ModelRequestParameters()
        self.broken = False

    async def add(self, servers: tuple[McpServer, ...]) -> None:
        """Start or reach every server, and request its tools."""
        definitions = [
            definition
            for server in servers
            for definition in await self._add_server(server, prefixed=len(servers) > 1)
        ]
        self.parameters = ModelRequestParameters(function_tools=definitions)

    async def call_all(self, calls: Sequence[ToolCallPart], steps: ProviderSteps) -> ModelRequest:
        """Call the tools concurrently, and return the message for the model."""
        working = [asyncio.ensure_future(self._call(call, steps)) for call in calls]
        await asyncio.gather(*working, return_exceptions=True)  # none goes on when one fails
        return ModelRequest(parts=[task.result() for task in working])

    async def close(self) -> None:
        """Stop the servers that were started."""
        for server in self._servers:
            await server.close()

    async def _add_server(self, wanted: McpServer, *, prefixed: bool) -> list[ToolDefinition]:
        from tallymark.models.mcp_connection import McpConnection  # noqa: PLC0415 (heavy)

        server = McpConnection(wanted)
        self._servers.append(server)
        prefix = f"{wanted.name}_" if prefixed and wanted.name else ""
        definitions = [_define_tool(tool, prefix) for tool in await server.open(self._name)]
        for definition in definitions:
            if definition.name in self._owners:
                raise ModelError(
                    f"{self._name}: two MCP servers have a tool {definition.name!r}",
                    hint="give each server a name of its own: it is put before its tools' names",
                )
            self._owners[definition.name] = (server, definition.name.removeprefix(prefix))
        return definitions

    async def _call(self, call: ToolCallPart, steps: ProviderSteps) -> ToolReturnPart:
        began = perf_counter()
        try:
            content, error = await self._read_result(call)
            seconds = perf_counter() - began
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
        steps.keep_tool_call(call, seconds, part.model_response_str(wrap_if_error=False), error)
        return part

    async def _read_result(self, call: ToolCallPart) -> tuple[Any, str | None]:
        if call.tool_name not in self._owners:  # models invent tools, and get this answer
            error = f"there is no tool {call.tool_name!r}"
            return error, error
        server, name = self._owners[call.tool_name]
        return await server.call(name, call.args_as_dict())


async def _open_toolbox(name: str, servers: tuple[McpServer, ...]) -> Toolbox:
    box = Toolbox(name)
    try:
        await box.add(servers)
    except BaseException:
        await box.close()
        raise
    return box


def _define_tool(tool: dict[str, Any], prefix: str) -> ToolDefinition:
    return ToolDefinition(
        name=prefix + tool["name"],
        description=tool.get("description"),
        parameters_json_schema=tool["inputSchema"],
    )
