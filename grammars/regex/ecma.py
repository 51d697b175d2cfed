"""Translates regular expressions of JSON Schema (ECMA 262, unanchored) into the mask's dialect.

llguidance takes the syntax of Rust's `regex` crate, matched against the whole string, without
look-around, back references and word boundaries.
"""

import re

_SPACES = (
    r" \t\n\r\f\v\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}"
)
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES}
_ANY = "(?s:.)"
_ANYTHING = "(?s:.*)"
_ANY_CASE = re.compile(r"(?:\(\?i\))+")
_NEWLINES = {"\n": r"\n", "\r": r"\r"}
_TOKEN = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[ux]\{[0-9a-fA-F]+\}|[pP]\{[^{}\\]*\}|.)|\(\?<?[=!:]?|.",
    re.DOTALL,
)
_FLAGS = re.compile(r"\(\?(?P<on>[a-z]*)(?:-(?P<off>[a-z]*))?(?P<end>[:)])")
_UNSUPPORTED = frozenset(["(?=", "(?!", "(?<=", "(?<!"])
_ESCAPED_LETTERS = frozenset("dDwWsSnrtfvxupP")

MAX_QUANTIFIERS = 4_000
"""The maximum number in a row: llguidance's work grows with its square, and takes 0.2 s for this
many."""


def translate(pattern: str) -> str | None:
    """Translates a JSON Schema `pattern` into a regex for the whole string.

    Returns:
        Rust syntax, or None if a mask cannot enforce the pattern.
    """
    any_case = _ANY_CASE.match(pattern)
    if any_case is None:
        return _translate_plain(pattern)
    regex = _translate_plain(pattern[any_case.end() :])
    return None if regex is None else f"(?i:{regex})"


def has_dot(pattern: str) -> bool:
    """Returns whether the pattern has a dot that stands for any character."""
    inside = False
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        if token == "." and not inside:
            return True
        inside = token != "]" if inside else token == "["
    return False


def _translate_plain(pattern: str) -> str | None:
    """Translates a pattern that does not begin with `(?i)`."""
    branches: list[list[str]] = [[]]
    depth, inside, quantifiers = 0, False, 0
    is_quantified = False  # `a+`, but not `a++`, which validators read otherwise
    is_counting = False
    takes_newlines = [False]  # whether a dot does (the flag `s`), in each group around
    for found in _TOKEN.finditer(pattern):  # other threads run between the steps
        token = found[0]
        if token in _UNSUPPORTED or _is_unknown(token):
            return None
        if inside:
            inside = token != "]"
            branches[-1].append(_translate_in_class(token))
            continue
        inside = token == "["
        if token[0] in "?*+{":
            quantifiers += 1
            if quantifiers > MAX_QUANTIFIERS or (is_quantified and token[0] != "?"):
                return None
            is_quantified, is_counting = True, token == "{"
        elif token == "}":
            is_counting = False
        elif not is_counting:
            is_quantified = False
        if token.startswith("("):
            depth += 1
            _enter_group(takes_newlines, pattern, found.start())
        elif token == ")":
            depth -= 1
            if len(takes_newlines) > 1:
                takes_newlines.pop()
        if token == "|" and depth == 0:
            branches.append([])
        else:
            is_any = token == "." and takes_newlines[-1]
            branches[-1].append(_ANY if is_any else _translate_outside(token))
    wholes = [_anchor(branch) for branch in branches]
    return None if None in wholes else "|".join(f"({w})" for w in wholes)


def _enter_group(takes_newlines: list[bool], pattern: str, start: int) -> None:
    """Adds the group that starts here, with its own flags: `(?s:.)`. Flags without a text (`(?s)`)
    are for the rest of the group around them."""
    flags = _FLAGS.match(pattern, start)
    is_on = takes_newlines[-1]
    if flags is not None:
        is_on = (is_on or "s" in flags["on"]) and "s" not in (flags["off"] or "")
        if flags["end"] == ")":
            takes_newlines[-1] = is_on
    takes_newlines.append(is_on)


def _is_unknown(token: str) -> bool:
    """Returns True for escapes without a meaning here (`\\b`, `\\1`), or with another one in Rust
    (`\\A`)."""
    return _is_escape(token) and token[1].isalnum() and token[1] not in _ESCAPED_LETTERS


def _is_escape(token: str) -> bool:
    """True for a backslash and one character."""
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
    """Translates a class such as `\\d` into its ECMA 262 meaning, also inside brackets, and an
    identity escape into one that Rust accepts (ASCII punctuation only)."""
    members = _CLASSES.get(name.lower())
    if members is not None:
        return f"[^{members}]" if name.isupper() else f"[{members}]"
    if name in "/\"'<>=!:,;@_`% " or ord(name) > 127:
        return name
    return _NEWLINES.get(name, "\\" + name)


def _anchor(branch: list[str]) -> str | None:
    """Returns the branch as an expression for the whole string; None: it has an anchor inside."""
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
