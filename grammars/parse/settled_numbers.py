"""The numbers of JSON arguments, written as the schema means them while the text arrives: `2.0` is
`2` where an integer has to stand, which decoders of typed languages insist on.

Where an object or a list may be one of several (a union, or listed values), only all of it tells
which one is meant. From a number on that one of them reads otherwise than it is written, the text
is held back until the outermost such value is complete.
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
from grammars.schema.numbers import is_number, settle
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

    @property
    def place(self) -> str | int | None:
        """Where the value under way stands in it."""
        return self.key if self.is_object else self.index


@dataclass(frozen=True)
class _HeldNumber:
    """A number that is not settled.

    Args:
        text: how it is written, perhaps with white space behind it.
        path: the keys and indexes that lead to it from the choice that it is in.
    """

    text: str
    path: Sequence[str | int | None]


_Part: TypeAlias = str | Sign


@dataclass
class _Choice:
    """An object or a list under way that may be one of several; no other is around it.

    Args:
        values: what it may be.
        depth: how many containers are around it.
        start: where it begins, or goes on, in the piece under way.
        parts: its text in the pieces before.
        held: what is held back, from the first number on that is not settled.
    """

    values: Sequence[Flat]
    depth: int
    start: int
    parts: list[str] = field(default_factory=list[str])
    held: list[_Part | _HeldNumber] = field(default_factory=list[_Part | _HeldNumber])


class NumberSettler:
    """Takes the text of arguments in pieces; a number is held back until it is complete. What is no
    JSON passes as it is: who reads all of it says so.

    Args:
        schema: that of the arguments; None: all numbers stay as they are.

    Attributes:
        signs: those in the text that `feed` has returned last.
    """

    def __init__(self, schema: Schema | None):
        self._schema = schema
        self._open: list[_Container] = []
        self._choice: _Choice | None = None
        self._ready: list[_Part] = []  # what `feed` is to return
        self._number: str | None = None  # what is read of the number under way
        self._is_begun = False  # has the scalar under way begun?
        self._values: Sequence[Flat] = ()  # what the number under way may be
        self.signs: Sequence[Sign] = ()

    def feed(self, text: str, signs: Sequence[Sign], start: int = 0) -> str:
        """The text to write.

        Args:
            text: the next piece.
            signs: all of those in it, with their places in this piece.
            start: where it begins; of the first piece, that is the brace of the arguments.
        """
        if self._schema is None:
            self.signs = [Sign(s.text, s.at - start, s.level) for s in signs] if start else signs
            return text[start:]
        if self._choice is not None:
            self._choice.start = start
        for sign in signs:
            self._take(text[start : sign.at])
            self._end_scalar()
            self._write(sign)
            self._follow(sign, text)
            start = sign.at + 1
        self._take(text[start:])
        if self._choice is not None:
            self._choice.parts.append(text[self._choice.start :])
        return self._hand_out()

    def _write(self, part: _Part) -> None:
        if self._choice is not None and self._choice.held:
            self._choice.held.append(part)
        else:
            self._ready.append(part)

    def _hand_out(self) -> str:
        """All that is ready."""
        texts: list[str] = []
        signs: list[Sign] = []
        at = 0
        for part in self._ready:
            if isinstance(part, Sign):
                text = part.text
                signs.append(Sign(text, at, part.level))
            else:
                text = part
            texts.append(text)
            at += len(text)
        self.signs = signs
        self._ready = []
        return "".join(texts)

    def _take(self, part: str) -> None:
        """A part of a key or of a scalar."""
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
        """Writes the number under way, or holds it back."""
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
            path = [container.place for container in self._open[self._choice.depth :]]
            self._choice.held.append(_HeldNumber(text, path))

    def _settle(self, value: Json, nodes: Sequence[Flat]) -> Json:
        """The value as the first of these means it that it fits."""
        assert self._schema is not None
        return settle(value, replace(self._schema, node=Union(tuple(nodes))))

    def _follow(self, sign: Sign, text: str) -> None:
        """Another place in the document, behind a sign of the piece."""
        if sign.text in "{[":
            self._begin(sign)
        elif sign.text in "}]":
            self._open.pop()
            if self._choice is not None and len(self._open) == self._choice.depth:
                self._choice.parts.append(text[self._choice.start : sign.at + 1])
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
        """An object or a list begins."""
        is_object = sign.text == "{"
        values = self._find_values()
        nodes = [value for value in values if _may_hold(value, is_object)]
        if self._choice is None:
            if any(isinstance(node, AnyValue) for node in nodes):
                nodes = []  # it is read as it is written
            if len(nodes) > 1 or any(isinstance(node, Constant) for node in nodes):
                self._choice = _Choice(values, len(self._open), sign.at)
        self._open.append(_Container(nodes, is_object))

    def _decide(self, choice: _Choice) -> None:
        """The object or list is complete that may have been one of several."""
        self._choice = None
        if not choice.held:
            return
        value: Json = None
        with suppress(ValueError):  # in what is no JSON, numbers stay as they are
            value = self._settle(read_json("".join(choice.parts)), choice.values)
        for part in choice.held:
            if isinstance(part, _HeldNumber):
                part = _spell(part.text, _find_part(value, part.path))
            self._ready.append(part)

    def _find_values(self) -> Sequence[Flat]:
        """What the value that comes next may be."""
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
    """What listed objects or lists have in the place under way."""
    found: list[Constant] = []
    for value in node.values:
        if container.is_object and is_object(value) and container.key in value:
            found.append(Constant((value[container.key],)))
        elif not container.is_object and is_list(value) and container.index < len(value):
            found.append(Constant((value[container.index],)))
    return found


def _find_part(value: Json, path: Sequence[str | int | None]) -> Json:
    """What stands there in the value; None: nothing, as the text repeats a key."""
    for place in path:
        if isinstance(place, str) and is_object(value):
            value = value.get(place)
        elif isinstance(place, int) and is_list(value) and place < len(value):
            value = value[place]
        else:
            return None
    return value


def _spell(text: str, meant: Json) -> str:
    """The number that is meant, as it is written if it is that one; None: it is not known."""
    number = text.rstrip()
    if not is_number(meant) or are_same(meant, read_json(number)):
        return text
    return json.dumps(meant) + text[len(number) :]


def _may_hold(node: Flat, is_object: bool) -> bool:
    """May an object, or else a list, be meant?"""
    match node:
        case AnyValue():
            return True
        case Object():
            return is_object
        case Array():
            return not is_object
        case Constant(values):
            return any(isinstance(value, dict if is_object else list) for value in values)
        case _:
            return False


def _holds_numbers(node: Flat) -> bool:
    """May a number be read otherwise than it is written?"""
    return isinstance(node, Constant) or (isinstance(node, Number) and node.integer)
