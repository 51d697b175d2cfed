"""Regular expressions of JSON Schema (ECMA 262, unanchored) in the dialect of the mask.

llguidance wants the syntax of Rust's `regex` crate, matched against the whole string, without
look-around, back references and word boundaries.
"""

import re

_SPACES = (
    r" \t\n\r\f\v\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}"
)
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES}
_ANYTHING = "(?s:.*)"
_NEWLINES = {"\n": r"\n", "\r": r"\r"}
_TOKEN = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[pP]\{[^}]*\}|.)|\(\?<?[=!:]?|.", re.S)
_UNSUPPORTED = frozenset(["(?=", "(?!", "(?<=", "(?<!"])
_ESCAPED_LETTERS = frozenset("dDwWsSnrtfvxupP")

MAX_QUANTIFIERS = 4_000
"""llguidance's work on a row of them grows with the square of their number: 0.2 s for so many."""


def translate(pattern: str) -> str | None:
    """A JSON Schema `pattern` as a regex for the whole string.

    Returns:
        Rust syntax, or None where a mask cannot hold it.
    """
    branches: list[list[str]] = [[]]
    depth, inside, quantifiers = 0, False, 0
    for found in _TOKEN.finditer(pattern):  # other threads run in between
        token = found[0]
        if token in _UNSUPPORTED or _is_unknown(token):
            return None
        if inside:
            inside = token != "]"
            branches[-1].append(_translate_in_class(token))
            continue
        inside = token == "["
        quantifiers += token[0] in "?*+{"
        if quantifiers > MAX_QUANTIFIERS:
            return None
        if token.startswith("("):
            depth += 1
        elif token == ")":
            depth -= 1
        if token == "|" and depth == 0:
            branches.append([])
        else:
            branches[-1].append(_translate_outside(token))
    wholes = [_anchor(branch) for branch in branches]
    return None if None in wholes else "|".join(f"({w})" for w in wholes)


def _is_unknown(token: str) -> bool:
    """Escapes that mean nothing here (`\\b`, `\\1`), or not what they mean to Rust (`\\A`)."""
    return _is_escape(token) and token[1].isalnum() and token[1] not in _ESCAPED_LETTERS


def _is_escape(token: str) -> bool:
    """Is it a backslash and one character?"""
    return len(token) == 2 and token[0] == "\\"


def _translate_in_class(token: str) -> str:
    if _is_escape(token):
        return _translate_escape(token[1])
    if token in "[&~":  # Rust has nested classes, and operators on them
        return "\\" + token
    return _NEWLINES.get(token, token)


def _translate_outside(token: str) -> str:
    if token == ".":
        return r"[^\n\r\u{2028}\u{2029}]"
    if _is_escape(token):
        return _translate_escape(token[1])
    return _NEWLINES.get(token, token)


def _translate_escape(name: str) -> str:
    """A class such as `\\d` with what ECMA 262 means by it, also inside brackets; or an identity
    escape, of which Rust knows only those of ASCII punctuation."""
    members = _CLASSES.get(name.lower())
    if members is not None:
        return f"[^{members}]" if name.isupper() else f"[{members}]"
    if name in "/\"'<>=!:,;@_`% " or ord(name) > 127:
        return name
    return _NEWLINES.get(name, "\\" + name)


def _anchor(branch: list[str]) -> str | None:
    """The branch for the whole string; None where an anchor stands inside it."""
    body = list(branch)
    before = after = _ANYTHING
    if body and body[0] == "^":
        before = ""
        del body[0]
    if body and body[-1] == "$":
        after = ""
        del body[-1]
    if _has_anchor(body):
        return None
    return before + "".join(body) + after


def _has_anchor(body: list[str]) -> bool:
    inside = False
    for token in body:
        if not inside and token in ("^", "$"):
            return True
        inside = token == "[" or (inside and token != "]")
    return False
