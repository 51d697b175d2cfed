"""Responses: `tool_search`, and tools with `defer_loading`, which are not in the prompt.

A search with `execution: "client"` is a function for the model: its calls are items of type
`tool_search_call`, and the client's answer, a `tool_search_output`, has the tools that it has
found. The model reads their descriptions there, and may call them from then on. So the prompt
before it stays the same, and cached.

A search with `execution: "server"`, OpenAI's default, is executed here: the tools that it finds
follow it in the same response. If a request has no search, all its tools are in the prompt.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from constrained.tools.search import NOTHING_FOUND
from constrained.tools.signature_text import describe_tool
from server.dialects.responses.client_tools import describe_client_tools, list_client_forms
from server.dialects.responses.mcp_tools import MCP
from server.errors import HttpError
from server.mcp.hosted_tools import NO_HOSTED, HostedOffer
from server.settings import Settings
from server.turns.offered_tools import (
    MAX_FOUND_TOOLS,
    OfferedTools,
    ToolForm,
    find_function_name,
    join_name,
    read_offered_tools,
)

Json = dict[str, Any]
SEARCH = "tool_search"
"""The type of the tool, and the name of its function."""
DESCRIPTION = "Loads tools by their names, so that they can be called. There are:"
PATHS = "What to load."


def read_tools(
    tools: Sequence[Json],
    items: Iterable[Json],
    settings: Settings,
    hosted: HostedOffer = NO_HOSTED,
) -> OfferedTools:
    """Reads the tools of a request, and those that the searches of its conversation have found.

    Args:
        tools: of the request.
        items: of the conversation.
        settings: of the server.
        hosted: the tools of MCP servers that it asks for.

    Raises:
        HttpError: a tool is invalid; says where.
        Error: a tool that a search would find is invalid.
    """
    searches = [tool for tool in tools if tool.get("type") == SEARCH]
    if not any(_is_clients(tool) for tool in searches):
        known = [_drop_parameters(tool) for tool in tools]
        offered = _offer(known, settings, hosted)
        deferred = {*_find_deferred(offered), *hosted.deferred}
        if not searches or not deferred:
            return offered
        skipped = tuple(tool for tool in offered.skipped if tool.type != SEARCH)
        return replace(offered.take_out(deferred, SEARCH, MAX_FOUND_TOOLS), skipped=skipped)
    if hosted.deferred:
        message = 'defer_loading of an MCP server needs a tool_search with execution "server"'
        raise HttpError(400, message, "unsupported_field", where="/tools")
    listed = list(_list_deferred(tools))
    known: list[Json] = []
    for tool in tools:
        known.append(_write_function(tool, listed) if _is_clients(tool) else _drop_parameters(tool))
    offered = _offer(known, settings, hosted)
    deferred = set(_find_deferred(offered))
    shown = offered.defer(deferred, found=())
    found = _read_found(items, shown, settings)
    forms = {**found.forms, **shown.forms, SEARCH: ToolForm(SEARCH, is_search=True)}
    return replace(shown, forms=forms, hidden=found.functions, hidden_places=found.places)


def _is_clients(tool: Json) -> bool:
    return tool.get("type") == SEARCH and tool.get("execution") == "client"


def _offer(tools: Sequence[Json], settings: Settings, hosted: HostedOffer) -> OfferedTools:
    """Returns the tools, followed by those of MCP servers."""
    offered = read_offered_tools(describe_client_tools(tools), settings, elsewhere=(MCP,))
    forms = {**offered.forms, **list_client_forms(tools)}
    return hosted.join(replace(offered, forms=forms), settings.max_tools)


def _drop_parameters(tool: Json) -> Json:
    """Removes the parameters from a search that this server does not support, so that it does not
    become a function."""
    return {"type": SEARCH} if tool.get("type") == SEARCH else tool


def _write_function(tool: Json, listed: Sequence[tuple[str, str]]) -> Json:
    """Returns a client's search as a function. Without parameters, it loads tools by name."""
    description, parameters = tool.get("description"), tool.get("parameters")
    if parameters is None:
        lines: list[str] = [description or DESCRIPTION]
        for name, text in listed:
            lines.append(f"- {name}: {text}" if text else f"- {name}")
        description = "\n".join(lines)
        names: Json = {"type": "string"}
        if listed:
            names["enum"] = [name for name, _ in listed]
        paths = {"type": "array", "items": names, "minItems": 1, "description": PATHS}
        parameters = {"type": "object", "properties": {"paths": paths}, "required": ["paths"]}
    return {
        "type": "function",
        "name": SEARCH,
        "description": description or "",
        "parameters": parameters,
    }


def _list_deferred(tools: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yields names and descriptions of what can be loaded: tools, and namespaces with such
    tools."""
    for number, tool in enumerate(tools):
        members = tool.get("tools")
        is_deferred = _is_deferred(tool, f"/tools/{number}")
        if tool.get("type") == "namespace" and isinstance(members, list):
            for index, member in enumerate(members):
                where = f"/tools/{number}/tools/{index}"
                is_deferred = _is_deferred(member, where) or is_deferred
        if is_deferred and isinstance(tool.get("name"), str):
            yield tool["name"], str(tool.get("description") or "")


def _is_deferred(tool: Any, where: str) -> bool:
    given = tool.get("defer_loading") if isinstance(tool, Mapping) else None
    if given is not None and not isinstance(given, bool):
        message = "defer_loading is not a boolean"
        raise HttpError(400, message, "invalid_value", where=f"{where}/defer_loading")
    return given is True


def _find_deferred(offered: OfferedTools) -> Iterator[str]:
    for function in offered.functions:
        name = find_function_name(function)
        is_clients = isinstance(function, Mapping)
        if is_clients and name is not None and function.get("defer_loading") is True:
            yield name


def _read_found(items: Iterable[Json], shown: OfferedTools, settings: Settings) -> OfferedTools:
    """Reads the tools that searches have found; of several with one name, the last, which the model
    has read last."""
    given: list[Json] = []
    for item in items:
        if item["type"] == "tool_search_output":
            given += item["tools"]
    read = read_offered_tools(given, settings)
    in_prompt = {find_function_name(function) for function in shown.functions}
    by_name: dict[Any, Any] = {}
    for number, function in enumerate(read.functions):
        name = find_function_name(function)
        by_name[number if name is None else name] = function
    kept = [function for name, function in by_name.items() if name not in in_prompt]
    return replace(read, functions=tuple(kept), places=("/input",) * len(kept))


def check_tools(tools: Sequence[Any], where: str) -> None:
    """Refuses values that are not tools which a search can find.

    Raises:
        HttpError: a value is not such a tool; with its JSON pointer.
    """
    for number, tool in enumerate(tools):
        place = f"{where}/{number}"
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            message = "a tool that was found must have a name"
            raise HttpError(400, message, "invalid_value", where=f"{place}/name")
        if tool.get("type") == "namespace":
            members = tool.get("tools")
            if not isinstance(members, list):
                message = "a namespace has a list of tools"
                raise HttpError(400, message, "invalid_value", where=f"{place}/tools")
            check_tools(members, f"{place}/tools")
        elif not isinstance(tool.get("parameters") or {}, Mapping):
            message = "parameters must be a JSON schema"
            raise HttpError(400, message, "invalid_value", where=f"{place}/parameters")


def describe_found(tools: Sequence[Json], *, is_hosted: bool = False) -> str:
    """Returns the result of a search as text for the model.

    Args:
        tools: the found tools.
        is_hosted: a server has searched; its text says so if nothing is found
            (`ToolSearch.search`).
    """
    result: Json = {"tools": list(_describe(tools, None))}
    if is_hosted and not tools:
        result["note"] = NOTHING_FOUND
    return json.dumps(result, ensure_ascii=False)


def show_found(result: Any, offered: OfferedTools) -> list[Json]:
    """Returns the tools that a search of this server has found, as the client knows them; those of
    MCP servers are functions.

    Args:
        result: of the search (`ToolSearch.search`).
        offered: the tools of the request.
    """
    assert offered.search is not None
    shown: list[Json] = []
    for found in result["tools"]:
        entry = offered.search.find_entry(found["name"])
        form = offered.find_form(entry.name)
        description = entry.body.get("description")
        if form.is_custom:
            shown.append({"type": "custom", "name": form.name, "description": description})
            continue
        function: Json = {
            "type": "function",
            "name": entry.name if form.server else form.name,
            "description": description,
            "parameters": entry.schema,
            "strict": None,
            "defer_loading": True,
        }
        if form.namespace:
            space = {"type": "namespace", "name": form.namespace, "description": ""}
            function = {**space, "tools": [function]}
        shown.append(function)
    return shown


def _describe(tools: Sequence[Any], namespace: str | None) -> Iterator[Json]:
    for tool in tools:
        name = join_name(namespace, str(tool.get("name")))
        if tool.get("type") == "namespace":
            yield from _describe(tool.get("tools") or (), name)
        else:
            schema = tool.get("parameters")
            yield describe_tool(name, tool.get("description"), schema or {})
