"""Responses: `tool_search`, and tools with `defer_loading`, which the prompt does not have.

A search with `execution: "client"` is a function for the model: its calls are items of type
`tool_search_call`, and what the client answers, a `tool_search_output`, has the tools that it has
found. The model reads their descriptions there, and may call them from then on. So the prompt
stays the same in front of it, and cached.

A search that OpenAI runs itself is not run here: where a request has one, or none at all, all its
tools are in the prompt.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from constrained.tools.signature_text import describe_tool
from server.errors import HttpError
from server.settings import Settings
from server.turns.offered_tools import (
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


def read_tools(tools: Sequence[Json], items: Iterable[Json], settings: Settings) -> OfferedTools:
    """Reads the tools of a request, and those that the searches of its conversation have found.

    Args:
        tools: of the request.
        items: of the conversation.
        settings: of the server.

    Raises:
        HttpError: one of them cannot be; says where.
    """
    searches = [tool for tool in tools if tool.get("type") == SEARCH]
    if not any(_is_clients(tool) for tool in searches):
        return read_offered_tools([_drop_parameters(tool) for tool in tools], settings)
    listed = list(_list_deferred(tools))
    known: list[Json] = []
    for tool in tools:
        known.append(_write_function(tool, listed) if _is_clients(tool) else _drop_parameters(tool))
    offered = read_offered_tools(known, settings)
    deferred = set(_find_deferred(offered))
    shown = offered.defer(deferred, found=())
    found = _read_found(items, shown, settings)
    forms = {**found.forms, **shown.forms, SEARCH: ToolForm(SEARCH, is_search=True)}
    return replace(shown, forms=forms, hidden=found.functions, hidden_places=found.places)


def _is_clients(tool: Json) -> bool:
    return tool.get("type") == SEARCH and tool.get("execution") == "client"


def _drop_parameters(tool: Json) -> Json:
    """A search that nobody runs here without what would make a function of it."""
    return {"type": SEARCH} if tool.get("type") == SEARCH else tool


def _write_function(tool: Json, listed: Sequence[tuple[str, str]]) -> Json:
    """The search of a client as a function. Without parameters it loads tools by their names."""
    description, parameters = tool.get("description"), tool.get("parameters")
    if parameters is None:
        lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in listed]
        description = "\n".join([description or DESCRIPTION, *lines])
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
    """Names and descriptions of what can be loaded: tools, and namespaces with such tools."""
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
        if name is not None and function.get("defer_loading") is True:
            yield name


def _read_found(items: Iterable[Json], shown: OfferedTools, settings: Settings) -> OfferedTools:
    """The tools that searches have found, those of one name once: the last of them is the one that
    the model has read last."""
    given = [
        tool for item in items if item["type"] == "tool_search_output" for tool in item["tools"]
    ]
    read = read_offered_tools(given, settings)
    in_prompt = {find_function_name(function) for function in shown.functions}
    by_name: dict[Any, Any] = {}
    for number, function in enumerate(read.functions):
        name = find_function_name(function)
        by_name[number if name is None else name] = function
    kept = [function for name, function in by_name.items() if name not in in_prompt]
    return replace(read, functions=tuple(kept), places=("/input",) * len(kept))


def check_tools(tools: Sequence[Any], where: str) -> None:
    """Refuses what is no tool that a search can find.

    Raises:
        HttpError: says which.
    """
    for number, tool in enumerate(tools):
        place = f"{where}/{number}"
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            message = "a tool that was found has to have a name"
            raise HttpError(400, message, "invalid_value", where=f"{place}/name")
        if tool.get("type") == "namespace":
            members = tool.get("tools")
            if not isinstance(members, list):
                message = "a namespace has a list of tools"
                raise HttpError(400, message, "invalid_value", where=f"{place}/tools")
            check_tools(members, f"{place}/tools")
        elif not isinstance(tool.get("parameters") or {}, Mapping):
            message = "parameters have to be a JSON schema"
            raise HttpError(400, message, "invalid_value", where=f"{place}/parameters")


def describe_found(tools: Sequence[Json]) -> str:
    """What the model reads as the result of a search."""
    return json.dumps({"tools": list(_describe(tools, None))}, ensure_ascii=False)


def _describe(tools: Sequence[Any], namespace: str | None) -> Iterator[Json]:
    for tool in tools:
        name = join_name(namespace, str(tool.get("name")))
        if tool.get("type") == "namespace":
            yield from _describe(tool.get("tools") or (), name)
        else:
            schema = tool.get("parameters")
            yield describe_tool(name, tool.get("description"), schema or {})
