"""The members of a JSON object whose text arrives in pieces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from grammars.schema.nodes import Json
from grammars.spelling.reading import read_json

_OUTSIDE = re.compile(r'["{}\[\],:]')
_INSIDE = re.compile(r'["\\]')


@dataclass(frozen=True)
class Begun:
    """The value of this key comes next."""

    key: str


@dataclass(frozen=True)
class Ended:
    """The value of this key is complete."""

    key: str
    value: Json


Step: TypeAlias = Begun | Ended


class MemberScanner:
    """Finds the members of the outermost object; what lies in them stays closed."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._key: str | None = None
        self._parts: list[str] = []  # of the key or value under way

    def feed(self, text: str) -> Iterator[Step]:
        """Reads on.

        Raises:
            ValueError: it is no JSON.
        """
        start = at = 0
        while at < len(text):
            if self._escaped:
                self._escaped, at = False, at + 1
                continue
            found = (_INSIDE if self._quoted else _OUTSIDE).search(text, at)
            if found is None:
                break
            at = found.end()
            if self._ends(found.group()):
                self._parts.append(text[start : found.start()])
                start = at
                yield from self._close(found.group())
        self._parts.append(text[start:])

    def _ends(self, sign: str) -> bool:
        """Counts a bracket, quote or sign; does it end a key or a value, or begin the object?"""
        if self._quoted:
            self._escaped = sign == "\\"
            self._quoted = sign != '"'
            return False
        if sign == '"':
            self._quoted = True
        elif sign in "{[":
            self._depth += 1
            return self._depth == 1
        elif sign in "}]":
            self._depth -= 1
            return self._depth == 0
        return self._depth == 1 and (sign == "," or (sign == ":" and self._key is None))

    def _close(self, sign: str) -> Iterator[Step]:
        text, self._parts = "".join(self._parts), []
        if sign == ":":
            key = self._key = str(read_json(text))
            yield Begun(key)
        elif self._key is not None:
            key, self._key = self._key, None
            yield Ended(key, read_json(text))
