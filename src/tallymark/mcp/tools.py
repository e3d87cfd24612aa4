"""All tools together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.mcp import competing, measuring
from tallymark.mcp.tool_server import ToolServer

if TYPE_CHECKING:
    from tallymark.service.callers import Caller
    from tallymark.service.service import Service


TOOLS = (*competing.TOOLS, *measuring.TOOLS)


def make_tool_server(service: Service, caller: Caller | None = None) -> ToolServer:
    """Make the tools of `/mcp` and `tally mcp`; on stdio there is one `caller`."""
    return ToolServer(service, TOOLS, caller=caller)
