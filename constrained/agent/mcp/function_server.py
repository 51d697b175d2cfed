"""The functions of a Python file as an MCP server, on stdin and stdout: the program that
`constrained serve --tools FILE.py` starts."""

import asyncio
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)

from constrained.agent.actions import aexecute_call
from constrained.agent.mcp.server import ServerCommand
from constrained.agent.mcp.tool_names import make_word
from constrained.prompt.tools.call_result import Outcome
from constrained.prompt.tools.functions import FunctionTool
from constrained.prompt.tools.python_file import load_functions
from grammars.errors import Error
from grammars.turn import ToolCall


def make_command(path: Path) -> ServerCommand:
    """Returns the command that serves the functions of a file, with the environment of this
    process."""
    arguments = ("-m", "constrained.agent.mcp.function_server", str(path))
    return ServerCommand(sys.executable, arguments, env=dict(os.environ), name=make_word(path.stem))


def make_server(name: str, tools: list[FunctionTool]) -> Server[Any]:
    """Returns an MCP server with these tools."""

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_describe(tool) for tool in tools])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        result = await aexecute_call(ToolCall(params.name, params.arguments or {}), tools)
        content = [TextContent(type="text", text=result.content)]
        return CallToolResult(content=[*content], is_error=result.outcome is not Outcome.DONE)

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


def _describe(tool: FunctionTool) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        annotations=ToolAnnotations(read_only_hint=tool.read_only),
        _meta={"repeatable": True} if tool.repeatable else None,
    )


async def _serve(name: str, tools: list[FunctionTool]) -> None:
    async with stdio_server() as (read, write):
        server = make_server(name, tools)
        await server.run(read, write, server.create_initialization_options())


def main(path: str) -> None:
    """Serves the functions of a file, until stdin ends."""
    try:
        with redirect_stdout(sys.stderr):  # what the file prints is no message to the client
            tools = load_functions(path)
    except Error as error:
        sys.exit(f"constrained: error: {error}")
    asyncio.run(_serve(Path(path).stem, tools))


if __name__ == "__main__":
    main(sys.argv[1])
