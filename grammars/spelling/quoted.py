"""Regular expressions for the spellings of strings and keys, for styles whose strings are not
JSON's. Grammar and completion share these expressions."""

from collections.abc import Sequence
from functools import lru_cache, partial

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.characters import EVERY, Characters, find_category
from grammars.regex.expressions import Expression
from grammars.regex.reader import read
from grammars.regex.spelled import (
    count_ranges,
    spell_expression,
    spell_numbers,
    write_numbers,
    write_spellings,
)
from grammars.regex.texts import ANY, FREE, Texts
from grammars.regex.writing import count_times, escape_regex
from grammars.schema.nodes import String
from grammars.spelling.styles import NEVER_BARE
from grammars.wire.format import JsonStyle

_LETTERS = {"\\": "\\", "'": "'", '"': '"', "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CONTROLS = Characters(((0, 0x1F),))
_NUMBERED = Characters.collect([(0, 0x1F), (0x7F, 0x10FFFF)])
"""Characters that may be written as numbers. Nobody writes printable ASCII so."""
_MAX_RANGES = 200
"""The maximum number of ranges that are written as numbers: a third of those of all letters, since
each is written three times, in each kind of quote."""
_BARE = (
    rf"[^{NEVER_BARE}"
    r' \u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}"<>]+'
)


@keep_results("regexes", 4 * MIB)
def find_strings(node: String, style: JsonStyle) -> Texts:
    """Returns the strings of a node in Python's spelling, with quotes."""
    times = count_times(node.min_length, node.max_length)
    parts = ["|".join(f"{q}{_spell_set(EVERY, q, EVERY)}{times}{q}" for q in style.quotes)]
    if node.pattern is not None:
        parts += _spell_texts(Texts((node.pattern,)), style).parts
    return Texts(tuple(parts))


@keep_results("regexes", 4 * MIB)
def find_raw(node: String, style: JsonStyle) -> Texts:
    """Returns the strings of a node without quotes or escapes."""
    parts = [f"(?s:.{count_times(node.min_length, node.max_length)})"]
    parts += [] if node.pattern is None else [f"({node.pattern})"]
    return Texts(tuple(parts), (f"{ANY}{escape_regex(style.quotes[0])}{ANY}",))


def find_extra_keys(declared: Sequence[str], style: JsonStyle, keys: Texts = FREE) -> Texts:
    """Returns all of these keys except the declared ones."""
    if style.bare_keys:
        return Texts((_BARE,), _one_of(list(map(escape_regex, declared)))).intersect(keys)
    spelled = _spell_texts(Texts((ANY, *keys.parts), keys.without), style)
    words: list[str] = []
    for quote in style.quotes:
        words += [f"{quote}{_spell_word(key, quote)}{quote}" for key in declared]
    return spelled.intersect(Texts((), _one_of(words)))


def _spell_texts(texts: Texts, style: JsonStyle) -> Texts:
    """Returns the texts between quotes, in all spellings. If they have large sets of characters,
    only those that `repr` writes as numbers may be written so."""
    parts, without = list(map(read, texts.parts)), list(map(read, texts.without))
    is_small = sum(map(count_ranges, parts + without)) <= _MAX_RANGES
    numbered = _NUMBERED if is_small else _find_unprinted()

    def spell(expression: Expression) -> str:
        options: list[str] = []
        for quote in style.quotes:
            spell_one = partial(_spell_set, quote=quote, numbered=numbered)
            options.append(f"{quote}({spell_expression(expression, spell_one)}){quote}")
        return "|".join(options)

    return Texts(tuple(map(spell, parts)), tuple(map(spell, without)))


def _one_of(options: list[str]) -> tuple[str, ...]:
    return ("|".join(options),) if options else ()


def _spell_word(text: str, quote: str) -> str:
    """Writes one text in all its spellings, without the quotes."""
    parts: list[str] = []
    for character in text:
        if " " <= character < "\x7f" and character not in _LETTERS:
            parts.append(escape_regex(character))
        else:
            parts.append(_spell_set(Characters.of(character), quote, _NUMBERED))
    return "".join(parts)


@lru_cache(maxsize=1)
def _find_unprinted() -> Characters:
    """Returns what `repr` writes as numbers, without the unassigned characters, in 700 ranges."""
    ranges: list[tuple[int, int]] = []
    for name in ("Cc", "Cf", "Co", "Z"):
        if characters := find_category(name):
            ranges += characters.ranges
    return Characters.collect(ranges).intersect(Characters.of(" ").complement())


@keep_results("regexes", 4 * MIB)
def _spell_set(characters: Characters, quote: str, numbered: Characters) -> str:
    """Returns one character of a set, directly or escaped; those of `numbered` also by number."""
    escaped = Characters.of("\\" + quote).ranges
    raw = characters.intersect(Characters.collect([*_CONTROLS.ranges, *escaped]).complement())
    letters = [escape_regex(_LETTERS[c]) for c in _LETTERS if c in characters]
    escapes = [f"({'|'.join(letters)})"] if letters else []
    return write_spellings(raw, escapes + _spell_numbers(characters.intersect(numbered)))


def _spell_numbers(characters: Characters) -> list[str]:
    """Returns the numeric escapes for the characters of a set, without the backslash."""
    options = list(spell_numbers(characters))
    for letter, width in (("x", 2), ("U", 8)):
        numbers = write_numbers(characters.ranges, width)
        if numbers:
            options.append(letter + numbers)
    return options
