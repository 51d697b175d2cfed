"""MCP on the command line: servers whose tools a command has, and a model as a server.

Needs the library's `mcp` and `commands.request`. Start with `connection`; `execution` carries calls
out for a user at a terminal, `command` is `constrained mcp`.
"""
