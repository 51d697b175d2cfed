"""Reads sources of MCP servers: commands, addresses, and `mcp.json` in the form of Claude Desktop
(`mcpServers`) or VS Code (`servers`)."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from constrained.agent.mcp.server import (
    HttpTransport,
    McpServer,
    McpSources,
    ServerAddress,
    ServerCommand,
)
from constrained.engine.files.input_files import read_input
from constrained.errors import RequestError
from grammars.schema.pointers import escape as escape_pointer

NAMED = re.compile(r"([A-Za-z0-9_-]+)=(.+)", re.DOTALL)
HINT = "Give a command, an http:// address, or an mcp.json; NAME= in front names the server"
SERVERS = ("mcpServers", "servers")
COMMAND_FIELDS = {"command", "args", "env", "cwd"}
ADDRESS_FIELDS = {"url", "headers"}
COMMON_FIELDS = {"type", "disabled", "name", "description"}
REFUSED = {
    "envFile": "write its variables into `env`",
    "sandboxEnabled": "servers are not kept in a sandbox here; start a command that does it",
    "sandbox": "servers are not kept in a sandbox here; start a command that does it",
    "oauth": "give a header with the token",
    "headersHelper": "write the headers into `headers`, with ${VARIABLE} for what is secret",
}
"""Unsupported fields that would change how a server runs, each with an alternative."""
TRANSPORTS = {
    "sse": HttpTransport.SSE,
    "streamable-http": HttpTransport.STREAMABLE,
    "streamableHttp": HttpTransport.STREAMABLE,
}
"""The transport of each type; `http`, as in VS Code, may be either HTTP transport."""
VARIABLE = re.compile(r"\$\{((?:(?!\$\{)[^}])*+)\}")
"""Variables: ${NAME} and ${NAME:-default}, or ${env:NAME} and ${input:ID} of VS Code."""


class ConfigReader:
    """Reads the servers of a file, given as JSON and by its name for messages."""

    def __init__(self, document: Mapping[str, Any], name: str):
        self._name = name
        self._document = document
        self._notes: list[str] = []
        self._inputs: dict[str, Mapping[str, Any]] = {}

    def read(self) -> McpSources:
        """Returns the servers that are not disabled. Unsupported fields that would change how a
        server runs, and unknown variables, are errors."""
        keys = [key for key in SERVERS if key in self._document]
        if len(keys) != 1:
            raise self._error("", "it must have `mcpServers`, or `servers` as in VS Code")
        self._read_inputs()
        entries = self._document[keys[0]]
        if not isinstance(entries, Mapping):
            raise self._error(f"/{keys[0]}", "the servers must be an object, by their names")
        servers: list[McpServer] = []
        for name, entry in entries.items():
            where = f"/{keys[0]}/{escape_pointer(name)}"
            if not isinstance(entry, Mapping):
                raise self._error(where, "a server must be an object")
            if entry.get("disabled") is True:
                self._notes.append(f"{self._name}: the server {name!r} is disabled")
            else:
                servers.append(self._read_server(name, entry, where))
        return McpSources(tuple(servers), tuple(self._notes))

    def _read_inputs(self) -> None:
        inputs = self._document.get("inputs", [])
        for number, entry in enumerate(inputs if isinstance(inputs, list) else [inputs]):
            if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
                raise self._error(f"/inputs/{number}", "an input must have an id")
            self._inputs[entry["id"]] = entry

    def _read_server(self, name: str, entry: Mapping[str, Any], where: str) -> McpServer:
        for key, advice in REFUSED.items():
            if entry.get(key):
                raise self._error(f"{where}/{key}", f"`{key}` is not supported", advice)
        kind = entry.get("type", "http" if "url" in entry else "stdio")
        match kind:
            case "stdio" | "local":
                known = COMMAND_FIELDS
            case "http" | "streamable-http" | "streamableHttp" | "remote" | "sse":
                known = ADDRESS_FIELDS
            case _:
                raise self._error(f"{where}/type", f"{kind!r} is neither stdio nor http nor sse")
        for key in entry.keys() - known - COMMON_FIELDS:
            self._notes.append(f"{self._name}: {where}/{key} is ignored")
        if known is ADDRESS_FIELDS:
            url = self._read_text(entry.get("url"), f"{where}/url")
            if not re.match(r"https?://", url):
                raise self._error(f"{where}/url", f"{url!r} is no http:// or https:// address")
            headers = self._read_texts(entry.get("headers"), f"{where}/headers")
            return ServerAddress(url, headers, name, TRANSPORTS.get(kind, HttpTransport.ANY))
        args = entry.get("args", [])
        if not isinstance(args, list):
            raise self._error(f"{where}/args", "the arguments must be a list")
        cwd = entry.get("cwd")
        command = self._read_text(entry.get("command"), f"{where}/command")
        if not command:
            raise self._error(f"{where}/command", "it is empty")
        return ServerCommand(
            command,
            tuple(self._read_text(arg, f"{where}/args/{i}") for i, arg in enumerate(args)),
            env=self._read_texts(entry.get("env"), f"{where}/env"),
            cwd=None if cwd is None else self._read_text(cwd, f"{where}/cwd"),
            name=name,
        )

    def _read_texts(self, given: Any, where: str) -> dict[str, str]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise self._error(where, "it must be an object of texts")
        texts: dict[str, str] = {}
        for key, value in given.items():
            texts[key] = self._read_text(value, f"{where}/{escape_pointer(key)}")
        return texts

    def _read_text(self, given: Any, where: str) -> str:
        if isinstance(given, int | float) and not isinstance(given, bool):
            given = str(given)  # for example a port
        if not isinstance(given, str):
            raise self._error(where, "it must be a text")
        if "${" in VARIABLE.sub(" ", given):
            hint = "A variable ends with }, and its default cannot contain another one"
            raise self._error(where, "a `${` in it does not begin a variable", hint)
        return VARIABLE.sub(lambda found: self._find_variable(found[1], where), given)

    def _find_variable(self, variable: str, where: str) -> str:
        """Returns the value of ${variable}."""
        if variable.startswith("input:"):
            return self._find_input(variable.removeprefix("input:"), where)
        name, _, default = variable.removeprefix("env:").partition(":-")
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and ":" not in name:
            if name in os.environ:
                return os.environ[name]
            if ":-" in variable:
                return default
            if name == "workspaceFolder":
                hint = "Write the path"
                raise self._error(where, "${workspaceFolder} is known to VS Code alone", hint)
            hint = f"Set it: export {name}=..."
            raise self._error(where, f"the variable {name} is not set", hint)
        hint = "Use ${NAME}, of an environment variable"
        raise self._error(where, f"${{{variable}}} is not known", hint)

    def _find_input(self, id: str, where: str) -> str:
        """Returns an input, which VS Code would ask the user for; here it comes from the
        environment."""
        if id not in self._inputs:
            raise self._error(where, f"there is no input {id!r} in `inputs`")
        name = re.sub(r"\W", "_", id, flags=re.ASCII).upper()
        if name in os.environ:
            return os.environ[name]
        default = self._inputs[id].get("default")
        if isinstance(default, str):
            return default
        hint = f"Set it: export {name}=..."
        raise self._error(where, f"nobody is asked for the input {id!r}", hint)

    def _error(self, where: str, message: str, hint: str | None = None) -> RequestError:
        return RequestError(f"{self._name}: {message}", where=where, hint=hint)


def _read_file(path: str | os.PathLike[str]) -> McpSources:
    name = os.fspath(path)
    try:
        document = json.loads(read_input(path).decode("utf-8-sig"))
    except OSError as e:
        hint = "Check the path of the list of MCP servers"
        raise RequestError(f"{name}: {e.strerror}", hint=hint) from e
    except (ValueError, RecursionError) as e:  # also text that is not UTF-8
        hint = "Comments and trailing commas are no JSON"
        raise RequestError(f"{name} is not JSON: {e}", hint=hint) from e
    if not isinstance(document, Mapping):
        raise RequestError(f"{name} is no object", where="")
    return ConfigReader(document, name).read()


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
                read = _read_file(source)
            case Mapping():
                read = ConfigReader(source, "the configuration of MCP").read()
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
