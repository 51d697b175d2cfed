"""The functions of a Python file as an MCP server, on stdin and stdout: the program that
`constrained serve --tools FILE.py` starts."""

import asyncio
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from constrained.agent.actions import aexecute_call
from constrained.agent.mcp.server import ServerCommand
from constrained.agent.mcp.tool_names import make_word
from constrained.errors import RequestError
from constrained.prompt.tools.call_result import Outcome
from constrained.prompt.tools.functions import FunctionTool
from constrained.prompt.tools.python_file import load_functions
from grammars.errors import Error
from grammars.turn import ToolCall


def make_command(path: str) -> ServerCommand:
    """Returns the command that serves the functions of a file, with the environment of this
    process, since the file is a program of its user.

    Raises:
        RequestError: this is no Python file.
    """
    file = Path(path).absolute()
    if file.suffix != ".py" or not file.is_file():
        hint = "Name a Python file; requests have tools in JSON with them"
        raise RequestError(f"--tools: {path} is no Python file", where="/tools", hint=hint)
    # -P: what lies in the current folder, such as a file mcp.py, is not imported by its name.
    arguments = ("-P", "-m", __spec__.name, str(file))
    return ServerCommand(sys.executable, arguments, env=dict(os.environ), name=make_word(file.stem))


async def serve(tools: list[FunctionTool]) -> None:
    """Serves tools until stdin ends."""

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_describe(tool) for tool in tools])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        result = await aexecute_call(ToolCall(params.name, params.arguments or {}), tools)
        text = types.TextContent(type="text", text=result.content)
        return types.CallToolResult(content=[text], is_error=result.outcome is not Outcome.DONE)

    server = Server("functions", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _describe(tool: FunctionTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        annotations=types.ToolAnnotations(read_only_hint=tool.read_only),
        _meta={"repeatable": tool.repeatable},
    )


if __name__ == "__main__":
    try:
        with redirect_stdout(sys.stderr):  # what the file prints is no message to the client
            functions = load_functions(sys.argv[1])
    except Error as error:
        sys.exit(f"constrained: error: {error}")
    asyncio.run(serve(functions))
