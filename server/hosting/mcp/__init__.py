"""MCP servers whose tools this server offers and executes: the configured servers, connections for
each API key, and what a request uses.

Start with `hosted_tools`; `mcp_pool` needs the extra `mcp`.
"""
