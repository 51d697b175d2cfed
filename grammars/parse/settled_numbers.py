"""The numbers of JSON arguments, written as the schema means them while the text arrives: `2.0` is
`2` where an integer has to stand, which decoders of typed languages insist on."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from grammars.parse.buffer import Sign
from grammars.schema.nodes import Array, Constant, Flat, Number, Object, Schema, Union, flatten
from grammars.schema.numbers import settle
from grammars.schema.subschemas import is_list, is_object
from grammars.spelling.reading import read_json

_INTEGER = re.compile("-?[1-9][0-9]*|0")


@dataclass
class _Container:
    """An object or a list under way.

    Args:
        nodes: what it may be.
        is_object: it is an object.
        key: that of the member under way; None while it is read, or in a list.
        index: that of the item under way.
        key_parts: what is read of the key.
    """

    nodes: Sequence[Flat]
    is_object: bool
    key: str | None = None
    index: int = 0
    key_parts: list[str] = field(default_factory=list[str])


class NumberSettler:
    """Takes the text of arguments in pieces; a number is held back until it is complete. What is no
    JSON passes as it is: who reads all of it says so.

    Args:
        schema: that of the arguments; None: all numbers stay as they are.
    """

    def __init__(self, schema: Schema | None):
        self._schema = schema
        self._open: list[_Container] = []
        self._held: str | None = None  # of a number
        self._is_begun = False  # has the scalar under way begun?
        self._values: Sequence[Flat] = ()  # what the number that is held back may be

    def feed(self, text: str, signs: Sequence[Sign], start: int = 0) -> str:
        """The text to write.

        Args:
            text: the next piece.
            signs: all of those in it, with their places in this piece.
            start: where it begins; of the first piece, that is the brace of the arguments.
        """
        if self._schema is None:
            return text[start:]
        written: list[str] = []
        for sign in signs:
            written.append(self._take(text[start : sign.at]))
            written.append(self._end_scalar())
            written.append(sign.text)
            self._follow(sign.text)
            start = sign.at + 1
        written.append(self._take(text[start:]))
        return "".join(written)

    def _take(self, part: str) -> str:
        """A part of a key or of a scalar."""
        if self._held is not None:
            self._held += part
            return ""
        container = self._open[-1] if self._open else None
        if container is not None and container.is_object and container.key is None:
            container.key_parts.append(part)
            return part
        begun = part.lstrip()
        if not begun or self._is_begun:
            return part
        self._is_begun = True
        if begun[0] not in "-0123456789":
            return part
        self._values = self._find_values()
        if not any(map(_holds_numbers, self._values)):
            return part
        self._held = begun
        return part[: len(part) - len(begun)]

    def _end_scalar(self) -> str:
        """The number that was held back."""
        held, self._held = self._held, None
        self._is_begun = False
        if held is None or self._schema is None:
            return ""
        number = held.rstrip()
        if _INTEGER.fullmatch(number) and not any(isinstance(v, Constant) for v in self._values):
            return held
        try:
            read = read_json(number)
        except ValueError:
            return held
        meant = settle(read, replace(self._schema, node=Union(tuple(self._values))))
        if meant is read:
            return held
        return json.dumps(meant) + held[len(number) :]

    def _follow(self, sign: str) -> None:
        """Another place in the document."""
        assert self._schema is not None
        if sign in "{[":
            nodes = self._find_values() if self._open else self._schema.objects
            self._open.append(_Container(nodes, sign == "{"))
        elif sign in "}]":
            self._open.pop()
        elif sign == ":":
            container = self._open[-1]
            container.key = _read_key("".join(container.key_parts))
            if container.key is None:
                container.key, container.nodes = "", ()
        else:
            container = self._open[-1]
            container.key, container.key_parts = None, []
            container.index += 1

    def _find_values(self) -> Sequence[Flat]:
        """What the value that comes next may be."""
        if not self._open or self._schema is None:
            return ()
        container = self._open[-1]
        if not container.nodes:
            return ()
        found: list[Flat] = []
        for node in container.nodes:
            member = None
            if isinstance(node, Constant):
                found += _find_listed(node, container)
            if isinstance(node, Object) and container.key is not None:
                declared = node.find(container.key)
                member = None if declared is None else declared.node
            elif isinstance(node, Array) and not container.is_object:
                member = node.find(container.index)
            if member is not None:
                found += flatten(member, self._schema.definitions)
        return found


def _read_key(text: str) -> str | None:
    try:
        return str(read_json(text))
    except ValueError:
        return None


def _find_listed(node: Constant, container: _Container) -> Sequence[Constant]:
    """What listed objects or lists have in the place under way."""
    found: list[Constant] = []
    for value in node.values:
        if container.is_object and is_object(value) and container.key in value:
            found.append(Constant((value[container.key],)))
        elif not container.is_object and is_list(value) and container.index < len(value):
            found.append(Constant((value[container.index],)))
    return found


def _holds_numbers(node: Flat) -> bool:
    """May a number be read otherwise than it is written?"""
    return isinstance(node, Constant) or (isinstance(node, Number) and node.integer)
