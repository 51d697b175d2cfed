"""MCP on the command line: servers whose tools a command uses, and a model as a server.

Needs the library's `mcp` and `commands.request`. Start with `connection`; `execution` executes
calls for a user at a terminal, `command` is `constrained mcp`.
"""
