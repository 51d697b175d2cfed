"""Reads what stands for one character in regular expressions of ECMA 262: classes and escapes; and
quantifiers."""

import re
from dataclasses import dataclass

from grammars.regex.characters import Characters, find_property, fold_case
from grammars.regex.scanner import PatternScanner

MAX_QUANTIFIERS = 4_000
"""The maximum number in a row: llguidance's work grows with its square, and takes 0.2 s for this
many."""
_MAX_COUNT = 10**9

LINE_ENDS = Characters.of("\n\r\u2028\u2029")
_DIGITS = Characters(((0x30, 0x39),))
WORD = Characters.collect([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACE = Characters.collect(
    (
        *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
        (0xFEFF, 0xFEFF),
    )
)
_CLASSES = {"d": _DIGITS, "w": WORD, "s": _SPACE}
_CONTROLS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_OF_PLANE = 0xFFFF
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")

TIMES = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_FIXED = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_RANGE = re.compile(r"-(?=[^\]])", re.DOTALL)
_BRACES = re.compile(r"\{([A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?)\}")
_TWO_DIGITS = re.compile("[0-9a-fA-F]{2}")
_FOUR_DIGITS = re.compile("[0-9a-fA-F]{4}")
_CODE_POINT = re.compile(r"\{([0-9a-fA-F]+)\}")
_SURROGATES = re.compile(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_LETTER = re.compile("[A-Za-z]")
_LETTER_IN_CLASS = re.compile("[A-Za-z0-9_]")
_OCTAL = re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?")


@dataclass(frozen=True)
class Member:
    """What stands for characters in a pattern.

    Args:
        characters: the characters.
        code: its number, if it is one character; surrogates are one, too.
        is_odd: jsonschema-rs does not read it so.
        is_shorthand: it reads it so, except beside assertions and back references.
    """

    characters: Characters
    code: int | None
    is_odd: bool = False
    is_shorthand: bool = False


class CharacterScanner(PatternScanner):
    """Reads classes, escapes and quantifiers.

    Args:
        text: the pattern.
        is_unicode: it has the flag `u`.
    """

    def __init__(self, text: str, *, is_unicode: bool):
        super().__init__(text)
        self.is_unicode = is_unicode
        self._quantifiers = 0

    def read_quantifier(self) -> tuple[int, int | None] | None:
        """Reads a quantifier; None: here is none."""
        begin = self.at
        if self.peek() in _FIXED:
            fewest, most = _FIXED[self.peek()]
            self.at += 1
        elif times := self.find(TIMES):
            fewest = int(times[1][:12])
            most = fewest
            if times[2]:
                most = int(times[3][:12]) if times[3] else None
            if most is not None and fewest > most:
                raise self.fail("the numbers of the quantifier are out of order", begin)
            if max(fewest, most or 0) > _MAX_COUNT:
                raise self.fail("the quantifier is too large", begin)
        else:
            return None
        self.takes("?")  # lazy: the texts are the same
        self._quantifiers += 1
        if self._quantifiers > MAX_QUANTIFIERS:
            raise self.fail(f"more than {MAX_QUANTIFIERS:,} quantifiers")
        return fewest, most

    def read_class(self, *, ignores_case: bool) -> Member:
        """Reads a class in brackets."""
        self.at += 1
        is_negated = self.takes("^")
        ranges: list[tuple[int, int]] = []
        is_odd = self.peek() == "]"
        is_shorthand = False
        while not self.takes("]"):
            begin, low = self.at, self._read_member()
            members = [low]
            if self.find(_RANGE) is None:
                ranges += low.characters.ranges
            else:
                high = self._read_member()
                members.append(high)
                if low.code is not None and high.code is not None:
                    if low.code > high.code:
                        raise self.fail("the range is out of order", begin)
                    ranges.append((low.code, high.code))
                elif self.is_unicode:
                    raise self.fail("a class cannot begin or end a range", begin)
                else:
                    is_odd = True
                    ranges += [*low.characters.ranges, (0x2D, 0x2D), *high.characters.ranges]
            is_odd = is_odd or any(member.is_odd for member in members)
            is_shorthand = is_shorthand or any(member.is_shorthand for member in members)
        characters = Characters.collect(ranges)
        if ignores_case:
            characters = fold_case(characters)
        if is_negated:
            characters = characters.complement()
        return Member(characters, None, is_odd, is_shorthand)

    def _read_member(self) -> Member:
        """Reads a character or a class inside of brackets."""
        character = self.peek()
        if not character:
            raise self.fail("the bracket is not closed")
        if character != "\\":
            self.at += 1
            return Member(Characters.of(character), ord(character))
        name = self.peek(1)
        if name == "b":
            self.at += 2
            return Member(Characters.of("\b"), ord("\b"), is_odd=True)
        if name == "-" and self.is_unicode:
            self.at += 2
            return Member(Characters.of("-"), ord("-"))
        if name and name in "Bk" and self.is_unicode:
            raise self.fail("the escape is invalid")
        return self.read_escape(is_inside=True)

    def read_escape(self, *, is_inside: bool) -> Member:
        """Reads an escape that stands for characters."""
        name = self.peek(1)
        if not name:
            raise self.fail("the escape has no character")
        self.at += 2
        if (members := _CLASSES.get(name.lower())) is not None:
            characters = members if name.islower() else members.complement()
            return Member(characters, None, is_shorthand=True)
        if name in _CONTROLS:
            return Member(Characters.of(_CONTROLS[name]), ord(_CONTROLS[name]))
        if name in "pP" and self.is_unicode:
            return Member(self._read_property(is_negated=name == "P"), None)
        code = self._read_number(name, is_inside=is_inside)
        if code is not None:
            characters = Characters.collect([(code, code)])  # without surrogates
            is_usual = name in "xu" and characters.ranges and code <= _LAST_OF_PLANE
            return Member(characters, code, is_odd=not is_usual)
        if self.is_unicode and name not in _SYNTAX:
            raise self.fail("the escape is invalid")
        if name == "c":  # not followed by a letter
            self.at -= 1
            return Member(Characters.of("\\"), ord("\\"), is_odd=True)
        return Member(Characters.of(name), ord(name), is_odd=name.isalnum())

    def _read_property(self, *, is_negated: bool) -> Characters:
        """Reads the braces of `\\p{...}`."""
        begin = self.at
        braces = self.find(_BRACES)
        characters = None if braces is None else find_property(braces[1])
        if characters is None:
            raise self.fail("there is no such property", begin)
        return characters.complement() if is_negated else characters

    def _read_number(self, name: str, *, is_inside: bool) -> int | None:
        """Reads the rest of an escape that gives the number of a character; None: it is none."""
        match name:
            case "x":
                if found := self.find(_TWO_DIGITS):
                    return int(found[0], 16)
            case "u":
                return self._read_code_point()
            case "c":
                is_wide = is_inside and not self.is_unicode
                if found := self.find(_LETTER_IN_CLASS if is_wide else _LETTER):
                    return ord(found[0]) % 32
            case "0" if self.peek() not in tuple("0123456789"):
                return 0
            case _ if name in "01234567" and not self.is_unicode:
                self.at -= 1
                if found := self.find(_OCTAL):
                    return int(found[0], 8)
            case _:
                pass
        if self.is_unicode and name.isalnum():
            raise self.fail("the escape is invalid")
        return None

    def _read_code_point(self) -> int | None:
        """Reads the digits of `\\u`; a pair of surrogates is one character."""
        begin = self.at
        if self.is_unicode and (braces := self.find(_CODE_POINT)):
            code = int(braces[1], 16)
            if code > 0x10FFFF:
                raise self.fail("there is no such character", begin)
            return code
        if pair := self.find(_SURROGATES):
            high, low = int(pair[1], 16), int(pair[2], 16)
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        if digits := self.find(_FOUR_DIGITS):
            return int(digits[0], 16)
        if self.is_unicode:
            raise self.fail("the escape is invalid")
        return None
