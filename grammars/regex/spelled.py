"""Rewrites a regex over characters as a regex over their spellings in a string literal: in general,
and in JSON (RFC 8259, section 7)."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.characters import Characters
from grammars.regex.expressions import (
    ANYTHING,
    Alternation,
    CharacterClass,
    Concatenation,
    EmptySet,
    EmptyString,
    Expression,
    LookAhead,
    LookBehind,
    RegexComplement,
    RegexIntersection,
    Repeat,
    list_items,
    list_parts,
)
from grammars.regex.reader import UnreadableError, read
from grammars.regex.texts import ANY, Texts
from grammars.regex.writing import count_times, write_character, write_code

_LETTERS = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_HEX = "[0-9a-fA-F]"
_CONTROLS = Characters(((0, 0x1F),))
_PLAIN = Characters.collect([*_CONTROLS.ranges, *Characters.of('"\\').ranges]).complement()
_NUMBERED = Characters.collect(
    [*_CONTROLS.ranges, *Characters.of("\"&'+<>`").ranges, (0x7F, 0x10FFFF)]
)
"""Characters that encoders write as `\\u` escapes: control characters, those that HTML could
misread (Go, C#, jinja), and all beyond ASCII (Python). Nobody escapes letters and digits."""
_ASCII = Characters(((0, 0x7F),))
_ASTRAL = 0x10000
NOTHING = r"[^\x{0}-\x{10ffff}]"
"""Matches no text."""
_SET = re.compile(r"\[[^\[\]]*\]|\(\?s:\.\)|\\x\{[0-9a-f]+\}")
_MAX_RANGES = 2_000
"""The maximum number of escaped ranges of a pattern: three times those of all letters."""


def has_algebra(regex: str) -> bool:
    """Returns whether an expression may have intersections or complements."""
    return "(?&" in regex or "(?~" in regex


def is_simple(expression: Expression) -> bool:
    """Returns whether the expression has no intersections, complements and assertions."""
    unusual = RegexIntersection | RegexComplement | LookAhead | LookBehind
    return not any(isinstance(part, unusual) for part in list_parts(expression))


def spell_expression(expression: Expression, spell_one: Callable[[Characters], str]) -> str:
    """Rewrites the expression, without assertions, over spellings, in the syntax of
    `grammars.regex.reader`. Intersections and complements of texts carry over to their spellings,
    since no text spells two of them. `spell_one` writes the spellings of one character of a set;
    those of a character do not depend on the set. Raises UnreadableError if a set has no characters
    that can be spelled."""

    def spell(part: Expression) -> str:
        return spell_expression(part, spell_one)

    match expression:
        case EmptyString():
            return ""
        case EmptySet():
            return NOTHING
        case CharacterClass(characters):
            return spell_one(characters)
        case Concatenation():
            return "".join(map(spell, list_items(expression)))
        case Alternation(options):
            return f"({'|'.join(sorted(map(spell, options)))})"
        case RegexIntersection(parts):
            matched = sorted(f"({spell(p)})" for p in parts if not isinstance(p, RegexComplement))
            excluded = sorted(
                f"(?~{_spell_open(p.body, spell)})" for p in parts if isinstance(p, RegexComplement)
            )
            return f"(?&{'|'.join((matched or [spell(ANYTHING)]) + excluded)})"
        case RegexComplement(body):
            return f"(?&{spell(ANYTHING)}|(?~{_spell_open(body, spell)}))"
        case Repeat(body, fewest, most):
            text = spell(body)
            is_set = isinstance(body, CharacterClass) and (len(text) == 1 or _SET.fullmatch(text))
            return (text if is_set else f"({text})") + count_times(fewest, most)
        case LookAhead() | LookBehind():
            raise UnreadableError("an assertion")


def _spell_open(excluded: Expression, spell: Callable[[Expression], str]) -> str:
    """Spells texts that are excluded: where any text may follow, anything may, also what spells no
    text. That costs llguidance much less."""
    match excluded:
        case _ if excluded == ANYTHING:
            return f"(?~{NOTHING})"
        case Concatenation(first, rest):
            return spell(first) + _spell_open(rest, spell)
        case Alternation(options):
            return f"({'|'.join(sorted(_spell_open(option, spell) for option in options))})"
        case _:
            return spell(excluded)


def write_expression(expression: Expression) -> str:
    """Writes an expression without assertions in the syntax of `grammars.regex.reader`."""
    return spell_expression(expression, write_set)


def write_spellings(raw: Characters, escapes: list[str]) -> str:
    """Writes one character: one of `raw` itself, or a backslash and one of `escapes`; raises
    UnreadableError if there is no such character."""
    options: list[str] = []
    if raw.ranges:
        options.append(f"[{''.join(map(_write_range, raw.ranges))}]")
    if escapes:
        options.append(rf"\\({'|'.join(escapes)})")
    if not options:
        raise UnreadableError("an empty set")
    return f"({'|'.join(options)})"


def _write_range(codes: tuple[int, int]) -> str:
    first, last = codes
    if first == last:
        return write_code(first)
    return f"{write_code(first)}-{write_code(last)}"


def write_set(characters: Characters) -> str:
    """Writes one character of a set, in the syntax of `grammars.regex.reader` and others."""
    ranges = characters.ranges
    if not ranges:
        return NOTHING
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _write_members(ranges[0])
    others = characters.complement().ranges
    if not others:
        return "(?s:.)"
    if len(others) < len(ranges):
        return f"[^{''.join(map(_write_members, others))}]"
    return f"[{''.join(map(_write_members, ranges))}]"


def _write_members(codes: tuple[int, int]) -> str:
    first, last = map(write_character, map(chr, codes))
    return first if first == last else f"{first}-{last}"


def choose_spelling(expression: Expression) -> Callable[[Characters], str]:
    """Returns what writes a character of a set in a JSON string. If the expression has many sets of
    characters, those beyond ASCII are not escaped."""
    if _is_small(expression):
        return _spell_set
    return partial(_spell_set, numbered=_NUMBERED.intersect(_ASCII))


@keep_results("regexes", MIB)
def is_fully_spelled(pattern: str) -> bool:
    """Returns whether the JSON strings of a pattern have every spelling that encoders use."""
    try:
        return _is_small(read(pattern))
    except (UnreadableError, RecursionError):
        return False


def _is_small(expression: Expression) -> bool:
    return count_ranges(expression) <= _MAX_RANGES


def count_ranges(expression: Expression) -> int:
    """Returns of how many ranges all of its sets of characters are."""
    ones = [part for part in list_parts(expression) if isinstance(part, CharacterClass)]
    return sum(len(one.characters.ranges) for one in ones)


def spell_extra_keys(keys: Texts, declared: Sequence[str]) -> Texts:
    """Returns the JSON strings, quotes included, of these keys without the declared ones; raises
    UnreadableError if they cannot be spelled."""
    parts = (ANY, *keys.parts)
    without = [_spell_string(read(part)) for part in keys.without]
    if declared:
        without.append("|".join(map(_spell_word, declared)))
    return Texts(tuple(_spell_string(read(part)) for part in parts), tuple(without))


def _spell_string(expression: Expression) -> str:
    return f'"({spell_expression(expression, _spell_set)})"'


def _spell_word(text: str) -> str:
    """Writes one JSON string in all its spellings, quotes included."""
    return f'"{"".join(map(_spell_character, text))}"'


@keep_results("regexes", MIB)
def _spell_character(character: str) -> str:
    return _spell_set(Characters.of(character))


@keep_results("regexes", 4 * MIB)
def _spell_set(characters: Characters, numbered: Characters = _NUMBERED) -> str:
    """Writes one character of a set: itself (if it is plain) or escaped."""
    escapes = [write_code(ord(letter)) for c, letter in _LETTERS.items() if c in characters]
    escapes += spell_numbers(characters.intersect(numbered))
    return write_spellings(characters.intersect(_PLAIN), escapes)


def spell_numbers(characters: Characters) -> Iterator[str]:
    """Yields what follows the backslash of `\\u` escapes (UTF-16): `u00e9`, `ud83d\\ude00`."""
    units = write_numbers([pair for pair in characters.ranges if pair[0] < _ASTRAL], 4)
    if units:
        yield f"u{units}"
    pairs: list[str] = []
    for first, last in characters.ranges:
        if last >= _ASTRAL:
            pairs += _spell_pairs(max(first, _ASTRAL) - _ASTRAL, last - _ASTRAL)
    yield from pairs


def _spell_pairs(first: int, last: int) -> Iterator[str]:
    """Yields the surrogate pairs of a range of characters, counted from U+10000."""
    high, highest = first >> 10, last >> 10
    while high <= highest:
        low = first & 0x3FF if high == first >> 10 else 0
        top = last & 0x3FF if high == highest else 0x3FF
        upto = high
        if (low, top) == (0, 0x3FF):  # all pairs with these high surrogates
            upto = highest if last & 0x3FF == 0x3FF else highest - 1
        highs = write_numbers([(0xD800 + high, 0xD800 + upto)], 4)
        lows = write_numbers([(0xDC00 + low, 0xDC00 + top)], 4)
        yield rf"u{highs}\\u{lows}"
        high = upto + 1


def write_numbers(ranges: Sequence[tuple[int, int]], width: int) -> str:
    """Writes the numbers of these sorted and disjoint ranges in `width` hexadecimal digits, without
    those that need more; "" if there are none."""
    if not ranges or width == 0:
        return ""
    step = 16 ** (width - 1)
    digits: dict[str, list[str]] = {}  # by what follows them
    for digit in range(16):
        inside: list[tuple[int, int]] = []
        for first, last in ranges:
            low, high = max(first - digit * step, 0), min(last - digit * step, step - 1)
            if low <= high:
                inside.append((low, high))
        if inside:
            rest = f"{_HEX}{{{width - 1}}}" if inside == [(0, step - 1)] else ""
            digits.setdefault(rest or write_numbers(inside, width - 1), []).append(f"{digit:x}")
    options: list[str] = []
    for rest, some in digits.items():
        both_cases = dict.fromkeys("".join(some) + "".join(some).upper())
        options.append(f"[{''.join(both_cases)}]" + ("" if width == 1 else rest))
    return options[0] if len(options) == 1 else f"({'|'.join(options)})"
