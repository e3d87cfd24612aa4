"""The tools that agents use by MCP: at `/mcp` of a server, and by `tally mcp` on stdio."""
