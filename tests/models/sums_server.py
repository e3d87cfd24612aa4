"""A real MCP server over standard input and output, for the tests of tools."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def secret() -> str:
    """What the environment variable SECRET holds."""
    return os.environ.get("SECRET", "nothing")


@server.tool()
def fail() -> str:
    """Never works."""
    raise ValueError("it never works")


@server.tool()
def die() -> str:
    """Ends the server in the middle of the call, the first time."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
