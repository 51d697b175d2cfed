"""MCP servers whose tools this server offers and runs: which there are, connections for each API
key, and what a request wants of them. Start with `hosted_tools`; `mcp_pool` needs the extra `mcp`.
"""
