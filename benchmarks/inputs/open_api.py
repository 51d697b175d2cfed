"""Rows for `benchmarks.schemas` from OpenAPI descriptions of services (versions 2 to 3.1, JSON or
YAML): each operation as the arguments of a tool, as libraries make tools of operations.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from grammars.schema.nodes import escape
from grammars.schema.subschemas import Json, is_list, is_object, look_up

_METHODS = ("get", "put", "post", "delete", "patch")
_OF_PARAMETERS = frozenset(["name", "in", "required", "style", "explode", "allowEmptyValue"])
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The reader of libyaml, where it is there: six times as fast."""

DOCUMENTS = frozenset([".json", ".yaml", ".yml"])
"""How the names of descriptions end."""


def read_operations(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the operations with arguments, as rows `{id, schema}`.

    Parameters are properties; so are the members of a body that is a plain object, another body is
    the property `body`. What the schemas refer to is in `$defs`.

    Args:
        path: the description.
    """
    document = _read_document(path)
    for place, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                tool = _Tool(document)
                tool.add_operation(item[method], item.get("parameters", []))
                if tool.properties:
                    yield {"id": f"{path.stem} {method} {place}", "schema": tool.write()}


def _read_document(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".json":
        return json.loads(text)
    return json.loads(json.dumps(yaml.load(text, _LOADER), default=str))  # YAML has dates


class _Tool:
    """The arguments of an operation under way."""

    def __init__(self, document: Mapping[str, Any]):
        self._document = document
        self.properties: dict[str, Json] = {}
        self._required: list[str] = []
        self._names: dict[str, str] = {}  # of the definitions, by reference
        self._definitions: dict[str, Json] = {}

    def add_operation(self, operation: Mapping[str, Any], shared: list[Any]) -> None:
        """Adds its parameters and its body."""
        for parameter in [*shared, *operation.get("parameters", [])]:
            self._add_parameter(self._resolve(parameter))
        if "requestBody" in operation:
            body = self._resolve(operation["requestBody"])
            content: Mapping[str, Any] = body.get("content", {})
            if content:
                media = content.get("application/json", next(iter(content.values())))
                self._add_body(media.get("schema", {}), required=body.get("required", False))

    def write(self) -> dict[str, Json]:
        """Returns the schema."""
        schema: dict[str, Json] = {"type": "object", "properties": self.properties}
        if self._required:
            schema["required"] = list(dict.fromkeys(self._required))
        if self._definitions:
            schema["$defs"] = self._definitions
        return schema

    def _resolve(self, part: Any) -> Any:
        while "$ref" in part:
            part = look_up(self._document, part["$ref"], "")
        return part

    def _add_parameter(self, parameter: Mapping[str, Any]) -> None:
        required = parameter.get("required", False)
        if parameter["in"] == "body":
            self._add_body(parameter["schema"], required=required)
            return
        schema = parameter.get("schema")
        if schema is None and "content" in parameter:
            schema = next(iter(parameter["content"].values())).get("schema", {})
        if schema is None:  # version 2: the parameter is its own schema
            schema = {key: parameter[key] for key in parameter if key not in _OF_PARAMETERS}
        self._add(parameter["name"], schema, required=required)

    def _add_body(self, schema: Mapping[str, Any], *, required: bool) -> None:
        body = self._resolve(schema)
        others = {"allOf", "anyOf", "oneOf", "additionalProperties"} & body.keys()
        members: Mapping[str, Any] = body.get("properties", {})
        if others or not members or members.keys() & self.properties.keys():
            self._add("body", schema, required=required)
            return
        for name, member in members.items():
            self._add(name, member, required=name in body.get("required", []))

    def _add(self, name: str, schema: Json, *, required: bool) -> None:
        self.properties[name] = self._move(schema)
        if required:
            self._required.append(name)

    def _move(self, value: Any) -> Any:
        """Returns a copy, its references into `$defs`."""
        if is_list(value):
            return [self._move(item) for item in value]
        if not is_object(value):
            return value
        moved = {key: self._move(member) for key, member in value.items()}
        reference = value.get("$ref")
        if isinstance(reference, str):
            moved["$ref"] = f"#/$defs/{escape(self._define(reference))}"
        return moved

    def _define(self, reference: str) -> str:
        if reference not in self._names:
            name = reference.rpartition("/")[2]
            if name in self._definitions:
                name = reference
            self._names[reference] = name
            self._definitions[name] = True  # taken, while what it refers to is moved
            self._definitions[name] = self._move(look_up(self._document, reference, ""))
        return self._names[reference]
