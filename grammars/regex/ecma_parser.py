"""Parses regular expressions of ECMA 262 (section 22.2.1 and annex B.1.2).

Inline flags, `(?P<name>)` and comments of other engines are read, too.
"""

import re
from dataclasses import dataclass, field, replace

from grammars.limits.steps import spend
from grammars.regex.assertions import look_ahead, look_behind, settle
from grammars.regex.characters import EVERY, Characters, find_property, fold_case
from grammars.regex.expressions import (
    ANYTHING,
    EMPTY_SET,
    EMPTY_STRING,
    CharacterClass,
    Expression,
    LookAhead,
    LookBehind,
    alternate,
    complement,
    concatenate,
    is_plain,
    list_items,
    measure_longest,
    repeat,
)
from grammars.regex.reader import (
    COMMENT,
    COMMON_SPACE,
    CONTROLS,
    FIXED_TIMES,
    NAMED,
    SAME_NAME,
    PatternError,
    PatternScanner,
)
from grammars.regex.spelled import write_set

MAX_QUANTIFIERS = 4_000
"""The maximum number in a row: llguidance's work grows with its square, and takes 0.2 s for this
many."""
_MAX_COUNT = 10**9

LINE_ENDS = Characters.of("\n\r\u2028\u2029")
_DIGITS = Characters(((0x30, 0x39),))
WORD = Characters.collect([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACE = Characters.of(COMMON_SPACE + "\ufeff")
_CLASSES = {"d": _DIGITS, "w": WORD, "s": _SPACE}
_LAST_OF_PLANE = 0xFFFF
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")

TIMES = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_RANGE = re.compile(r"-(?=[^\]])", re.DOTALL)
_BRACES = re.compile(r"\{([A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?)\}")
_TWO_DIGITS = re.compile("[0-9a-fA-F]{2}")
_FOUR_DIGITS = re.compile("[0-9a-fA-F]{4}")
_CODE_POINT = re.compile(r"\{([0-9a-fA-F]+)\}")
_SURROGATES = re.compile(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_LETTER = re.compile("[A-Za-z]")
_LETTER_IN_CLASS = re.compile("[A-Za-z0-9_]")
_OCTAL = re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?")
MAX_ASSERTIONS = 100

_LINE_END = CharacterClass(LINE_ENDS)
_ANY = r"[\s\S]"  # jsonschema-rs reads a dot in `(?s:.)` as usual
_IN_WORD = "[0-9A-Za-z_]"
_BOUNDARY = f"(?:(?<={_IN_WORD})(?!{_IN_WORD})|(?<!{_IN_WORD})(?={_IN_WORD}))"
_NO_BOUNDARY = f"(?:(?<={_IN_WORD})(?={_IN_WORD})|(?<!{_IN_WORD})(?!{_IN_WORD}))"

_FLAGS = re.compile(r"\(\?([ims]*)(?:-([ims]+))?([:)])")
_NUMBER = re.compile("[0-9]+")
_NAME = re.compile(r"\\k<([^<>]*)>")
_LANDMARK = re.compile(r"\\.|[\[\]]|\((?!\?)|\(\?P?<(?![=!])([^>]{1,100})>", re.DOTALL)
"""Escapes, brackets, and the beginnings of capturing groups."""
_ASSERTIONS = ("^", "$", "\\b", "\\B", "(?<=", "(?<!")
"""What cannot be repeated."""
_AMBIGUOUS = frozenset("AZz")
"""Escapes that are letters to ECMA 262 without `u`, and anchors to other engines."""


@dataclass(frozen=True)
class ParsedPattern:
    """A pattern as it was parsed; see `PatternReading`. `expression` is for whole texts,
    `assertions` is the number of assertions."""

    expression: Expression
    engine: str
    left_out: tuple[str, ...]
    is_unicode: bool
    assertions: int


def parse_pattern(pattern: str, dropped: frozenset[int]) -> ParsedPattern:
    """Parses a pattern, with the flag `u` if it is valid so, without the assertions of the numbers
    in `dropped`; raises PatternError."""
    try:
        return _Parser(pattern, is_unicode=True, dropped=dropped).parse()
    except PatternError:
        return _Parser(pattern, is_unicode=False, dropped=dropped).parse()


@dataclass
class _Groups:
    """The capturing groups of a pattern: their count and names; what those match that ended before
    this place, and which of them certainly took part in a match up to here."""

    count: int
    names: dict[str, int]
    closed: dict[int, Expression] = field(default_factory=dict[int, Expression])
    certain: set[int] = field(default_factory=set[int])


def _list_groups(pattern: str) -> _Groups:
    """Finds the capturing groups of a pattern, which back references may precede."""
    names: dict[str, int] = {}
    count, is_inside = 0, False
    for found in _LANDMARK.finditer(pattern):
        if found[0] in ("[", "]"):
            is_inside = found[0] == "["
        elif found[0][0] == "(" and not is_inside:
            count += 1
            if found[1]:
                names[found[1]] = count
    return _Groups(count, names)


@dataclass(frozen=True)
class PatternMember:
    """What stands for characters in a pattern."""

    characters: Characters
    code: int | None  # its number, if it is one character; surrogates are one, too
    is_odd: bool = False  # jsonschema-rs does not read it so
    is_shorthand: bool = False  # it reads it so, except beside assertions and back references


class CharacterScanner(PatternScanner):
    """Reads classes, escapes and quantifiers; `is_unicode`: of a pattern with the flag `u`."""

    def __init__(self, text: str, *, is_unicode: bool):
        super().__init__(text)
        self.is_unicode = is_unicode
        self._quantifiers = 0

    def read_quantifier(self) -> tuple[int, int | None] | None:
        """Reads a quantifier; None: here is none."""
        begin = self.at
        if self.peek() in FIXED_TIMES:
            fewest, most = FIXED_TIMES[self.peek()]
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

    def read_class(self, *, ignores_case: bool) -> PatternMember:
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
        return PatternMember(characters, None, is_odd, is_shorthand)

    def _read_member(self) -> PatternMember:
        character = self.peek()
        if not character:
            raise self.fail("the bracket is not closed")
        if character != "\\":
            self.at += 1
            return PatternMember(Characters.of(character), ord(character))
        name = self.peek(1)
        if name == "b":
            self.at += 2
            return PatternMember(Characters.of("\b"), ord("\b"), is_odd=True)
        if name == "-" and self.is_unicode:
            self.at += 2
            return PatternMember(Characters.of("-"), ord("-"))
        if name and name in "Bk" and self.is_unicode:
            raise self.fail("the escape is invalid")
        return self.read_escape(is_inside=True)

    def read_escape(self, *, is_inside: bool) -> PatternMember:
        """Reads an escape that stands for characters."""
        name = self.peek(1)
        if not name:
            raise self.fail("the escape has no character")
        self.at += 2
        if (members := _CLASSES.get(name.lower())) is not None:
            characters = members if name.islower() else members.complement()
            return PatternMember(characters, None, is_shorthand=True)
        if name in CONTROLS:
            return PatternMember(Characters.of(CONTROLS[name]), ord(CONTROLS[name]))
        if name in "pP" and self.is_unicode:
            return PatternMember(self._read_property(is_negated=name == "P"), None)
        code = self._read_number(name, is_inside=is_inside)
        if code is not None:
            characters = Characters.collect([(code, code)])  # without surrogates
            is_usual = name in "xu" and characters.ranges and code <= _LAST_OF_PLANE
            return PatternMember(characters, code, is_odd=not is_usual)
        if self.is_unicode and name not in _SYNTAX:
            raise self.fail("the escape is invalid")
        if name == "c":  # not followed by a letter
            self.at -= 1
            return PatternMember(Characters.of("\\"), ord("\\"), is_odd=True)
        return PatternMember(Characters.of(name), ord(name), is_odd=name.isalnum())

    def _read_property(self, *, is_negated: bool) -> Characters:
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


class _Parser(CharacterScanner):
    """A recursive descent parser. While it reads, it writes the pattern anew for jsonschema-rs,
    which does not know some of the syntax."""

    def __init__(self, pattern: str, *, is_unicode: bool, dropped: frozenset[int]):
        super().__init__(pattern, is_unicode=is_unicode)
        self._dropped = dropped
        self._flags = frozenset[str]()  # "i", "m", "s", where they hold
        self._groups = _list_groups(pattern)
        self._opened = 0  # capturing groups so far
        self._assertions = 0
        self._is_negative = False  # inside of an odd number of negative assertions
        self._is_behind = False  # inside of a look-behind
        self._engine: list[str] = []
        self._is_rewritten = False
        self._left_out: list[str] = []

    def parse(self) -> ParsedPattern:
        options = self._options()
        if self.at < len(self.text):
            raise self.fail("the parenthesis is not open")
        expression = alternate([_search(option) for option in options])
        return ParsedPattern(
            expression,
            "".join(self._engine) if self._is_rewritten else self.text,
            tuple(dict.fromkeys(self._left_out)),
            self.is_unicode,
            self._assertions,
        )

    def _options(self) -> list[Expression]:
        """Reads alternatives up to the end, or a closing parenthesis."""
        groups = self._groups
        before, all_closed = groups.closed, dict(groups.closed)
        certain: list[set[int]] = []
        options: list[Expression] = []
        outer = groups.certain
        while True:
            groups.certain, groups.closed = set(outer), dict(before)
            options.append(self._sequence())
            certain.append(groups.certain)
            all_closed |= groups.closed
            if not self.takes("|"):
                break
            self._engine.append("|")
        groups.certain, groups.closed = set[int].intersection(*certain), all_closed
        return options

    def _sequence(self) -> Expression:
        items: list[Expression] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self._term())
        return settle(items)

    def _term(self) -> Expression:
        spend()
        certain, closed = set(self._groups.certain), dict(self._groups.closed)
        begin, written = self.at, len(self._engine)
        assertions, left_out = self._assertions, len(self._left_out)
        atom = self._atom()
        quantified = self.at
        found = self.read_quantifier()
        if found is None:
            return atom
        fewest, most = found
        is_look_ahead = self.text.startswith(("(?=", "(?!"), begin)
        if self.text.startswith(_ASSERTIONS, begin) or (is_look_ahead and self.is_unicode):
            raise self.fail("nothing to repeat")
        if fewest == 0:
            self._groups.certain = certain
        if most == 0:
            self._groups.closed = closed
            del self._left_out[left_out:]
        if assertions == self._assertions or measure_longest(atom) != 0:
            self._engine.append(self.text[quantified : self.at])
        elif fewest == 0:  # jsonschema-rs repeats no assertions
            self._engine[written:] = ["(?:|", *self._engine[written:], ")"]
        return repeat(atom, fewest, most)

    def _atom(self) -> Expression:
        begin, character = self.at, self.peek()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._match(self.read_class(ignores_case="i" in self._flags), begin)
            case "\\":
                return self._escape()
            case ".":
                self.at += 1
                is_all = "s" in self._flags
                dot = EVERY if is_all else LINE_ENDS.complement()
                member = PatternMember(dot, None, is_odd=is_all, is_shorthand=True)
                return self._match(member, begin)
            case "^" | "$":
                self.at += 1
                self._engine.append(character)
                return _find_anchor(character, multiline="m" in self._flags)
            case "*" | "+" | "?":
                raise self.fail("nothing to repeat")
            case "{" if self.is_unicode or TIMES.match(self.text, self.at):
                raise self.fail("nothing to repeat")
            case "}" | "]" if self.is_unicode:
                raise self.fail("a lone bracket")
            case _:
                self.at += 1
                characters = self._fold(Characters.of(character))
                is_odd = character in "{}]"
                return self._match(PatternMember(characters, None, is_odd), begin)

    def _group(self) -> Expression:
        """Reads a group, an assertion, or flags."""
        begin = self.at
        if self.find(COMMENT):
            return EMPTY_STRING
        if same := self.find(SAME_NAME):
            return self._refer(self._groups.names.get(same[1]), begin)
        for opening in ("(?=", "(?!", "(?<=", "(?<!"):
            if self.text.startswith(opening, self.at):
                return self._look_around(opening)
        if self.takes("(?>"):  # it matches less than a group, which is left out
            self._engine.append("(?>")
            return self._leave_out(begin, self._body(begin))
        if found := self.find(_FLAGS):
            before = self._flags
            self._flags = before.union(found[1]).difference(found[2] or "")
            self._engine.append(found[0])
            if found[3] == ")":  # for the rest of the group around it
                return EMPTY_STRING
            body = self._body(begin)
            self._flags = before
            return body
        if self.find(NAMED) is None:
            if self.text.startswith("(?", self.at):
                raise self.fail("the group is invalid")
            self.at += 1
        self._engine.append("(")
        self._opened += 1
        number, body = self._opened, self._body(begin)
        self._groups.closed[number] = body
        self._groups.certain.add(number)
        return body

    def _body(self, begin: int) -> Expression:
        """Reads the alternatives of a group that begins there, and its closing parenthesis."""
        before = self._flags
        body = alternate(self._options())
        self._flags = before
        if not self.takes(")"):
            raise self.fail("the group is not closed", begin)
        self._engine.append(")")
        return body

    def _look_around(self, opening: str) -> Expression:
        number, begin = self._assertions, self.at
        self._assertions += 1
        is_negative, is_behind = opening.endswith("!"), "<" in opening
        self.at += len(opening)
        self._rewrite(opening)
        was_negative, was_behind = self._is_negative, self._is_behind
        certain, closed = set(self._groups.certain), dict(self._groups.closed)
        self._is_negative = was_negative != is_negative
        self._is_behind = was_behind or is_behind
        body = self._body(begin)
        self._is_negative, self._is_behind = was_negative, was_behind
        if is_negative:  # its groups have matched nothing
            self._groups.certain, self._groups.closed = certain, closed
        if self._drops(number):
            return self._leave_out(begin, EMPTY_STRING)
        look = look_behind if is_behind else look_ahead
        return look(body, is_negative=is_negative)

    def _fold(self, characters: Characters) -> Characters:
        """Returns the characters, with their other cases where the flag `i` holds."""
        return fold_case(characters) if "i" in self._flags else characters

    def _match(self, member: PatternMember, begin: int) -> Expression:
        """Returns one of these characters, which the pattern describes from `begin` to here."""
        self._is_rewritten = self._is_rewritten or member.is_odd
        text = self.text[begin : self.at]
        if member.is_odd or member.is_shorthand:
            text = _ANY if member.characters == EVERY else write_set(member.characters)
        self._engine.append(text)
        return CharacterClass(member.characters) if member.characters.ranges else EMPTY_SET

    def _escape(self) -> Expression:
        """Reads an escape outside of brackets."""
        begin = self.at
        name = self.peek(1)
        if name in tuple("bB"):
            self.at += 2
            return self._boundary(name, begin)
        if name in tuple("123456789"):
            digits = _NUMBER.match(self.text, self.at + 1)
            assert digits is not None
            number = int(digits[0][:9])
            if number <= self._groups.count:
                self.at = digits.end()
                return self._refer(number, begin)
            if self.is_unicode:
                raise self.fail("there is no such group")
        if name == "k" and (self._groups.names or self.is_unicode):
            named = self.find(_NAME)
            return self._refer(self._groups.names.get(named[1]) if named else None, begin)
        if name in _AMBIGUOUS:
            raise self.fail("the escape has several meanings")
        member = self.read_escape(is_inside=False)
        return self._match(replace(member, characters=self._fold(member.characters)), begin)

    def _boundary(self, name: str, begin: int) -> Expression:
        number = self._assertions
        self._assertions += 1
        self._rewrite(_BOUNDARY if name == "b" else _NO_BOUNDARY)
        if self._drops(number):
            return self._leave_out(begin, EMPTY_STRING)
        return _find_boundary(is_inside=name == "B")

    def _drops(self, number: int) -> bool:
        """Returns whether the assertion with this number is left out."""
        return number in self._dropped or number >= MAX_ASSERTIONS

    def _refer(self, number: int | None, begin: int) -> Expression:
        """Returns what a back reference may match: any text of its group."""
        if number is None:
            raise self.fail("there is no group with that name", begin)
        is_behind = self._is_behind and number > self._opened  # which is read backwards
        if number not in self._groups.closed and not is_behind:
            self._rewrite("(?:)")
            return EMPTY_STRING  # ECMA 262: it has matched nothing yet
        self._rewrite(rf"(?:\{number})")  # a digit may follow
        texts = self._groups.closed.get(number, ANYTHING)
        if not is_plain(texts):
            texts = ANYTHING
        if number not in self._groups.certain:
            texts = repeat(texts, 0, 1)
        return self._leave_out(begin, texts)

    def _leave_out(self, begin: int, wider: Expression) -> Expression:
        """Returns what stands for a part from `begin` to here that is left out: texts such that the
        whole pattern matches more. Inside of a negative assertion, these are fewer."""
        self._left_out.append(self.text[begin : self.at])
        return EMPTY_SET if self._is_negative else wider

    def _rewrite(self, text: str) -> None:
        """Writes what jsonschema-rs reads otherwise, or not at all, in another way."""
        self._engine.append(text)
        self._is_rewritten = True


def _find_anchor(sign: str, *, multiline: bool) -> Expression:
    """Returns the condition of `^` or `$`."""
    if sign == "^":
        start = LookBehind(EMPTY_STRING)
        if not multiline:
            return start
        return alternate([start, LookBehind(concatenate(ANYTHING, _LINE_END), 1)])
    end = LookAhead(EMPTY_STRING)
    return alternate([end, look_ahead(_LINE_END)]) if multiline else end


def _find_boundary(*, is_inside: bool) -> Expression:
    """Returns the condition of `\\b`, or of `\\B` if `is_inside`."""
    word = CharacterClass(WORD)
    before = concatenate(ANYTHING, word)
    behind = LookBehind(before, 1), LookBehind(complement(before), 1)
    ahead = look_ahead(word), look_ahead(word, is_negative=True)
    if is_inside:
        return alternate(map(concatenate, behind, ahead))
    return alternate(map(concatenate, behind, reversed(ahead)))


def _search(expression: Expression) -> Expression:
    """Returns an expression for whole texts in which this one matches somewhere."""
    start, end = LookBehind(EMPTY_STRING), LookAhead(EMPTY_STRING)
    items = list_items(expression)
    if items[0] == start:
        del items[0]
    else:
        items.insert(0, ANYTHING)
    if items and items[-1] == end:
        del items[-1]
    else:
        items.append(ANYTHING)
    return concatenate(*items)
