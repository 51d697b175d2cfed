"""Describes a tool in few words, if the prompt does not have its JSON Schema.

Types are written as in TypeScript, which models know well. The mask enforces the whole schema, so
the description may be incomplete.
"""

import json
from collections.abc import Mapping
from typing import Any

from grammars.schema.pointers import find_value

MAX_VALUES = 20  # of an enumeration
DEEPEST = 6  # objects in objects, and references
ANY = "any"


def describe_tool(name: str, description: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describes a tool as JSON: its name, its description if it has one, and its parameters."""
    described: dict[str, Any] = {"name": name}
    if description:
        described["description"] = str(description)
    described["parameters"] = describe_parameters(schema)
    return described


def describe_parameters(schema: Mapping[str, Any]) -> dict[str, str]:
    """Describes the parameters of a tool: type and description by name; `?` marks optional ones."""
    described: dict[str, str] = {}
    required = schema.get("required") or ()
    for name, body in _read_properties(schema).items():
        described[_mark_optional(name, required)] = _describe(body, schema, DEEPEST)
    return described


def _read_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _mark_optional(name: str, required: Any) -> str:
    return name if name in required else f"{name}?"


def _describe(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    """Describes the type of a value, with its description."""
    text = _write_type(schema, root, depth)
    if isinstance(schema, Mapping) and schema.get("description"):
        text += f" ({schema['description']})"
    return text


def _write_type(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    if not isinstance(schema, Mapping) or depth == 0:
        return ANY
    if "$ref" in schema:
        return _write_type(_find_reference(schema["$ref"], root), root, depth - 1)
    if "const" in schema:
        return _write_value(schema["const"])
    if (values := schema.get("enum")) and isinstance(values, list):
        shown = [_write_value(value) for value in values[:MAX_VALUES]]
        if len(values) > MAX_VALUES:
            shown.append(f"... ({len(values):,} values)")
        return " | ".join(shown)
    for key in ("anyOf", "oneOf"):
        if (options := schema.get(key)) and isinstance(options, list):
            return _join_types([_write_type(one, root, depth - 1) for one in options])
    if isinstance(parts := schema.get("allOf"), list) and len(parts) == 1:
        return _write_type(parts[0], root, depth - 1)
    kinds = schema.get("type")
    if kinds and isinstance(kinds, list):
        one_kind = [{**schema, "type": kind} for kind in kinds]
        return _join_types([_write_type(one, root, depth) for one in one_kind])
    if kinds == "array":
        item = _write_type(schema.get("items"), root, depth - 1)
        return f"({item})[]" if " | " in item else f"{item}[]"
    if kinds == "object" or _read_properties(schema):
        return _write_object(schema, root, depth)
    if kinds == "string" and isinstance(schema.get("format"), str):
        return f"string<{schema['format']}>"
    return kinds if kinds and isinstance(kinds, str) else ANY


def _write_object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    required = schema.get("required") or ()
    members: list[str] = []
    for name, body in _read_properties(schema).items():
        members.append(f"{_mark_optional(name, required)}: {_describe(body, root, depth - 1)}")
    return "{" + ", ".join(members) + "}" if members else "object"


def _join_types(types: list[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _write_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _find_reference(reference: Any, root: Mapping[str, Any]) -> Any:
    """Resolves a reference within the document; returns None for all others."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return find_value(root, reference[1:])
