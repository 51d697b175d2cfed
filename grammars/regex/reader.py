"""Reads regular expressions in Rust syntax.

Reads only what `spelled`, `ranges`, `string_formats` and `grammars.turn_grammar` write: no anchors,
look-around, or classes that depend on flags. Two kinds of groups are our own: `(?&a|b)` matches
what all of the options match, `(?~a)` what the expression does not match.
"""

import re
import sys

from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import spend
from grammars.regex.characters import EVERY, Characters, find_category
from grammars.regex.expressions import (
    EMPTY_SET,
    CharacterClass,
    Expression,
    Repeat,
    alternate,
    complement,
    concatenate,
    intersect,
    list_parts,
    repeat,
)

COMMENT = re.compile(r"\(\?#[^)]*\)")
NAMED = re.compile(r"\(\?P?<([^<>=!()][^<>()]*)>")
SAME_NAME = re.compile(r"\(\?P=([^()]*)\)")
"""Parts that several languages of patterns write so."""

CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,8})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,8})\})"
)
_CATEGORY = re.compile(r"\\([pP])(?:\{(\^?)([A-Za-z]+)\}|([A-Za-z]))")
_TIMES = re.compile(r"\{([0-9]{1,9})(,?)([0-9]{0,9})\}")  # engines refuse larger counts
_GROUP = re.compile(r"\((?:\?(?:P?<[^>=!]*>|(s)?:|([&~])))?")
_LONG_SET = re.compile(r"\[(?!\^?\])(?:[^\[\]\\]|\\.){100,}\]", re.DOTALL)
"""A set of so many characters, without sets inside of it."""
FIXED_TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LINE = Characters.of("\n").complement()
COMMON_SPACE = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""White space of ECMA 262 and of Unicode."""
_SPACE = Characters.of(COMMON_SPACE + "\x85")
"""Unicode's White_Space, the meaning of `\\s` in Rust."""


class PatternError(ValueError):
    """No regular expression of this language; `at` is the index of the wrong character."""

    def __init__(self, reason: str, at: int):
        super().__init__(f"{reason}, at {at}")
        self.reason = reason
        self.at = at


class PatternScanner:
    """Reads a text from left to right; `at` is the index of the next character."""

    def __init__(self, text: str):
        self.text = text
        self.at: int = 0

    def peek(self, ahead: int = 0) -> str:
        """Returns the character after this many others; "" behind the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def takes(self, text: str) -> bool:
        """Reads the text, if it is here."""
        found = self.text.startswith(text, self.at)
        if found:
            self.at += len(text)
        return found

    def find(self, part: re.Pattern[str]) -> re.Match[str] | None:
        """Reads what the expression matches here; None: nothing."""
        found = part.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def fail(self, reason: str, at: int | None = None) -> PatternError:
        """Returns the error for that place, by default for this one."""
        return PatternError(reason, self.at if at is None else at)


class UnreadableError(ValueError):
    """The expression has syntax that this reader does not know."""


def read(regex: str) -> Expression:
    """Reads an expression; raises UnreadableError."""
    reader = _RegexReader(regex)
    expression = alternate(reader.options())
    if reader.at < len(regex):
        raise UnreadableError(f"{regex[reader.at]!r} at {reader.at} in {regex!r}")
    return expression


@keep_results("regexes", 4 * MIB)
def _read_set(brackets: str) -> Characters:
    """Reads a set. Long ones are classes of Unicode, which are read in each step from a pattern to
    its grammar, and are few."""
    return _RegexReader(brackets).brackets()


@keep_results("regexes", MIB)
def counts_words(regex: str | None) -> bool:
    """Returns whether the expression counts a group in which several parts can have any length,
    such as words and the spaces between them: `(\\w+\\s+){2,8}`."""
    if regex is None:
        return False
    try:
        repeats = _list_repeats(read(regex))
    except (UnreadableError, RecursionError):
        return False
    for one in repeats:
        is_counted = one.fewest > 1 or (one.most is not None and one.most > 1)
        inner = [part for part in _list_repeats(one.body) if part.most is None or part.most > 1]
        if is_counted and len(inner) > 1:
            return True
    return False


def _list_repeats(expression: Expression) -> list[Repeat]:
    """Returns all repetitions in an expression."""
    return [part for part in list_parts(expression) if isinstance(part, Repeat)]


class _RegexReader(PatternScanner):
    """A recursive descent parser."""

    def __init__(self, text: str):
        super().__init__(text)
        self.any = _LINE  # the set of the dot; the flag `s` changes it

    def options(self) -> list[Expression]:
        branches = [self.sequence()]
        while self.takes("|"):
            branches.append(self.sequence())
        return branches

    def sequence(self) -> Expression:
        parts: list[Expression] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.times(self.atom()))
        return concatenate(*parts)

    def times(self, body: Expression) -> Expression:
        """Repeats the atom as the quantifier after it says; greedy and lazy are the same here."""
        while True:
            if match := self.find(_TIMES):
                fewest, comma, last = int(match[1]), match[2], match[3]
                most = fewest
                if comma:
                    most = int(last) if last else None
            elif self.peek() in FIXED_TIMES:
                fewest, most = FIXED_TIMES[self.take()]
            else:
                break
            self.takes("?")
            body = repeat(body, fewest, most)
        return body

    def atom(self) -> Expression:
        spend(2)
        match self.text[self.at]:
            case "(":
                return self.group()
            case "[":
                long = self.find(_LONG_SET)
                characters = _read_set(long[0]) if long else self.brackets()
                return CharacterClass(characters) if characters.ranges else EMPTY_SET
            case ".":
                self.take()
                return CharacterClass(self.any)
            case "\\":
                return CharacterClass(self.escape())
            case c if c in "*+?{}^$":
                raise UnreadableError(f"{c!r} at {self.at} in {self.text!r}")
            case _:
                return CharacterClass(Characters.of(self.take()))

    def group(self) -> Expression:
        opening = self.find(_GROUP)
        assert opening
        before = self.any
        if opening[1]:
            self.any = EVERY
        options = self.options()
        self.any = before
        self.expect(")")
        match opening[2]:
            case "&":
                return intersect(options)
            case "~":
                return complement(alternate(options))
            case _:
                return alternate(options)

    def brackets(self) -> Characters:
        self.expect("[")
        negated = self.takes("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.takes("]"):
            ranges += self.members()
            first = False
        found = Characters.collect(ranges)
        return found.complement() if negated else found

    def members(self) -> tuple[tuple[int, int], ...]:
        """Returns a character, a range of them, or a class, inside brackets."""
        if not self.peek():
            raise UnreadableError(f"an open bracket in {self.text!r}")
        if self.peek() == "[":
            return self.brackets().ranges
        low = self.member()
        single = len(low.ranges) == 1 and low.ranges[0][0] == low.ranges[0][1]
        ahead = self.text[self.at : self.at + 2]
        if not single or ahead[:1] != "-" or ahead[1:] in ("]", "["):
            return low.ranges
        self.take()
        high = self.member()
        return ((low.ranges[0][0], high.ranges[-1][1]),)

    def member(self) -> Characters:
        if self.peek() == "\\":
            return self.escape()
        return Characters.of(self.take())

    def escape(self) -> Characters:
        if match := self.find(_CATEGORY):
            found = find_category(match[3] or match[4])
            if found is None:
                raise UnreadableError(f"{match[0]} in {self.text!r}")
            is_negated = (match[1] == "P") != bool(match[2])
            return found.complement() if is_negated else found
        if match := self.find(_ESCAPE):
            digits = next(group for group in match.groups() if group)
            code = int(digits, 16)
            if code > sys.maxunicode:
                raise UnreadableError(f"{match[0]} in {self.text!r}")
            return Characters.of(chr(code))
        self.expect("\\")
        letter = self.take()
        if letter == "s":
            return _SPACE
        if letter.isalnum() and letter not in CONTROLS:
            raise UnreadableError(f"\\{letter} in {self.text!r}")
        return Characters.of(CONTROLS.get(letter, letter))

    def take(self) -> str:
        if self.at >= len(self.text):
            raise UnreadableError(f"{self.text!r} ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def expect(self, character: str) -> None:
        if not self.takes(character):
            raise UnreadableError(f"no {character!r} at {self.at} in {self.text!r}")
