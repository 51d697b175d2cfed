"""JSON texts of a value: as Python writes it, and with what JSON leaves to the writer drawn at
random, as encoders of other languages choose it: white space, escapes, numbers, the order of keys.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from constrained.inspect.replay.schemas import spell_plain
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object

VARIED = ("white space", "escapes", "numbers", "key order")
WAYS = ("plain", "Python", *VARIED, "all of it")
"""The ways to write a value, the commonest first."""

_LINES = ("\n", "\r\n")
_INDENTS = ("  ", "    ", "\t", "")
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "/": "\\/"}
_ESCAPED = {'"': '\\"', "\\": "\\\\"}
_EXPONENT = re.compile(r"e([+-])0+")
_OF_HTML = frozenset("<>&'")
_GROUPS = ("slash", "of HTML", "beyond ASCII", "upper case")


class Spaces(NamedTuple):
    """The white space of a text: after a comma, after a colon; line break and indentation, or
    "" for one line."""

    comma: str = " "
    colon: str = " "
    line: str = ""
    indent: str = ""


def write_instance(value: Json, way: str, rng: random.Random) -> str:
    """Returns the text of a value, written in one of WAYS."""
    match way:
        case "plain":
            return json.dumps(value, ensure_ascii=False)
        case "Python":
            return json.dumps(value)
        case _:
            varied = VARIED if way == "all of it" else (way,)
            spaces = _draw_spaces(rng) if "white space" in varied else Spaces()
            return _Writer(rng, varied, spaces).write(value)


def _draw_spaces(rng: random.Random) -> Spaces:
    if rng.random() < 0.4:
        return Spaces(rng.choice(["", " "]), rng.choice(["", " "]))
    return Spaces("", rng.choice(["", " "]), rng.choice(_LINES), rng.choice(_INDENTS))


class _Writer:
    """Writes values in one way.

    Args:
        varied: of VARIED.
        spaces: its white space.
    """

    def __init__(self, rng: random.Random, varied: tuple[str, ...], spaces: Spaces):
        self._rng = rng
        self._varied = varied
        self._spaces = spaces
        # An encoder treats all characters of a group alike.
        self._escapes = {group: rng.random() < 0.5 for group in _GROUPS} | {
            "control": True,
            "others": False,
        }

    def write(self, value: Json, level: int = 0) -> str:
        """Returns the text of a value at a level of nesting."""
        if is_object(value):
            keys = list(value)
            if "key order" in self._varied:
                self._rng.shuffle(keys)
            colon = f":{self._spaces.colon}"
            members = [self.write(key) + colon + self.write(value[key], level + 1) for key in keys]
            return self._enclose("{}", members, level)
        if is_list(value):
            return self._enclose("[]", [self.write(item, level + 1) for item in value], level)
        if isinstance(value, str) and "escapes" in self._varied:
            return '"' + "".join(map(self._write_character, value)) + '"'
        if isinstance(value, float) and "numbers" in self._varied:
            return self._rng.choice(list(_list_numbers(value)))
        return spell_plain(value)

    def _enclose(self, brackets: str, parts: list[str], level: int) -> str:
        opening, closing = brackets
        line = self._spaces.line
        if not parts or not line:
            return opening + f",{self._spaces.comma}".join(parts) + closing
        inner = line + self._spaces.indent * (level + 1)
        outer = line + self._spaces.indent * level
        return opening + inner + f",{inner}".join(parts) + outer + closing

    def _write_character(self, character: str) -> str:
        if character in _ESCAPED:
            return _ESCAPED[character]
        if not self._escapes[_name_group(character)]:
            return character
        if character in _SHORT:
            return _SHORT[character]
        units = character.encode("utf-16-be").hex()
        units = units.upper() if self._escapes["upper case"] else units
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _name_group(character: str) -> str:
    if character == "/":
        return "slash"
    if character < " ":
        return "control"
    if character in _OF_HTML:
        return "of HTML"
    return "others" if character.isascii() else "beyond ASCII"


def _list_numbers(number: float) -> Iterator[str]:
    """Yields texts of the same number that some encoder writes."""
    plain = repr(number)
    yield plain
    if number.is_integer() and abs(number) < 1e21:  # as JavaScript writes it
        yield str(int(number))
    if "e" in plain:
        yield plain.replace("e", "E")
        yield _EXPONENT.sub(r"e\1", plain)
        return
    yield plain + "0"
    mantissa, exponent = f"{number:.16e}".split("e")
    scientific = f"{mantissa.rstrip('0').rstrip('.')}E{int(exponent)}"
    if number and float(scientific) == number:
        yield scientific
