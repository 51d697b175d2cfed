"""Rewrites a regex over characters as a regex over their spellings in a string literal: in general,
and in JSON (RFC 8259, section 7)."""

from collections.abc import Callable, Iterator, Sequence

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.characters import Characters
from grammars.regex.deterministic import TooManyStatesError, determinize, write_back
from grammars.regex.expressions import (
    Alternation,
    CharacterClass,
    Concatenation,
    EmptyString,
    Expression,
    Repeat,
    complement,
    intersect,
    list_parts,
)
from grammars.regex.reader import UnreadableError, read
from grammars.regex.texts import ANY, Texts

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
_MAX_STATES, _MAX_SIZE = 100, 200
"""The limits for patterns that are joined: states of their automaton, and sets of characters in the
result. Beside a pattern of up to 64 characters, such as an identifier, there are 65 states."""
_MAX_RANGES = 2_000
"""The maximum number of escaped ranges of a pattern: three times those of all letters."""


def spell_expression(expression: Expression, spell_one: Callable[[Characters], str]) -> str:
    """Rewrites the expression over spellings.

    Args:
        expression: sets of characters, their concatenations, unions and repetitions.
        spell_one: writes the spellings of one character of a set.

    Raises:
        UnreadableError: the expression has other parts.
    """
    match expression:
        case EmptyString():
            return ""
        case CharacterClass(characters):
            return spell_one(characters)
        case Concatenation(first, rest):
            return spell_expression(first, spell_one) + spell_expression(rest, spell_one)
        case Alternation(options):
            return f"({'|'.join(sorted(spell_expression(o, spell_one) for o in options))})"
        case Repeat(body, fewest, most):
            limit = "" if most is None else most
            return f"({spell_expression(body, spell_one)}){{{fewest},{limit}}}"
        case _:
            raise UnreadableError("an empty set")


def write_spellings(raw: Characters, escapes: list[str]) -> str:
    """Writes one character: one of `raw` itself, or a backslash and one of `escapes`.

    Raises:
        UnreadableError: there is no such character.
    """
    options: list[str] = []
    if raw.ranges:
        options.append(f"[{''.join(map(_write_range, raw.ranges))}]")
    if escapes:
        options.append(rf"\\({'|'.join(escapes)})")
    if not options:
        raise UnreadableError("an empty set")
    return f"({'|'.join(options)})"


def write_code(code: int) -> str:
    """Writes the character with that code point, for use in an expression."""
    return rf"\x{{{code:x}}}"


def _write_range(codes: tuple[int, int]) -> str:
    first, last = codes
    if first == last:
        return write_code(first)
    return f"{write_code(first)}-{write_code(last)}"


def write_together(texts: Texts) -> str | None:
    """Returns one regex for these texts, in Rust syntax and that of ECMA 262; None: there is no
    text, or it would be too long.

    Raises:
        StepsError: it takes more steps than the work may.
    """
    try:
        parts = [read(part) for part in texts.parts or (ANY,)]
        parts += [complement(read(part)) for part in texts.without]
        joined = write_back(determinize(intersect(parts), _MAX_STATES), _MAX_SIZE)
        return spell_expression(joined, _write_set)
    except (UnreadableError, RecursionError, TooManyStatesError):
        return None


def _write_set(characters: Characters) -> str:
    ranges = [rf"\u{{{first:x}}}-\u{{{last:x}}}" for first, last in characters.ranges]
    return f"[{''.join(ranges)}]"


def spell_pattern(pattern: str) -> str | None:
    """Returns a regex for the JSON strings, quotes included, whose characters match; None: the
    pattern cannot be read. If it has many sets of characters, those beyond ASCII are not
    escaped."""
    try:
        expression = read(pattern)
        if _is_small(expression):
            return _spell_string(expression)
        return f'"({spell_expression(expression, _spell_briefly)})"'
    except (UnreadableError, RecursionError):
        return None


@keep_results("regexes", MIB)
def is_fully_spelled(pattern: str) -> bool:
    """Returns whether the JSON strings of a pattern have every spelling that encoders use."""
    try:
        return _is_small(read(pattern))
    except (UnreadableError, RecursionError):
        return False


def _is_small(expression: Expression) -> bool:
    ones = [part for part in list_parts(expression) if isinstance(part, CharacterClass)]
    return sum(len(one.characters.ranges) for one in ones) <= _MAX_RANGES


def spell_extra_keys(keys: Texts, declared: Sequence[str]) -> Texts:
    """Returns the JSON strings, quotes included, of these keys without the declared ones.

    Raises:
        UnreadableError: an expression cannot be spelled.
    """
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


def _spell_briefly(characters: Characters) -> str:
    return _spell_set(characters, _NUMBERED.intersect(_ASCII))


def spell_numbers(characters: Characters) -> Iterator[str]:
    """Yields what follows the backslash of `\\u` escapes (UTF-16) for a set: `u00e9`,
    `ud83d\\ude00`."""
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
    """Writes the numbers of these ranges in hexadecimal; "" if there are none.

    Args:
        ranges: sorted and disjoint.
        width: the number of digits; numbers that need more are left out.
    """
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
        options.append(_write_digits(some) + ("" if width == 1 else rest))
    return options[0] if len(options) == 1 else f"({'|'.join(options)})"


def _write_digits(digits: list[str]) -> str:
    """Writes one of these hexadecimal digits, in either case."""
    both_cases = dict.fromkeys("".join(digits) + "".join(digits).upper())
    return f"[{''.join(both_cases)}]"
