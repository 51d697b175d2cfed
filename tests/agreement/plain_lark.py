"""A grammar of llguidance's Lark dialect in plain Lark, for `hypothesis.extra.lark`.

What plain Lark cannot say becomes a declared terminal with a strategy of its own: terminals with
`&` and `~` (drawn and filtered), `%json` (drawn from its schema). A rule that ends at its first
match is a common rule here; its text contains no end, so both are the same language. A count
without an upper limit goes up to three more.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lark
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from hypothesis.strategies import SearchStrategy

from tests.text_strategies import TEXTS

PIECE = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|/(?P<regex>(?:[^/\\]|\\.)*)/|(?P<name>[A-Za-z]\w*)'
    r"|\{(?P<least>\d+),(?P<most>\d*)\}|(?P<count>~\d+\.\.\d+)|(?P<mark>[()|?*+&~])|(?P<space>\s+)"
)
RULE = re.compile(r"(\w+)(?:\[lazy\])?: (.*)")
CHARACTERS = st.characters(codec="utf-8")


@dataclass(frozen=True)
class Texts:
    """What a terminal matches: how to draw it, and how to know it."""

    strategy: SearchStrategy[str]
    holds: Callable[[str], bool]


def turns(grammar: str) -> SearchStrategy[str]:
    """A strategy for the texts of a grammar that `build_grammar` has built, without token ids."""
    header, *lines = grammar.splitlines()
    assert header.startswith("%llguidance")
    rules: dict[str, str] = {}
    declared: dict[str, Texts] = {}
    for line in lines:
        match = RULE.fullmatch(line)
        assert match, line
        name, body = match.groups()
        if name[0].isupper():
            declared[name] = _Terminal(body, declared).read()
        elif body.startswith("%json "):
            declared[f"JSON_{name.upper()}"] = _draw_json(json.loads(body.removeprefix("%json ")))
            rules[name] = f"JSON_{name.upper()}"
        else:
            rules[name] = "".join(map(_write_plain, _split(body)))
    used = _reach(rules)
    explicit = {name: texts.strategy for name, texts in declared.items() if name in used}
    written = [f"{name}: {body}" for name, body in rules.items() if name in used]
    source = "\n".join([*written, *(f"%declare {name}" for name in explicit), ""])
    return from_lark(lark.Lark(source), explicit=explicit, alphabet=CHARACTERS)


def _reach(rules: dict[str, str]) -> set[str]:
    """The names that `start` refers to, directly or not."""
    used = set[str]()
    found = {"start"}
    while found:
        used |= found
        bodies = [rules[name] for name in found if name in rules]
        named = {piece["name"] for body in bodies for piece in _split(body)}
        found = {name for name in named if name} - used
    return used


def _split(body: str) -> list[re.Match[str]]:
    pieces: list[re.Match[str]] = []
    at = 0
    while at < len(body):
        piece = PIECE.match(body, at)
        assert piece, body[at:]
        pieces.append(piece)
        at = piece.end()
    return pieces


def _write_plain(piece: re.Match[str]) -> str:
    if piece["least"] is None:
        return piece[0]
    least = int(piece["least"])
    return f"~{least}..{piece['most'] or least + 3}"


NOTHING = r"[^\x{0}-\x{10ffff}]"


def _begin_with(texts: Texts) -> Texts:
    """All that begins with one of the texts. It is only ever excluded, so it is not drawn."""

    def holds(text: str) -> bool:
        return any(texts.holds(text[:end]) for end in range(len(text) + 1))

    return Texts(st.nothing(), holds)


class _Terminal:
    """Reads `a & ~b & (c | d)`, and `~(b ~/nothing/)`."""

    def __init__(self, body: str, known: dict[str, Texts]):
        self.pieces = [piece for piece in _split(body) if not piece["space"]]
        self.known = known

    def read(self) -> Texts:
        texts = self._both()
        assert not self.pieces
        return texts

    def _sees(self, mark: str) -> bool:
        if self.pieces and self.pieces[0]["mark"] == mark:
            self.pieces.pop(0)
            return True
        return False

    def _both(self) -> Texts:
        texts = self._either()
        while self._sees("&"):
            negated = self._sees("~")
            texts = _limit(texts, self._either(), not negated)
        if self.pieces and self.pieces[0]["mark"] == "~":
            # Behind what a text may not begin with stands anything: no text is that empty class.
            self.pieces.pop(0)
            assert self.pieces.pop(0)["regex"] == NOTHING
            return _begin_with(texts)
        return texts

    def _either(self) -> Texts:
        options = [self._one()]
        while self._sees("|"):
            options.append(self._one())
        strategy = st.one_of([option.strategy for option in options])
        return Texts(strategy, lambda text: any(option.holds(text) for option in options))

    def _one(self) -> Texts:
        if self._sees("("):
            texts = self._both()
            assert self._sees(")")
            return texts
        piece = self.pieces.pop(0)
        return self.known[piece["name"]] if piece["name"] else _draw_regex(piece["regex"])


def _limit(texts: Texts, other: Texts, wanted: bool) -> Texts:
    def holds(text: str) -> bool:
        return texts.holds(text) and other.holds(text) is wanted

    return Texts(texts.strategy.filter(lambda text: other.holds(text) is wanted), holds)


def _draw_regex(regex: str) -> Texts:
    numbered = re.compile(r"\\[xu]\{([0-9a-f]+)\}")
    plain = numbered.sub(lambda match: rf"\U{int(match[1], 16):08x}", regex)
    pattern = re.compile(plain.replace("\\/", "/"))
    any_text = pattern.pattern == "(?s:.*)"
    strategy = TEXTS if any_text else st.from_regex(pattern, fullmatch=True, alphabet=CHARACTERS)
    return Texts(strategy, lambda text: pattern.fullmatch(text) is not None)


def _draw_json(schema: dict[str, Any]) -> Texts:
    """The two schemas that `build_grammar` leaves to `%json`."""
    if schema["type"] == "string":
        texts = st.from_regex(schema["pattern"], fullmatch=True, alphabet=CHARACTERS)
        strategy = texts.map(lambda text: json.dumps(text, ensure_ascii=False))
    else:
        assert schema["type"] == "integer"
        step = schema["multipleOf"]
        strategy = st.integers(-20, 20).map(lambda n: str(n * step))
    return Texts(strategy, lambda text: True)
