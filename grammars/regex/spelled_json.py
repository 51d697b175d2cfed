"""Expressions over characters as expressions over their spellings in JSON's strings."""

from collections.abc import Iterator, Sequence

from grammars.regex.characters import Characters
from grammars.regex.expressions import Chain, Either, Expression, One, Repeat
from grammars.regex.reader import UnreadableError, read
from grammars.regex.spelled import spell_expression, write_code, write_spellings
from grammars.regex.texts import ANY, Texts, match_words

_LETTERS = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CONTROLS = Characters(((0, 0x1F), (0x7F, 0x7F)))
_ESCAPED = Characters.of('"\\')
_PLAIN = Characters.collect([(0, 0x1F), *_ESCAPED.ranges]).invert()


def spell_pattern(pattern: str) -> str | None:
    """What JSON's strings look like, quotes included, whose characters match; None where
    llguidance's own reading of the pattern is right, or the pattern cannot be read.

    llguidance 1.9 takes a set that holds all control characters for one of all characters that
    have an escape: it would let an escaped quote through where a pattern excludes quotes.
    """
    try:
        expression = read(pattern)
        if not any(map(_is_misread, _find_sets(expression))):
            return None
        return f'"({spell_expression(expression, _spell_set)})"'
    except (UnreadableError, RecursionError):
        return None


def spell_extra_keys(keys: Texts, declared: Sequence[str]) -> Texts:
    """What JSON's strings look like, quotes included, that are these keys but none of the declared
    ones; control characters alone are written by their numbers.

    Raises:
        UnreadableError: an expression that cannot be spelled.
    """
    parts = (ANY, *keys.parts)
    without = (*keys.without, *match_words(declared))
    return Texts((*map(_spell_whole, parts),), (*map(_spell_whole, without),))


def _spell_whole(pattern: str) -> str:
    return f'"({spell_expression(read(pattern), _spell_set)})"'


def _is_misread(characters: Characters) -> bool:
    has_controls = all(chr(code) in characters for code in (0, 1, 0x1F))
    return has_controls and not all(c in characters for c in _LETTERS)


def _find_sets(expression: Expression) -> Iterator[Characters]:
    match expression:
        case One(characters):
            yield characters
        case Chain(first, rest):
            yield from _find_sets(first)
            yield from _find_sets(rest)
        case Either(options):
            for option in options:
                yield from _find_sets(option)
        case Repeat(body):
            yield from _find_sets(body)
        case _:
            return


def _spell_set(characters: Characters) -> str:
    """One character of a set, as it is or escaped; only control characters by their numbers."""
    escapes = [write_code(ord(letter)) for c, letter in _LETTERS.items() if c in characters]
    escapes += [
        "u00" + "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in f"{code:02x}")
        for low, high in characters.both(_CONTROLS).ranges
        for code in range(low, high + 1)
    ]
    return write_spellings(characters.both(_PLAIN), escapes)
