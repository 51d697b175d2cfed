"""MCP on the command line: servers whose tools a command uses.

Needs the library's `mcp` and `commands.request`. Start with `connection`; `execution` executes
calls for a user at a terminal.
"""
