"""Reads sources of MCP servers: commands, addresses, and files that list them."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from constrained.agent.mcp.config_file import read_config, read_config_file
from constrained.agent.mcp.server import McpServer, McpSources, ServerAddress, ServerCommand
from constrained.errors import RequestError

NAMED = re.compile(r"([A-Za-z0-9_-]+)=(.+)", re.DOTALL)
HINT = "Give a command, an http:// address, or an mcp.json; NAME= in front names the server"


Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | McpServer
"""A command line or an address, with or without NAME= before it; the path or the content of an
`mcp.json`; a server."""


def read_sources(sources: Iterable[Source]) -> McpSources:
    """Reads sources of servers.

    Raises:
        RequestError: a source is invalid, or a file cannot be read.
    """
    servers: list[McpServer] = []
    notes: list[str] = []
    for source in sources:
        match source:
            case ServerCommand() | ServerAddress():
                servers.append(source)
                continue
            case str() if not _is_file(source):
                servers.append(_read_text(source))
                continue
            case str() | os.PathLike():
                read = read_config_file(source)
            case Mapping():
                read = read_config(source, "the configuration of MCP")
            case _:
                raise RequestError(f"{source!r} is no MCP server", where="/mcp", hint=HINT)
        servers += read.servers
        notes += read.notes
    if not servers:
        raise RequestError("there is no MCP server", where="/mcp", hint=HINT)
    return McpSources(tuple(servers), tuple(notes))


def _is_file(text: str) -> bool:
    return text.endswith(".json") and (Path(text).is_file() or not re.search(r"\s|://", text))


def _read_text(text: str) -> McpServer:
    if (named := NAMED.fullmatch(text)) is not None:
        return replace(_read_text(named[2]), name=named[1])
    if re.match(r"https?://", text):
        return ServerAddress(text)
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise RequestError(f"{text!r} is no command: {e}", where="/mcp") from e
    if not words:
        raise RequestError("the command of an MCP server is empty", where="/mcp", hint=HINT)
    return ServerCommand(words[0], tuple(words[1:]))
