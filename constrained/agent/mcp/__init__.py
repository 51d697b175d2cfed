"""Tools of MCP servers for a run. Needs the extra `mcp`.

Needs `model`, `tools` and the event loop of `remote`. Start with `servers`: it has a `connection`
to each server that `sources` and `config_file` describe, over one of the `transports`; `tool_names`
gives their tools names for the model, `results` converts their results to text.
"""

from importlib.util import find_spec

from constrained.errors.own_packages import install_command

if find_spec("mcp") is None:
    message = f"MCP needs the package mcp. Run: {install_command('mcp')}"
    raise ModuleNotFoundError(message, name="mcp")
