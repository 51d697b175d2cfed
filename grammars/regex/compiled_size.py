"""How large a pattern becomes in an engine that writes its counts out, without compiling it.

The `regex` crate, by which jsonschema-rs checks values, copies what is counted: `\\p{L}{1,200}` is
200 times the ranges of all letters, 10 MB and 40 ms for 12 characters. It has a limit for one
pattern, but none for all patterns of a schema, and no other thread runs meanwhile.
"""

import re

MOST = 10**9  # larger sizes are all the same
_LETTERS = 700  # ranges of characters in `\p{L}`, about; other properties have fewer
_SOME = 10
"""Ranges of what is everything but a few characters: by the bytes of UTF-8, these are several."""
_WIDE = frozenset([".", r"\s", r"\S", r"\D", r"\W"])
_TOKEN = re.compile(
    r"""
    (?P<property> \\[pP](?:\{[^}]*\}|.) )
  | (?P<escape> \\. )
  | (?P<brackets> \[ \^? (?:\\.|[^\]\\])* \]? )
  | \{ (?P<least>[0-9]+) ,? (?P<most>[0-9]*) \}
  | .
    """,
    re.VERBOSE | re.DOTALL,
)


def estimate_ranges(pattern: str) -> int:
    """The ranges of characters that a pattern has once its counts are written out, about: at 70
    bytes, and less than a microsecond, for each. What is no pattern has some number, too."""
    sizes = [0]  # of the groups that are open, the innermost last
    last = 0  # the size of what a count would be about
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            sizes.append(0)
            last = 0
            continue
        if token["least"] is not None:
            copies = max(_read_count(token["least"]), _read_count(token["most"]), 1)
            sizes[-1] = min(sizes[-1] + last * (copies - 1), MOST)
            last = min(last * copies, MOST)
            continue
        is_end = text == ")" and len(sizes) > 1
        last = sizes.pop() if is_end else _measure_token(token)
        sizes[-1] = min(sizes[-1] + last, MOST)
    return min(sum(sizes), MOST)


def _measure_token(token: "re.Match[str]") -> int:
    text = token[0]
    if token["property"] is not None:
        return _LETTERS
    if token["brackets"] is not None:
        properties = text.count(r"\p") + text.count(r"\P")
        return len(text) + _SOME * text.startswith("[^") + _LETTERS * properties
    return _SOME if text in _WIDE else 1


def _read_count(digits: str) -> int:
    if len(digits) > len(str(MOST)):
        return MOST
    return int(digits or "0")
