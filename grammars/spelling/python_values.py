"""The values of arguments in a Python call: strings, and values without quotes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Node,
    Null,
    Number,
    Object,
    String,
    flatten,
)

_ANY: tuple[Flat, ...] = (String(), Number(), Boolean(), Null(), Array(), Object())


@dataclass(frozen=True)
class Kinds:
    """The branches of a node: strings, constant strings, and values without quotes."""

    strings: tuple[String, ...]
    words: tuple[str, ...]
    others: tuple[Flat, ...]


def sort_kinds(node: Node, definitions: Mapping[str, Node]) -> Kinds:
    """Sorts the branches of a node by how they are written."""
    strings, words, others = list[String](), list[str](), list[Flat]()
    for branch in _part(flatten(node, definitions)):
        match branch:
            case String():
                strings.append(branch)
            case Constant(values):
                words += [value for value in values if isinstance(value, str)]
                if rest := tuple(value for value in values if not isinstance(value, str)):
                    others.append(Constant(rest))
            case _:
                others.append(branch)
    return Kinds(tuple(strings), tuple(dict.fromkeys(words)), tuple(others))


def _part(nodes: Iterable[Flat]) -> Iterable[Flat]:
    for node in nodes:
        yield from _ANY if isinstance(node, AnyValue) else (node,)
