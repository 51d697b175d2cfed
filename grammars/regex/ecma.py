"""Regular expressions of JSON Schema (ECMA 262, searched for) in the dialect of the mask.

The mask wants Rust syntax, matched against the whole string, without look-around, back references
and word boundaries.
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


def translate(pattern: str) -> str | None:
    """A JSON Schema `pattern` as an expression for the whole string.

    Returns:
        Rust syntax, or None where a mask cannot hold it.
    """
    branches: list[list[str]] = [[]]
    depth, inside = 0, False
    for token in _TOKEN.findall(pattern):
        if token in _UNSUPPORTED or _is_unknown(token):
            return None
        if inside:
            inside = token != "]"
            branches[-1].append(_translate_in_class(token))
            continue
        inside = token == "["
        depth += token.startswith("(") - (token == ")")
        if token == "|" and depth == 0:
            branches.append([])
        else:
            branches[-1].append(_translate_outside(token))
    wholes = [_anchor(branch) for branch in branches]
    return None if None in wholes else "|".join(f"({w})" for w in wholes)


def _is_unknown(token: str) -> bool:
    """Escapes that mean nothing here (`\\b`, `\\1`), or not what they mean to Rust (`\\A`)."""
    return (
        len(token) == 2
        and token[0] == "\\"
        and token[1].isalnum()
        and (token[1] not in _ESCAPED_LETTERS)
    )


def _translate_in_class(token: str) -> str:
    if len(token) == 2 and token[0] == "\\":
        return _class(token[1]) or _unescape(token[1])
    return "\\" + token if token in "[&~" else _NEWLINES.get(token, token)


def _translate_outside(token: str) -> str:
    if token == ".":
        return r"[^\n\r\u{2028}\u{2029}]"
    if len(token) == 2 and token[0] == "\\":
        return _class(token[1]) or _unescape(token[1])
    return _NEWLINES.get(token, token)


def _class(name: str) -> str | None:
    """`\\d`, `\\W` and the like, with what ECMA 262 means by them; also inside brackets."""
    if name.lower() not in _CLASSES:
        return None
    return f"[{'^' if name.isupper() else ''}{_CLASSES[name.lower()]}]"


def _unescape(name: str) -> str:
    """An identity escape; Rust knows only those of ASCII punctuation."""
    plain = name in "/\"'<>=!:,;@_`% " or ord(name) > 127
    return name if plain else _NEWLINES.get(name, "\\" + name)


def _anchor(branch: list[str]) -> str | None:
    start = bool(branch) and branch[0] == "^"
    end = len(branch) > start and branch[-1] == "$"
    body = branch[start : len(branch) - end]
    if _has_anchor(body):
        return None
    return ("" if start else _ANYTHING) + "".join(body) + ("" if end else _ANYTHING)


def _has_anchor(body: list[str]) -> bool:
    inside = False
    for token in body:
        if not inside and token in ("^", "$"):
            return True
        inside = token == "[" or (inside and token != "]")
    return False
