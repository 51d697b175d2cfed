"""MCP servers of the operator, whose tools this server offers and executes: connections for each
API key, and requests that take several turns.

Start with `active_run`, the agent loop of the library with turns of the server; `mcp_pool` needs
the extra `mcp`. `server.dialects.common.hosted_tools` has what a request uses of MCP servers.
"""
