"""One MCP server, started or reached. Loads pydantic-ai's MCP side and fastmcp."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import jsonschema  # type: ignore[import-untyped]
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from pydantic_ai.mcp import MCPToolset

from tallymark.errors import ModelError
from tallymark.models.model_failures import one_line

if TYPE_CHECKING:
    from tallymark.models.model import McpServer

_START_SECONDS = 60.0


class McpConnection:
    """A server's tools, and its standard error."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._log: TextIO | None = None
        self._entered = False
        self._toolset: MCPToolset[Any] = self._make_toolset()

    async def open(self, model: str) -> list[dict[str, Any]]:
        """Connect, and return the server's tools in the protocol's own form."""
        jsonschema.validate({}, {})  # loads its parts before the first result is measured
        try:
            await self._toolset.__aenter__()
            self._entered = True
            return [tool.model_dump(by_alias=True) for tool in await self._toolset.list_tools()]
        except Exception as error:
            name = self._server.url or self._server.command
            said = self._read_last_words() or one_line(error)
            raise ModelError(
                f"{model}: the MCP server {name} cannot be used: {said}",
                hint="check its address or command",
            ) from error

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[Any, str | None]:
        """The tool's result, and its error: the model sees the tool's own failures."""
        try:
            return await self._toolset.direct_call_tool(tool, arguments), None
        except ToolError as failed:
            return str(failed), str(failed)

    async def close(self) -> None:
        """Disconnect, which ends a server that was started."""
        if self._entered:
            self._entered = False
            with suppress(Exception):  # it may be gone already
                await self._toolset.__aexit__(None, None, None)
        if self._log is not None:
            self._log.close()

    def _make_toolset(self) -> MCPToolset[Any]:
        return MCPToolset(
            self._server.url or self._make_transport(),
            headers=self._server.headers if self._server.url else None,
            tool_error_behavior="error",
            init_timeout=_START_SECONDS,
        )

    def _make_transport(self) -> StdioTransport:
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

    def _read_last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return one_line(lines[-1]) if lines else ""
