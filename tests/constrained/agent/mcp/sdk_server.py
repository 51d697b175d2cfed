"""An MCP server of the package `mcp`: on stdin and stdout, or at a port of 127.0.0.1.

python -m tests.constrained.agent.mcp.sdk_server [PORT [TRANSPORT]]
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel

READS = ToolAnnotations(read_only_hint=True)
PIXEL = b"\x89PNG of one pixel"
server = MCPServer("sdk", log_level="CRITICAL")


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> None:
    """Fails."""
    from mcp.server.mcpserver.exceptions import ToolError

    raise ToolError(why)


@server.tool()
def die() -> None:
    """Ends the process."""
    os._exit(3)


@server.tool(annotations=READS)
async def wait(path: str) -> str:
    """Waits; writes into a file how that ended."""
    Path(path).write_text("waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        Path(path).write_text("cancelled")
        raise
    return "done"


@server.tool(structured_output=False)
def draw() -> list[Any]:
    """Draws a picture."""
    return ["Here it is.", Image(data=PIXEL, format="png")]


@server.tool()
async def grow(context: Context) -> str:
    """Brings another tool, `shrink`."""

    def shrink() -> str:
        """Is new."""
        return "shrunk"

    server.add_tool(shrink)
    await context.notify_tools_changed()
    return "grown"


class Size(BaseModel):
    size: int


async def ask_size() -> Elicit[Size]:
    return Elicit("Which size?", Size)


@server.tool()
async def order(size: Annotated[Size, Resolve(ask_size)]) -> str:
    """Orders a shirt; asks for its size."""
    return f"ordered {size.size}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        transport: Any = sys.argv[2] if len(sys.argv) > 2 else "streamable-http"
        server.run(transport, port=int(sys.argv[1]))
    else:
        server.run()
