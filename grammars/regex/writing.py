"""Pieces of regular expressions as text, in the dialect of the mask (Rust syntax)."""

from collections.abc import Iterable

_SPECIAL = frozenset(r"\.+*?()|[]{}^$#&-~/" + '"')
_LETTERS = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def escape_regex(text: str) -> str:
    """Text as a regular expression that matches just it, fit for `/.../` in Lark."""
    escaped: list[str] = []
    for character in text:
        if character in _SPECIAL:
            escaped.append("\\" + character)
        else:
            escaped.append(_LETTERS.get(character, character))
    return "".join(escaped)


def escape_slashes(regex: str) -> str:
    """A regular expression, fit for `/.../` in Lark."""
    return regex.replace("\\/", "/").replace("/", "\\/")


def match_any(words: Iterable[str]) -> str:
    """A regular expression for just these words."""
    return f"({'|'.join(map(escape_regex, words))})"


def count_times(fewest: int, most: int | None) -> str:
    """How often something is there, to stand behind it: so many times, or any number."""
    if (fewest, most) == (0, None):
        return "*"
    return f"{{{fewest},{'' if most is None else most}}}"
