"""Estimates the size of a pattern in an engine that expands counts, without compiling it.

The `regex` crate, with which jsonschema-rs validates values, copies what is counted:
`\\p{L}{1,200}` becomes 200 copies of the ranges of all letters, 10 MB and 40 ms for 12 characters.
It limits the size of one pattern, but not that of all patterns of a schema, and it blocks all other
threads.

jsonschema-rs gives `\\w` and `\\d` the meaning of ECMA 262; but in a pattern with look-around or
back references it gives them that of Unicode, whose sets are a hundred times as large.
"""

import re

MAX_SIZE = 10**9  # all larger sizes count as this one
_LETTERS = 700  # ranges of `\p{L}` or Unicode's `\w`, about; no property has more
_DIGITS = 80  # ranges of Unicode's `\d`
_SOME = 10
"""Ranges of a class of all but a few characters: in UTF-8, it becomes several byte sequences."""
_FOLDED = 5  # ranges of a letter and its case variants, or of such a `\w`
_WIDE = {r"\s": _SOME, r"\S": _SOME, r"\D": _SOME, r"\W": _SOME}
_OF_UNICODE = {r"\w": _LETTERS, r"\W": _LETTERS, r"\d": _DIGITS, r"\D": _DIGITS}
_PROPERTIES = {r"\p": _LETTERS, r"\P": _LETTERS}
_TOKEN = re.compile(
    r"""
    (?P<property> \\[pP](?:\{[^{}\\]*\}|.) )
  | \\.
  | (?P<brackets> \[ \^?+ (?:\\.|[^\[\]\\])+ (?:\]|\Z) )
  | \{ (?P<least>[0-9]+) ,? (?P<most>[0-9]*) \}
  | (?P<flags> \(\?[imsuU-]*\) )
  | (?P<group> \( (?: (?![?*]) | \?: | \?<?[=!] | \?P?<[A-Za-z_0-9]+> | \?[imsuU-]+: ) )
  | (?P<unsure> [\[(] | \{ [\s,]* [0-9] [\s0-9,]* \} )
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_UNTRANSLATED = re.compile(r"\(\?<?[=!]|\\[0-9k]")
"""Look-around and back references; also matches some escaped text that only looks like them."""
_FOLDING = re.compile(r"\(\?[A-Za-z]*i")
_VERBOSE = re.compile(r"\(\?[A-Za-z-]*x")
_BRACES = re.compile(r"\\[pPuUx]\{[^{}\\]*\}|\\.|\{([^{}]*)", re.DOTALL)
_NO_DIGITS = re.compile("[^0-9]+")
_WIDE_CLASS = re.compile(r"\\[pPwWsSdD]")
_RANGE_END = re.compile(r"-(?:\\[xuU]\{?([0-9A-Fa-f]{1,8})|(.))", re.DOTALL)
_MAX_FOLDED = 12_000  # ranges that take as long as case folding of all characters
_FOLDED_IN_RANGE = 90  # characters whose case folding takes as long as one range


def estimate_ranges(pattern: str) -> int:
    """Returns an upper bound of the character ranges of a pattern after its counts are expanded.
    Each takes 70 bytes, and less than a microsecond. A text that is no pattern has some number,
    too."""
    if _FOLDING.search(pattern):
        return min(_estimate_counts(pattern, _FOLDED) + _estimate_folding(pattern), MAX_SIZE)
    return _estimate_counts(pattern, 1)


def _estimate_counts(pattern: str, other: int) -> int:
    """Counts the ranges, at least `other` for each character."""
    known = _find_sizes(pattern)
    sizes = [0]  # of the open groups, the innermost last
    last = 0  # the size of what a count would repeat
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token["unsure"] is not None:
            return _estimate_maximum(pattern, known, other)
        if token["flags"] is not None:
            continue
        if token["group"] is not None:
            sizes.append(0)
            last = 0
            continue
        if token["least"] is not None:
            copies = max(_read_count(token["least"]), _read_count(token["most"]), 1)
            sizes[-1] = min(sizes[-1] + last * (copies - 1), MAX_SIZE)
            last = min(last * copies, MAX_SIZE)
            continue
        if text == ")" and len(sizes) > 1:
            last = sizes.pop()
        elif token["property"] is not None:
            last = _LETTERS
        elif token["brackets"] is not None:
            last = len(text) + _SOME * text.startswith("[^") + _add_known(text[1:], known)
        else:
            last = _SOME if text == "." else known.get(text, other)
        sizes[-1] = min(sizes[-1] + last, MAX_SIZE)
    return min(sum(sizes), MAX_SIZE)


def _find_sizes(pattern: str) -> dict[str, int]:
    """Returns the parts of this pattern that have more ranges than a letter, with their sizes."""
    known = _WIDE | _PROPERTIES
    if _UNTRANSLATED.search(pattern):
        known |= _OF_UNICODE
    return known


def _add_known(text: str, known: dict[str, int]) -> int:
    return sum(size * text.count(name) for name, size in known.items())


def _estimate_maximum(pattern: str, known: dict[str, int], other: int) -> int:
    """Returns the size if each count repeated everything else, whatever the groups and brackets
    are.

    For patterns that the engine may read in another way: ignored comments and spaces, nested
    brackets, or `]` at the start of a class, which is a character in Rust and ends an empty class
    in ECMA 262.
    """
    if "#" in pattern and _VERBOSE.search(pattern):  # a comment may be inside a count
        return MAX_SIZE
    wide = pattern.count(".") + pattern.count("[")
    size = other * len(pattern) + _SOME * wide + _add_known(pattern, known)
    for braces in _BRACES.findall(pattern):
        copies = [_read_count(_NO_DIGITS.sub("", bound)) for bound in braces.split(",")]
        size = min(size * max(max(copies), 1), MAX_SIZE)
    return size


def _estimate_folding(pattern: str) -> int:
    """Returns the ranges that take as long as case folding of its classes: each class once,
    character by character."""
    characters = 0
    for code, end in _RANGE_END.findall(pattern):
        characters += int(code, 16) if code else ord(end)
    size = characters // _FOLDED_IN_RANGE
    classes = set[str]()
    for token in _TOKEN.finditer(pattern):
        if token["unsure"] is not None:
            signs = pattern.count("-") + pattern.count("[") + pattern.count("\\")
            return size + _MAX_FOLDED * signs
        if token["property"] is not None or (token["brackets"] and _WIDE_CLASS.search(token[0])):
            classes.add(token[0])
    return size + _MAX_FOLDED * len(classes)


def _read_count(digits: str) -> int:
    if len(digits) > len(str(MAX_SIZE)):
        return MAX_SIZE
    return int(digits or "0")
