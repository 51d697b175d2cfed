"""The types of JSON Schema that values have and nodes allow, by name."""

from collections.abc import Container, Iterable, Iterator

from grammars.schema.json_values import Json
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Null,
    Number,
    Object,
    String,
)

ONE_TYPE: tuple[Flat, ...] = (Null(), Boolean(), Number(), Array(), Object(), String())
"""All values, as nodes of one type each."""


def name_types(value: Json) -> tuple[str, ...]:
    """Returns the types of a value, the narrowest first."""
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("number",)
        case str():
            return ("string",)
        case list():
            return ("array",)
        case _:
            return ("object",)


def has_type(value: Json, types: Container[str]) -> bool:
    return any(name in types for name in name_types(value))


def list_types(node: Flat) -> tuple[str, ...]:
    """Returns the types that a node allows; numbers also allow integers."""
    match node:
        case AnyValue():
            return ("null", "boolean", "integer", "number", "array", "object", "string")
        case Constant(values):
            return tuple(name_types(value)[0] for value in values)
        case Number(integer):
            return ("integer",) if integer else ("integer", "number")
        case String():
            return ("string",)
        case Boolean():
            return ("boolean",)
        case Null():
            return ("null",)
        case Array():
            return ("array",)
        case Object():
            return ("object",)


def split_types(nodes: Iterable[Flat]) -> Iterator[Flat]:
    for node in nodes:
        match node:
            case AnyValue():
                yield from ONE_TYPE
            case Constant(values):
                yield from (Constant((value,)) for value in values)
            case _:
                yield node
