"""Writes the numbers of streamed JSON as the schema means them: `2.0` becomes `2` for an
integer, since decoders of typed languages require it.

If an object or list may match several schemas (a union, or listed values), only the complete value
shows which one is meant. In such a value, text is held back from the first number that one of the
schemas reads differently, until the outermost value of this kind is complete.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from grammars.parse.buffer import Sign
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Constant,
    Flat,
    Json,
    Number,
    Object,
    Schema,
    Union,
    are_same,
    flatten,
)
from grammars.schema.numbers import is_number, normalise_numbers
from grammars.schema.subschemas import is_list, is_object
from grammars.spelling.reading import read_json

_INTEGER = re.compile("-?[1-9][0-9]*|0")


@dataclass
class _Container:
    """An object or list that is being read.

    Args:
        nodes: the nodes that it may match.
        is_object: it is an object.
        key: the key of the current member; None while the key is read, and in a list.
        index: the index of the current item.
        key_parts: the parts of the key that have been read.
    """

    nodes: Sequence[Flat]
    is_object: bool
    key: str | None = None
    index: int = 0
    key_parts: list[str] = field(default_factory=list[str])

    @property
    def step(self) -> str | int | None:
        """The key or index of the current value."""
        return self.key if self.is_object else self.index


@dataclass(frozen=True)
class _HeldNumber:
    """A number that is held back.

    Args:
        text: the number as written, perhaps with white space after it.
        path: the keys and indexes from the outermost choice to the number.
    """

    text: str
    path: Sequence[str | int | None]


_Part: TypeAlias = str | Sign


@dataclass
class _Choice:
    """The outermost object or list that may match several nodes.

    Args:
        values: the nodes that it may match.
        depth: how many containers enclose it.
        start: where it begins or continues in the current piece.
        parts: its text in earlier pieces.
        held: the text that is held back, from the first unsettled number on.
    """

    values: Sequence[Flat]
    depth: int
    start: int
    parts: list[str] = field(default_factory=list[str])
    held: list[_Part | _HeldNumber] = field(default_factory=list[_Part | _HeldNumber])


class NumberNormaliser:
    """Rewrites the text of arguments or an answer in pieces; each number waits until it is
    complete. Text that is not JSON passes unchanged: the parser of the whole text reports it.

    Args:
        schema: the schema of the text; None: numbers stay as written.

    Attributes:
        signs: the signs in the last text that `feed` returned.
    """

    def __init__(self, schema: Schema | None):
        self._schema = schema
        self._open: list[_Container] = []
        self._choice: _Choice | None = None
        self._ready: list[_Part] = []  # the next result of `feed`
        self._number: str | None = None  # the part of the current number that is read
        self._is_begun = False  # the current scalar has begun
        self._values: Sequence[Flat] = ()  # the nodes that the current number may match
        self.signs: Sequence[Sign] = ()

    def feed(self, text: str, signs: Sequence[Sign], start: int = 0) -> str:
        """Returns the next text.

        Args:
            text: the next piece.
            signs: all signs in the piece, with their offsets in it.
            start: where to begin: in the first piece, at the opening brace of the arguments.
        """
        if self._schema is None:
            self.signs = signs
            if start:
                self.signs = [replace(sign, offset=sign.offset - start) for sign in signs]
            return text[start:]
        if self._choice is not None:
            self._choice.start = start
        for sign in signs:
            self._take(text[start : sign.offset])
            self._end_scalar()
            self._write(sign)
            self._follow(sign, text)
            start = sign.offset + 1
        self._take(text[start:])
        if self._choice is not None:
            self._choice.parts.append(text[self._choice.start :])
        return self._hand_out()

    def close(self) -> str:
        """Returns what is held back at the end of the text; a number that ends with it is
        rewritten, those of a value that is cut stay as written."""
        self._end_scalar()
        if self._choice is not None:
            self._decide(self._choice)
        return self._hand_out()

    def _write(self, part: _Part) -> None:
        if self._choice is not None and self._choice.held:
            self._choice.held.append(part)
        else:
            self._ready.append(part)

    def _hand_out(self) -> str:
        """Returns everything that is ready."""
        texts: list[str] = []
        signs: list[Sign] = []
        offset = 0
        for part in self._ready:
            if isinstance(part, Sign):
                text = part.text
                signs.append(Sign(text, offset, part.level))
            else:
                text = part
            texts.append(text)
            offset += len(text)
        self.signs = signs
        self._ready = []
        return "".join(texts)

    def _take(self, part: str) -> None:
        """Adds a part of a key or scalar."""
        if self._number is not None:
            self._number += part
            return
        container = self._open[-1] if self._open else None
        if container is not None and container.is_object and container.key is None:
            container.key_parts.append(part)
            self._write(part)
            return
        begun = part.lstrip()
        if not begun or self._is_begun:
            self._write(part)
            return
        self._is_begun = True
        if begun[0] in "-0123456789":
            self._values = self._find_values()
            if any(map(_holds_numbers, self._values)):
                self._number = begun
                part = part[: len(part) - len(begun)]
        self._write(part)

    def _end_scalar(self) -> None:
        """Writes the current number, or holds it back."""
        text, self._number = self._number, None
        self._is_begun = False
        if text is None:
            return
        number = text.rstrip()
        if _INTEGER.fullmatch(number) and not any(isinstance(v, Constant) for v in self._values):
            self._write(text)
            return
        try:
            read = read_json(number)
        except ValueError:
            self._write(text)
            return
        if self._choice is None:
            self._write(_spell(text, self._settle(read, self._values)))
        elif all(self._settle(read, [value]) is read for value in self._values):
            self._write(text)
        else:
            path = [container.step for container in self._open[self._choice.depth :]]
            self._choice.held.append(_HeldNumber(text, path))

    def _settle(self, value: Json, nodes: Sequence[Flat]) -> Json:
        """Converts the value as the first node means it that the value fits."""
        assert self._schema is not None
        return normalise_numbers(value, replace(self._schema, node=Union(tuple(nodes))))

    def _follow(self, sign: Sign, text: str) -> None:
        """Moves to the next position in the document, after a sign."""
        if sign.text in "{[":
            self._begin(sign)
        elif sign.text in "}]":
            self._open.pop()
            if self._choice is not None and len(self._open) == self._choice.depth:
                self._choice.parts.append(text[self._choice.start : sign.offset + 1])
                self._decide(self._choice)
        elif sign.text == ":":
            container = self._open[-1]
            container.key = _read_key("".join(container.key_parts))
            if container.key is None:
                container.key, container.nodes = "", ()
        else:
            container = self._open[-1]
            container.key, container.key_parts = None, []
            container.index += 1

    def _begin(self, sign: Sign) -> None:
        """Begins an object or list."""
        is_object = sign.text == "{"
        values = self._find_values()
        nodes = [value for value in values if _may_hold(value, is_object)]
        if self._choice is None:
            if any(isinstance(node, AnyValue) for node in nodes):
                nodes = []  # its numbers stay as written
            if len(nodes) > 1 or any(isinstance(node, Constant) for node in nodes):
                self._choice = _Choice(values, len(self._open), sign.offset)
        self._open.append(_Container(nodes, is_object))

    def _decide(self, choice: _Choice) -> None:
        """Settles the held numbers of the choice, which is complete."""
        self._choice = None
        if not choice.held:
            return
        value: Json = None
        with suppress(ValueError):  # if it is not JSON, numbers stay as written
            value = self._settle(read_json("".join(choice.parts)), choice.values)
        for part in choice.held:
            if isinstance(part, _HeldNumber):
                part = _spell(part.text, _find_part(value, part.path))
            self._ready.append(part)

    def _find_values(self) -> Sequence[Flat]:
        """Returns the nodes that the next value may match."""
        assert self._schema is not None
        if not self._open:
            return list(flatten(self._schema.node, self._schema.definitions))
        container = self._open[-1]
        found: dict[int, Flat] = {}  # several objects may share their members
        for node in container.nodes:
            member = None
            if isinstance(node, Constant):
                found |= _by_identity(_find_listed(node, container))
            if isinstance(node, Object) and container.key is not None:
                declared = node.find(container.key)
                member = None if declared is None else declared.node
            elif isinstance(node, Array) and not container.is_object:
                member = node.find(container.index)
            if member is not None:
                found |= _by_identity(flatten(member, self._schema.definitions))
        return list(found.values())


def _by_identity(nodes: Iterable[Flat]) -> dict[int, Flat]:
    return {id(node): node for node in nodes}


def _read_key(text: str) -> str | None:
    try:
        return str(read_json(text))
    except ValueError:
        return None


def _find_listed(node: Constant, container: _Container) -> Sequence[Constant]:
    """Returns the values at the current position of listed objects or lists."""
    found: list[Constant] = []
    for value in node.values:
        if container.is_object and is_object(value) and container.key in value:
            found.append(Constant((value[container.key],)))
        elif not container.is_object and is_list(value) and container.index < len(value):
            found.append(Constant((value[container.index],)))
    return found


def _find_part(value: Json, path: Sequence[str | int | None]) -> Json:
    """Returns the value at this path; None if there is none, since the text repeats a key."""
    for step in path:
        if isinstance(step, str) and is_object(value):
            value = value.get(step)
        elif isinstance(step, int) and is_list(value) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _spell(text: str, meant: Json) -> str:
    """Returns the number that is meant, in its written form if the two are equal; `meant` None: not
    known."""
    number = text.rstrip()
    if not is_number(meant) or are_same(meant, read_json(number)):
        return text
    return json.dumps(meant) + text[len(number) :]


def _may_hold(node: Flat, is_object: bool) -> bool:
    """Returns whether the node allows an object (or else a list)."""
    match node:
        case AnyValue():
            return True
        case Object():
            return is_object
        case Array():
            return not is_object
        case Constant(values):
            kind = dict if is_object else list
            return any(isinstance(value, kind) for value in values)
        case _:
            return False


def _holds_numbers(node: Flat) -> bool:
    """Returns whether a number of the node may be read differently than written."""
    return isinstance(node, Constant) or (isinstance(node, Number) and node.integer)
