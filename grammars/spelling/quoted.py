"""Regular expressions for the spellings of strings and keys, for styles whose strings are not
JSON's. Grammar and completion share these expressions."""

from collections.abc import Sequence
from functools import partial

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.characters import EVERY, Characters
from grammars.regex.expressions import Expression
from grammars.regex.reader import read
from grammars.regex.spelled import is_simple, spell_expression, write_numbers, write_spellings
from grammars.regex.texts import ANY, FREE, Texts, match_words
from grammars.regex.writing import count_times, escape_regex
from grammars.schema.nodes import String
from grammars.wire.format import JsonStyle

_LETTERS = {"\\": "\\", "'": "'", '"': '"', "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CONTROLS = Characters(((0, 0x1F),))
_UNPRINTED = Characters.collect([(0, 0x1F), (0x7F, 0x10FFFF)])
"""Characters that `repr` may write as numbers; it writes printable characters beyond ASCII
directly."""
_NONE = Characters(())
_MAX_RANGES = 16
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_BARE = (
    r"[^\x00-\x20\x7f-\xa0\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}"
    r':,{}\[\]"<>]+'
)


@keep_results("regexes", 4 * MIB)
def find_strings(node: String, style: JsonStyle) -> Texts:
    """Returns the strings of a node in Python's spelling, with quotes."""
    times = count_times(node.min_length, node.max_length)
    parts = ["|".join(f"{q}{_spell_set(EVERY, q, EVERY)}{times}{q}" for q in style.quotes)]
    if node.pattern is not None:
        body = read(node.pattern)
        numbered = _UNPRINTED if is_simple(body) else _NONE
        parts.append("|".join(f"{q}({_spell(body, q, numbered)}){q}" for q in style.quotes))
    return Texts(tuple(parts))


@keep_results("regexes", 4 * MIB)
def find_raw(node: String, style: JsonStyle) -> Texts:
    """Returns the strings of a node without quotes or escapes."""
    parts = [f"(?s:.{count_times(node.min_length, node.max_length)})"]
    parts += [] if node.pattern is None else [f"({node.pattern})"]
    return Texts(tuple(parts), (f"{ANY}{escape_regex(style.quotes[0])}{ANY}",))


def find_extra_keys(declared: Sequence[str], style: JsonStyle, keys: Texts = FREE) -> Texts:
    """Returns all of these keys except the declared ones. If a declared key has characters other
    than plain ASCII, or if only some keys are allowed, no key is written with numeric escapes: one
    of them could spell an excluded key."""
    if style.bare_keys:
        return Texts((_BARE,), _one_of(list(map(escape_regex, declared)))).intersect(keys)
    if not keys.is_free:
        return _spell_texts(keys.intersect(Texts((), match_words(declared))), style)
    numbers = all(" " <= c < "\x7f" for key in declared for c in key)
    unprinted = _UNPRINTED if numbers else _NONE
    spelled = "|".join(f"{q}{_spell_set(EVERY, q, unprinted)}*{q}" for q in style.quotes)
    names = ["".join(map(_spell_plainly, key)) for key in declared]
    return Texts((spelled,), _one_of([f"{q}{name}{q}" for q in style.quotes for name in names]))


def _spell_texts(texts: Texts, style: JsonStyle) -> Texts:
    """Returns the texts between quotes, in all spellings without numeric escapes."""

    def spell(regex: str) -> str:
        return "|".join(f"{q}({_spell(read(regex), q, _NONE)}){q}" for q in style.quotes)

    return Texts((*map(spell, (ANY, *texts.parts)),), (*map(spell, texts.without),))


def _one_of(options: list[str]) -> tuple[str, ...]:
    return ("|".join(options),) if options else ()


def _spell_plainly(character: str) -> str:
    """Returns a character of a key, in any spelling without numeric escapes."""
    if character in "'\"":
        return rf"\\?{escape_regex(character)}"
    if character in _LETTERS:
        return r"\\" + escape_regex(_LETTERS[character])
    return escape_regex(character)


def _spell(expression: Expression, quote: str, numbered: Characters) -> str:
    """Converts an expression over characters to one over their spellings in a Python string."""
    return spell_expression(expression, partial(_spell_set, quote=quote, numbered=numbered))


def _spell_set(characters: Characters, quote: str, numbered: Characters) -> str:
    """Returns one character of a set, directly or escaped."""
    escaped = Characters.of("\\" + quote).ranges
    raw = characters.intersect(Characters.collect([*_CONTROLS.ranges, *escaped]).complement())
    letters = [escape_regex(_LETTERS[c]) for c in _LETTERS if c in characters]
    escapes = [f"({'|'.join(letters)})"] if letters else []
    unprinted = characters.intersect(numbered)
    if len(unprinted.ranges) <= _MAX_RANGES:
        escapes += _spell_numbers(unprinted)
    return write_spellings(raw, escapes)


def _spell_numbers(characters: Characters) -> list[str]:
    """Returns the numeric escapes for the characters of a set, without the backslash."""
    options: list[str] = []
    for letter, width in (("x", 2), ("u", 4), ("U", 8)):
        numbers = write_numbers(characters.ranges, width)
        if numbers:
            options.append(letter + numbers)
    if any(first <= 0x10000 and last == 0x10FFFF for first, last in characters.ranges):
        options.append(_PAIR)
    return options
