"""Reads tools and tool choices in the shapes of OpenAI Chat and Responses, Anthropic and MCP."""

import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.prompt.cache_scope import COMMON
from constrained.prompt.tools.functions import as_json
from grammars.errors import PolicyError, SchemaError, ToolError
from grammars.limits.byte_cache import MIB, keep_results
from grammars.schema.extent import find_long_part
from grammars.schema.lowering.lower import lower
from grammars.schema.lowering.tool_options import loosen, require_nonempty
from grammars.schema.nodes import Schema
from grammars.spelling.names import check_names
from grammars.turn import Choice, Policy, Think, Tool

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}
TOOLS = "/tools"
_NOT_WRITTEN = "the format of calls cannot write all of the schema, or its grammar is too costly"
MAX_TOOLS = 1000  # in one request
SCHEMAS = 64 * MIB  # of tools: 5 to 30 kB each, mostly
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Entry:
    """A tool of a request, as JSON; `body`: the object in it with the name and the schema."""

    given: Any
    tool: Mapping[str, Any]
    text: str
    body: Mapping[str, Any]
    shown: Mapping[str, Any]
    name: str
    strict: bool
    repeatable: bool
    place: str

    @property
    def schema(self) -> Mapping[str, Any]:
        return _find_schema(self.body)

    def lower(self, *, nonempty: bool = False, scope: str = COMMON) -> Tool:
        """Reads the schema; `nonempty`: a required string has at least one character."""
        try:
            schema = _lower_text(self.text, self.strict, nonempty, scope)
        except SchemaError as e:
            where = self._point_to(e.where or "")
            raise SchemaError(f"tool {self.name!r}: {e.message}", where=where, hint=e.hint) from e
        description = str(self.body.get("description") or "")
        return Tool(self.name, schema, description=description, strict=self.strict)

    def check_length(self, schema: Schema, room: int | None) -> None:
        """Refuses a tool whose shortest arguments have more characters than `room`."""
        if room is None or schema.least <= room:
            return
        raise SchemaError(
            f"tool {self.name!r}: its arguments need at least {schema.least:,} characters, but the "
            f"context has room for at most {room:,}",
            where=self._point_to(find_long_part(schema.node, schema.definitions, room)),
            hint="Lower the minimum, or raise the context length (-c)",
        )

    def _point_to(self, where: str) -> str:
        function = "" if self.body is self.tool else "/function"
        return f"{self.place}{function}/{_find_key(self.body)}{where}"


def loosen_tool(tool: Tool) -> Tool:
    """Returns the tool with a mask for the shape of its schema only; calls are checked more."""
    return replace(tool, schema=loosen(tool.schema, _NOT_WRITTEN))


def read_tools(tools: Any, where: str = TOOLS) -> tuple[Tool, ...]:
    """Reads a list of tools: JSON of OpenAI (nested or flat), Anthropic or MCP, an MCP tool as an
    object, a callable, a pydantic model or dataclass, or a `FunctionTool`. ToolError: one is no
    tool, or a name is there twice; SchemaError: a schema cannot be enforced; `where` is the
    pointer."""
    return tuple(entry.lower() for entry in drop_copies(read_entries(tools, where)))


def read_entries(tools: Any, where: str = TOOLS, *, max_tools: int = MAX_TOOLS) -> list[Entry]:
    """Reads a list of tools, but not their schemas; two may have the same name."""
    if not isinstance(tools, list | tuple):
        hint = 'Write [{"type": "function", "function": {"name": ..., "parameters": {...}}}]'
        if callable(tools):
            hint = f"Write [{getattr(tools, '__name__', '...')}]"
        kind = type(tools).__name__
        raise ToolError(f"tools must be a list, not {kind}", where=where, hint=hint)
    if len(tools) > max_tools:
        message = f"there are {len(tools):,} tools, the limit is {max_tools:,}"
        raise ToolError(message, where=where, hint="Offer fewer tools")
    return [_read_entry(tool, f"{where}/{i}") for i, tool in enumerate(tools)]


def drop_copies(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries without JSON objects that clients send twice; functions could differ in
    what they do. ToolError: two different tools have the same name."""
    texts = set[str]()
    kept: list[Entry] = []
    for entry in entries:
        is_object = isinstance(entry.given, Mapping)
        if is_object and entry.text in texts:
            continue
        if is_object:
            texts.add(entry.text)
        kept.append(entry)
    check_names([entry.name for entry in kept], [entry.place for entry in kept])
    return kept


def _read_entry(given: Any, place: str) -> Entry:
    try:
        tool = as_json(given)
    except ToolError as e:
        raise ToolError(e.message, where=place, hint=e.hint) from e
    text = _encode(tool, place)
    body, where = _body(tool, place)
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise ToolError("a tool has no name", where=f"{where}/name", hint="Give it a name")
    # For Chat Completions, the default of `strict` is false, but the schema is enforced anyway.
    strict = _read_switch(body, "strict", default=True, where=where)
    repeatable = _read_switch(body, "repeatable", default=False, where=where)
    key = _find_key(body)
    if key is not None and not isinstance(body[key], Mapping):
        message = f"tool {name!r}: its parameters are not a JSON Schema object"
        hint = 'Write {"type": "object", "properties": {...}}'
        raise ToolError(message, where=f"{where}/{key}", hint=hint)
    return Entry(
        given,
        tool,
        text,
        body,
        shown=_shape_for_openai(tool),
        name=name,
        strict=strict,
        repeatable=repeatable,
        place=place,
    )


def _read_switch(body: Mapping[str, Any], key: str, *, default: bool, where: str) -> bool:
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        message = f"tool {body['name']!r}: {key} is {reprlib.repr(value)}, not a boolean"
        raise ToolError(message, where=f"{where}/{key}", hint="Use true or false")
    return value


def _encode(tool: Any, where: str) -> str:
    try:
        text = _JSON.encode(tool)
        text.encode()  # raises an error for a lone surrogate, which UTF-8 cannot encode
    except UnicodeEncodeError as e:
        message = "a tool is not JSON: lone surrogates are not valid in text"
        raise ToolError(message, where=where, hint="Replace it") from e
    except (TypeError, ValueError) as e:
        raise ToolError(f"a tool is not JSON: {e}", where=where) from e
    except RecursionError as e:
        raise ToolError("a tool is nested too deeply", where=where, hint="Simplify it") from e
    return text


def _find_key(body: Mapping[str, Any]) -> str | None:
    """Returns the key of the schema, which depends on the API; None: there is no schema."""
    for key in _SCHEMA_KEYS:
        if body.get(key) is not None:
            return key
    return None


def _find_schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    key = _find_key(body)
    return NO_ARGUMENTS if key is None else body[key]


@keep_results("schemas", SCHEMAS)
def _lower_text(text: str, strict: bool, nonempty: bool, scope: str) -> Schema:
    """Lowers a schema that is given as JSON text, since that is the key of the cache, and the
    caller may change the tool. All requests of a conversation have the same tools."""
    body, _ = _body(json.loads(text), "")
    schema = lower(_find_schema(body))
    if not strict:
        schema = loosen(schema)
    if nonempty:
        schema = require_nonempty(schema)
    return schema


def forget_schemas() -> None:
    _lower_text.cache.clear()


def _body(tool: Any, where: str) -> tuple[Mapping[str, Any], str]:
    if not isinstance(tool, Mapping):
        raise ToolError("a tool must be an object", where=where)
    if (function := tool.get("function")) is None:
        return tool, where
    if not isinstance(function, Mapping):
        raise ToolError("`function` must be an object", where=f"{where}/function")
    return function, f"{where}/function"


def as_openai(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns the tools as chat templates expect them, with keys in the client's order."""
    return [{**entry.shown} for entry in read_entries(tools)]


def _shape_for_openai(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("function") is not None:
        return {"type": "function", **tool}
    function: dict[str, Any] = {}
    for key, value in tool.items():
        if key in _SCHEMA_KEYS and value is not None:
            function["parameters"] = value
        elif key != "type" and value is not None:
            function[key] = value
    function.setdefault("parameters", dict(NO_ARGUMENTS))
    return {"type": "function", "function": function}


def read_choice(choice: Any) -> Any:
    """Returns a `tool_choice`; a text that is no word of OpenAI or Anthropic names a tool."""
    if not isinstance(choice, str) or choice in ("auto", "none", "required", "any"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def read_policy(
    choice: Any = None, *, parallel: bool = True, think: Think = Think.OPTIONAL
) -> Policy:
    """Reads a `tool_choice` of OpenAI or Anthropic; PolicyError: the form is unknown."""
    match choice:
        case {"type": str(), "disable_parallel_tool_use": True, **rest}:
            return read_policy({**rest, "type": choice["type"]}, parallel=False, think=think)
        case None | "auto" | {"type": "auto"}:
            return Policy(Choice.AUTO, parallel=parallel, think=think)
        case "none" | {"type": "none"}:
            return Policy(Choice.NONE, parallel=parallel, think=think)
        case "required" | "any" | {"type": "required" | "any"}:
            return Policy(Choice.REQUIRED, parallel=parallel, think=think)
        case {"type": "allowed_tools", "allowed_tools": {"tools": list(allowed)} as body}:
            policy = _allow(allowed, mode=body.get("mode", "auto"))
            return replace(policy, parallel=parallel, think=think)
        case {"type": "allowed_tools", "tools": list(allowed)}:
            policy = _allow(allowed, mode=choice.get("mode", "auto"))
            return replace(policy, parallel=parallel, think=think)
        case {"function": {"name": str(name)}} | {"type": "function" | "tool", "name": str(name)}:
            return Policy.named(name, think)
        case _:
            raise PolicyError(
                f"tool_choice {reprlib.repr(choice)} is not known",
                where="/tool_choice",
                hint='Use "auto", "none", "required" or '
                '{"type": "function", "function": {"name": ...}}',
            )


def _allow(tools: list[Any], *, mode: Any) -> Policy:
    given = [_body(tool, "/tool_choice")[0].get("name") for tool in tools]
    names = tuple(name for name in given if isinstance(name, str))
    if mode not in ("auto", "required") or len(names) < len(given):
        message = "allowed_tools needs a mode (auto or required) and tools with names"
        raise PolicyError(message, where="/tool_choice")
    return Policy(Choice(mode), names)
