"""Tools of MCP servers for a run. Needs the extra `mcp`.

Needs `model`, `tools` and the event loop of `remote`. Start with `servers`: it has a `connection`
to each server that `sources` describes, over one of the `transports`; `results` converts results of
tools to text.
"""

from importlib.util import find_spec

from constrained.errors.own_packages import install_command

if find_spec("mcp") is None:
    message = f"MCP needs the package mcp. Run: {install_command('mcp')}"
    raise ModuleNotFoundError(message, name="mcp")
