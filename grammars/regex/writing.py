"""Writes parts of regular expressions in the dialect of the mask (Rust syntax)."""

from collections.abc import Iterable

_SPECIAL = frozenset(r"\.+*?()|[]{}^$#&-~/" + '"')
_SHORT: dict[tuple[int, int | None], str] = {(0, None): "*", (1, None): "+", (0, 1): "?"}
_LETTERS = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def escape_regex(text: str) -> str:
    """Returns an expression that matches just this text, fit for `/.../` in Lark."""
    escaped: list[str] = []
    for character in text:
        if character in _SPECIAL:
            escaped.append("\\" + character)
        else:
            escaped.append(_LETTERS.get(character, character))
    return "".join(escaped)


def write_code(code: int) -> str:
    """Writes the character with that code point."""
    return rf"\x{{{code:x}}}"


def write_character(character: str) -> str:
    """Writes a character so that it means itself, also inside brackets."""
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else write_code(ord(character))


def escape_slashes(regex: str) -> str:
    """Returns the expression in a form fit for `/.../` in Lark."""
    return regex.replace("\\/", "/").replace("/", "\\/")


def match_any(words: Iterable[str]) -> str:
    """Returns an expression for just these words."""
    return f"({'|'.join(map(escape_regex, words))})"


def count_times(fewest: int, most: int | None) -> str:
    """Writes the quantifier of `fewest` to `most` times (None: no maximum)."""
    if (short := _SHORT.get((fewest, most))) is not None:
        return short
    return f"{{{fewest},{'' if most is None else most}}}"
