"""Reads the beginning of a word or string, and ends it in the shortest way."""

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

from grammars.spelling.languages import Language, pick_shortest

Fit: TypeAlias = int | str | None
"""How a text fits from some index on: where the part ends; or, where the text ends before it, the
shortest rest of the part; None if it does not fit, or if no rest is known."""

_ESCAPE = (
    r'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
BODY = re.compile(rf'[^"\\]*(?:{_ESCAPE}[^"\\]*)*')
"""The whole characters of a JSON string; half an escape stays behind."""
_SIMPLE = tuple("\\" + letter for letter in 'n"\\trbf')
_CONTROLS = ("\\u000a", "\\u0009", *(f"\\u{code:04x}" for code in range(32)), "\\u007f")


def join(*parts: str | None) -> str | None:
    """The parts in a row; None if one of them is."""
    texts = [part for part in parts if part is not None]
    return "".join(texts) if len(texts) == len(parts) else None


def fit_words(text: str, at: int, *words: str) -> Fit:
    """Reads one of these words."""
    rests: list[str] = []
    for word in words:
        if text.startswith(word, at):
            return at + len(word)
        if at + len(word) > len(text) and word.startswith(text[at:]):
            rests.append(word[len(text) - at :])
    return pick_shortest(rests)


def decide(fits: Iterator[Fit]) -> Fit:
    """How any of several nodes fits. A JSON value tells its own end, so whole ones end alike."""
    rests: list[str | None] = []
    for fit in fits:
        if isinstance(fit, int):
            return fit
        rests.append(fit)
    return pick_shortest(rests)


def fit_string(text: str, at: int, language: Language | None = None, *, plain: bool = False) -> Fit:
    """Reads a JSON string.

    Args:
        text: what it stands in.
        at: where it begins.
        language: what its characters have to be; None: any.
        plain: only control characters are written as `\\u`.
    """
    if not text.startswith('"', at):
        return None
    body = BODY.match(text, at + 1)
    assert body
    end, characters = body.end(), "" if language is None else decode(body.group())
    if text.startswith('"', end):
        return end + 1 if language is None or language.accepts(characters) else None
    half, options = text[end:], list[str | None]()
    for rest in end_escape(half, plain=plain):
        more = "" if language is None else language.extend(characters + decode(half + rest))
        options.append(join(rest, more if more is None else encode(more), '"'))
    return pick_shortest(options)


def encode(text: str) -> str:
    """What stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def decode(body: str) -> str:
    """What is spelled between the quotes of a JSON string."""
    return json.loads(f'"{body}"', strict=False) if "\\" in body else body


def end_escape(half: str, *, plain: bool) -> Iterator[str]:
    """The ends of half an escape (or of nothing), the likeliest first."""
    if not half:
        yield ""
        return
    whole = (*_SIMPLE, *_CONTROLS) if plain else (*_SIMPLE, "\\u0020")
    yield from (w[len(half) :] for w in whole if w.startswith(half.lower()))
    if plain or len(half) < 2:
        return
    yield end_number(half)


def end_number(half: str, fill: str = "0") -> str:
    """The end of half an escape by number: of one with this digit, or of a pair."""
    if re.match(r"\\u[dD][89abAB]", half):
        first, second = half[:6].ljust(6, "0"), half[6:]
        return (first + second + "\\udc00"[len(second) :]).ljust(12, "0")[len(half) :]
    half_pair = half[2:] in ("d", "D")  # which is none with a digit below 8
    return ("7" * half_pair).ljust(6 - len(half), fill)
