"""The command that starts the handwritten MCP server."""

import sys
from pathlib import Path
from typing import Any

from constrained.agent.mcp.server import ServerCommand


def raw(called: str = "raw", **options: Any) -> ServerCommand:
    """A server of the handwritten kind, and what it calls itself; it starts at once."""
    path = str(Path(__file__).parent / "raw_server.py")
    return ServerCommand(sys.executable, (path, called), **options)
