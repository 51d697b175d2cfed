"""Writes patterns of pydantic's two engines, Rust's `regex` and Python's `re`, in ECMA 262.

Beyond ASCII the engines disagree about digits, spaces and the characters of words. Such a class is
written so narrow that a text which ECMA 262 takes is taken by both engines as well: where a match
forbids something (`[^\\d]`, `(?!\\d)`), it is as wide as in any of them.
"""

import re
from dataclasses import dataclass, replace

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.ecma_parser import parse_pattern
from grammars.regex.reader import COMMENT, NAMED, SAME_NAME, PatternError, PatternScanner

_WIDE = {
    "d": r"\p{Nd}\p{Cn}",  # unassigned characters: the next Unicode may make them digits
    "w": r"\p{L}\p{M}\p{N}\p{Pc}\p{Cn}\u200c\u200d\u24b6-\u24e9\u{1f130}-\u{1f189}",
    "s": r"\s\x1c-\x1f\x85",
    "D": r"\D",
    "W": r"\W",
    "S": r"\S\ufeff",
}
"""The characters that a class has in any of the engines, as members of a class."""
_NOT_ASCII_SPACES = r"\S\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\0-\x7f", "blank": r"\t ",
    "cntrl": r"\0-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t-\r ", "upper": "A-Z", "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_DOTLESS = r"\u0130\u0131"  # other cases of `i`, to Python only
_BRIEF_WORD = r"\w\x80-\u{10ffff}"
"""With the flag `i`, with which each class of Unicode costs the validator a millisecond."""

_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_SPACE = re.compile(r"\s+|#[^\n]*")
_TIMES = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_PROPERTY = re.compile(r"\\([pP])(?:\{([^{}]*)\}|([A-Za-z]))")
_POSIX_NAME = re.compile(r"\[:([a-z]+):\]")
_NUMBER = re.compile(
    r"\\(?:[xuU]\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-3][0-7]{2})")


@dataclass(frozen=True)
class _PatternScope:
    """Flags, and whether the place is inside of an odd number of negative assertions."""

    flags: frozenset[str] = frozenset()
    is_negative: bool = False


@keep_results("regexes", MIB)
def write_engine_pattern(pattern: str | re.Pattern[str], *, is_python: bool) -> str:
    """Returns a pattern of ECMA 262 whose texts all match a valid pattern of another engine, the
    same one if that is possible. PatternError: ECMA 262 cannot express a part of it."""
    flags = frozenset[str]()
    if isinstance(pattern, re.Pattern):
        flags = frozenset(flag.lower() for flag in "IMSXA" if pattern.flags & re.RegexFlag[flag])
        pattern, is_python = pattern.pattern, True
    writer = _EnginePatternWriter(pattern, _PatternScope(flags), is_python=is_python)
    written = writer.write()
    expression = parse_pattern(written, frozenset()).expression
    if written == pattern:
        return pattern
    try:
        is_same = parse_pattern(pattern, frozenset()).expression == expression
    except PatternError:
        is_same = False
    return pattern if is_same else written


class _EnginePatternWriter(PatternScanner):
    def __init__(self, text: str, scope: _PatternScope, *, is_python: bool):
        super().__init__(text)
        self._is_python = is_python
        self._scopes = [scope]

    @property
    def _scope(self) -> _PatternScope:
        return self._scopes[-1]

    def write(self) -> str:
        kept = "".join(sorted(self._scope.flags & {"i", "s"}))
        parts = [f"(?{kept})"] if kept else []
        while self.at < len(self.text):
            parts.append(self._part())
        return "".join(parts)

    def _part(self) -> str:
        character = self.text[self.at]
        if "x" in self._scope.flags and self.find(_SPACE):
            return ""
        match character:
            case "(":
                return self._group()
            case ")":
                if len(self._scopes) > 1:
                    self._scopes.pop()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" if "m" in self._scope.flags:
                character, self.at = r"(?<![^\n])", self.at + 1
                return character
            case "$":
                self.at += 1
                if "m" in self._scope.flags:
                    return r"(?![^\n])"
                return r"(?=\n?$)" if self._is_python and self._scope.is_negative else "$"
            case "." if self._scope.is_negative and "s" not in self._scope.flags:
                self.at += 1
                return r"[^\n]"
            case "{" if times := self.find(_TIMES):
                return f"{{{times[1] or 0}{times[2]}{times[3]}}}"
            case "{" | "}" | "]":
                character = "\\" + character
            case _:
                pass
        self.at += 1
        return character

    def _group(self) -> str:
        if self.find(COMMENT):
            return ""
        if same := self.find(SAME_NAME):
            return rf"\k<{same[1]}>"
        scope = self._scope
        for opening in ("(?=", "(?!", "(?<=", "(?<!", "(?>"):
            if self.takes(opening):
                is_negative = scope.is_negative != opening.endswith("!")
                self._scopes.append(replace(scope, is_negative=is_negative))
                return opening
        if found := self.find(_FLAGS):
            on, off = set(found[1]), set(found[2] or "")
            if on - set("imsxuUa") or off - set("imsxU"):
                raise self.fail(f"the flags {found[0]} have no counterpart in ECMA 262")
            inner = replace(scope, flags=(scope.flags | on) - off)
            kept = ["".join(sorted(flags & {"i", "s"})) for flags in (on, off)]
            written = "-".join(kept) if kept[1] else kept[0]
            if found[3] == ":":
                self._scopes.append(inner)
                return f"(?{written}:"
            self._scopes[-1] = inner
            return f"(?{written})" if written else ""
        self._scopes.append(scope)
        if named := self.find(NAMED):
            return f"(?<{named[1]}>"
        self.at += 1
        if self.text.startswith("?", self.at):
            raise self.fail("this group has no counterpart in ECMA 262")
        return "("

    def _class(self) -> str:
        """Writes brackets: as a class, or with look-ahead if a member is the rest of one."""
        self.at += 1
        is_negated = self.takes("^")
        is_wide = is_negated != self._scope.is_negative
        members: list[str] = []
        others: list[str] = []  # what is no member of a class
        names: set[str] = set()
        is_first = True
        while is_first or not self.takes("]"):
            is_first = False
            if self.at >= len(self.text):
                raise self.fail("the bracket is not closed")
            if not self._is_python:
                if "x" in self._scope.flags and self.find(_SPACE):
                    continue
                if posix := self.find(_POSIX_NAME):
                    members.append(_POSIX[posix[1]])
                    continue
                if self.text.startswith(("[", "&&", "--", "~~"), self.at):
                    raise self.fail("a class inside of a class has no counterpart in ECMA 262")
            if (kind := self._shorthand()) is not None:
                names.add(kind)
                (members if is_wide or kind in "dw" else others).append(self._list(kind, is_wide))
                continue
            member = self._character()
            following = self.text[self.at : self.at + 2]
            is_difference = following == "--" and not self._is_python
            if following[:1] == "-" and following[1:] not in ("", "]") and not is_difference:
                self.at += 1
                member += "-" + self._character()
            members.append(member)
        if any(kind.swapcase() in names for kind in names):
            members, others = [r"\s\S"], []
        if is_wide and self._is_python and "i" in self._scope.flags:
            members.append(_DOTLESS)
        if not others:
            return f"[{'^' * is_negated}{''.join(members)}]"
        options = "|".join([f"[{''.join(members)}]", *others] if members else others)
        return rf"(?:(?!{options})[\s\S])" if is_negated else f"(?:{options})"

    def _shorthand(self) -> str | None:
        """Reads the name of a class, or a property of Unicode; None: here is none."""
        if found := self.find(_PROPERTY):
            return f"{found[1]}{{{found[2] or found[3]}}}"
        name = self.peek(1)
        if self.text[self.at] == "\\" and name in _WIDE:
            self.at += 2
            return name
        return None

    def _list(self, kind: str, is_wide: bool) -> str:
        """Returns the members of a class, or one of its own if it is narrow and no list."""
        if not is_wide and kind[0] in "dwp":
            return "\\" + kind
        if not is_wide:
            return f"[^{self._list(kind[0].swapcase() + kind[1:], True)}]"
        if kind[0] in "pP":
            return rf"\{kind}\p{{Cn}}"
        if kind == "w" and "i" in self._scope.flags:
            return _BRIEF_WORD
        return _NOT_ASCII_SPACES if kind == "S" and "a" in self._scope.flags else _WIDE[kind]

    def _character(self) -> str:
        character = self.peek()
        if character == "\\":
            return self._literal(is_inside=True)
        self.at += 1
        return "\\" + character if character in tuple("[]^-") else character

    def _escape(self) -> str:
        kind = self._shorthand()
        if kind is not None:
            listed = self._list(kind, self._scope.is_negative)
            return f"[{listed}]" if self._scope.is_negative else listed
        name = self.peek(1)
        if name in tuple("bB"):
            self.at += 2
            if not self._is_python and self.text.startswith("{", self.at):
                raise self.fail("this boundary has no counterpart in ECMA 262")
            word = f"[{self._list('w', True)}]"
            edge = rf"(?:(?<=\w)(?!{word})|(?<!{word})(?=\w))"
            # No place of the empty text, as in Python.
            other = rf"(?:(?<=\w)(?=\w)|(?<!{word})(?!{word})(?:(?<=[\s\S])|(?=[\s\S])))"
            if name == "B":
                edge, other = other, edge
            return f"(?!{other})" if self._scope.is_negative else edge
        if name in tuple("AzZ"):
            self.at += 2
            return "^" if name == "A" else "$"
        if name in tuple("123456789") and _OCTAL.match(self.text, self.at) is None:
            self.at += 2
            return "\\" + name
        return self._literal(is_inside=False)

    def _literal(self, *, is_inside: bool) -> str:
        name = self.peek(1)
        if found := self.find(_NUMBER):
            return f"\\u{{{found[found.lastindex or 0]}}}"
        if self._is_python and (octal := self.find(_OCTAL)):
            return f"\\u{{{int(octal[1], 8):x}}}"
        self.at += 2
        if name == "a":
            return r"\x07"
        if name in tuple("fnrtv") or (name == "b" and is_inside):
            return "\\" + name
        if name.isalnum() or (name in tuple("<>") and not self._is_python):
            raise self.fail(f"the escape \\{name} has no counterpart in ECMA 262")
        is_syntax = name in tuple("^$\\.*+?()[]{}|/") or (name == "-" and is_inside)
        return "\\" + name if is_syntax else name
