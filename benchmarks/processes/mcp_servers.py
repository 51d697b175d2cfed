"""Three small MCP servers: files, the web, SQLite. The well-known ones have such tools, too.

python -m benchmarks.processes.mcp_servers files FOLDER
python -m benchmarks.processes.mcp_servers web
python -m benchmarks.processes.mcp_servers data FILE
"""

import sqlite3
import sys
from pathlib import Path
from typing import Any

import httpx
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
WRITES = ToolAnnotations(read_only_hint=False)


def make_files(folder: str) -> MCPServer:
    """Files of a folder."""
    server, root = MCPServer("files", log_level="ERROR"), Path(folder).resolve()

    def find(path: str) -> Path:
        found = (root / path).resolve()
        if not found.is_relative_to(root):
            raise ValueError(f"{path} is outside of the folder")
        return found

    @server.tool(annotations=READS)
    def read_text_file(path: str) -> str:
        """Reads a file."""
        return find(path).read_text("utf-8")

    @server.tool(annotations=WRITES)
    def write_file(path: str, content: str) -> str:
        """Writes a file."""
        find(path).write_text(content, "utf-8")
        return f"Successfully wrote to {path}"

    @server.tool(annotations=READS)
    def list_directory(path: str) -> str:
        """Lists a folder."""
        return "\n".join(sorted(entry.name for entry in find(path).iterdir()))

    return server


def make_web() -> MCPServer:
    """Pages."""
    server = MCPServer("web", log_level="ERROR")

    @server.tool(annotations=READS)
    async def fetch(url: str) -> str:
        """Fetches a page."""
        async with httpx.AsyncClient() as client:
            return (await client.get(url)).text

    return server


def make_data(path: str) -> MCPServer:
    """Returns a database."""
    server = MCPServer("data", log_level="ERROR")

    def ask(query: str) -> list[Any]:
        with sqlite3.connect(path) as database:
            return database.execute(query).fetchall()

    @server.tool(annotations=READS)
    def read_query(query: str) -> str:
        """Runs a SELECT query."""
        return str(ask(query))

    @server.tool(annotations=WRITES)
    def write_query(query: str) -> str:
        """Runs an INSERT, UPDATE or DELETE query."""
        ask(query)
        return "done"

    @server.tool(annotations=READS)
    def list_tables() -> str:
        """Lists the tables."""
        return str(ask("SELECT name FROM sqlite_master"))

    return server


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    {"files": make_files, "web": make_web, "data": make_data}[kind](*rest).run()
