"""A regex over characters as a regex over how a string literal spells them: in general, and in JSON
(RFC 8259, section 7)."""

from collections.abc import Callable, Iterator, Sequence

from grammars.regex.characters import Characters
from grammars.regex.expressions import Blank, Chain, Either, Expression, One, Repeat, list_parts
from grammars.regex.reader import UnreadableError, read
from grammars.regex.texts import ANY, Texts, match_words

_LETTERS = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CONTROLS = Characters(((0, 0x1F), (0x7F, 0x7F)))
_ESCAPED = Characters.of('"\\')
_PLAIN = Characters.collect([(0, 0x1F), *_ESCAPED.ranges]).invert()
_PLAIN_OF_LLGUIDANCE = Characters.collect([*_CONTROLS.ranges, *_ESCAPED.ranges]).invert()


def spell_expression(expression: Expression, spell_one: Callable[[Characters], str]) -> str:
    """The expression over spellings.

    Args:
        expression: made of sets of characters, one behind the other, side by side or repeated.
        spell_one: writes the spellings of one character of a set.

    Raises:
        UnreadableError: it is made of something else.
    """
    match expression:
        case Blank():
            return ""
        case One(characters):
            return spell_one(characters)
        case Chain(first, rest):
            return spell_expression(first, spell_one) + spell_expression(rest, spell_one)
        case Either(options):
            return f"({'|'.join(sorted(spell_expression(o, spell_one) for o in options))})"
        case Repeat(body, fewest, most):
            limit = "" if most is None else most
            return f"({spell_expression(body, spell_one)}){{{fewest},{limit}}}"
        case _:
            raise UnreadableError("an empty set")


def write_spellings(raw: Characters, escapes: list[str]) -> str:
    """One character: one of these as it is, or a backslash and one of these expressions.

    Raises:
        UnreadableError: there is none.
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
    """The character with that code point, in an expression."""
    return rf"\x{{{code:x}}}"


def _write_range(codes: tuple[int, int]) -> str:
    first, last = codes
    if first == last:
        return write_code(first)
    return f"{write_code(first)}-{write_code(last)}"


def spell_pattern(pattern: str) -> str | None:
    """A regex for the JSON strings, quotes included, whose characters match; None where
    llguidance's own reading of the pattern is right, or the pattern cannot be read.

    llguidance 1.9 takes a set that holds all control characters for one of all characters that
    have an escape: it would let an escaped quote through where a pattern excludes quotes.
    """
    try:
        expression = read(pattern)
        if not any(map(_is_misread, _find_sets(expression))):
            return None
        return _spell_string(expression)
    except (UnreadableError, RecursionError):
        return None


def spell_as_llguidance(pattern: str) -> str:
    """A regex for the JSON strings, quotes included, that llguidance takes for this pattern: as it
    spells them, a slash is never escaped and U+007F always.

    Raises:
        UnreadableError: an expression that cannot be spelled.
    """
    return f'"({spell_expression(read(pattern), _spell_set_as_llguidance)})"'


def spell_extra_keys(keys: Texts, declared: Sequence[str]) -> Texts:
    """The JSON strings, quotes included, that are these keys but none of the declared ones; control
    characters alone are written by their numbers.

    Raises:
        UnreadableError: an expression that cannot be spelled.
    """
    parts = (ANY, *keys.parts)
    without = (*keys.without, *match_words(declared))
    return Texts(
        tuple(_spell_string(read(part)) for part in parts),
        tuple(_spell_string(read(part)) for part in without),
    )


def _spell_string(expression: Expression) -> str:
    return f'"({spell_expression(expression, _spell_set)})"'


def _spell_set(characters: Characters, plain: Characters = _PLAIN) -> str:
    """One character of a set, as it is (if it is plain) or escaped; only control characters by
    their numbers."""
    escapes = [write_code(ord(letter)) for c, letter in _LETTERS.items() if c in characters]
    for first, last in characters.both(_CONTROLS).ranges:
        for code in range(first, last + 1):
            escapes.append("u00" + "".join(map(_write_hex_digit, f"{code:02x}")))
    return write_spellings(characters.both(plain), escapes)


def _spell_set_as_llguidance(characters: Characters) -> str:
    """The same without `\\/`, and without U+007F as it is."""
    if "/" not in characters:
        return _spell_set(characters, _PLAIN_OF_LLGUIDANCE)
    rest = characters.both(Characters.of("/").invert())
    return f"({_spell_set(rest, _PLAIN_OF_LLGUIDANCE)}|/)" if rest.ranges else "/"


def _write_hex_digit(digit: str) -> str:
    return f"[{digit}{digit.upper()}]" if digit.isalpha() else digit


def _is_misread(characters: Characters) -> bool:
    has_controls = all(chr(code) in characters for code in (0, 1, 0x1F))
    return has_controls and not all(c in characters for c in _LETTERS)


def _find_sets(expression: Expression) -> Iterator[Characters]:
    """The sets of characters that the expression is made of."""
    for part in list_parts(expression):
        if isinstance(part, One):
            yield part.characters
