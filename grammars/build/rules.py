"""The rules of a grammar under way, in Lark."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from grammars.errors import SchemaError
from grammars.schema.bits import ALWAYS, NEVER, Condition
from grammars.schema.nodes import Json

MOST_TEXT = 4_000_000  # characters of a grammar; one of 100 tools has about 100,000

TIGHT: dict[str, Json] = {"x-guidance": {"whitespace_flexible": False}}
"""Two `%json` side by side would else admit white space in front of them."""


def quote(text: str) -> str:
    """A Lark string literal."""
    return dump(text)


def dump(value: Json) -> str:
    """JSON as the lexer of llguidance takes it: without a raw U+007F."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


def escape_regex(text: str) -> str:
    """Text as a regular expression that matches just it, fit for `/.../` in Lark."""
    special = r"\.+*?()|[]{}^$#&-~/" + '"'
    return "".join(
        "\\" + c if c in special else {"\n": r"\n", "\t": r"\t", "\r": r"\r"}.get(c, c)
        for c in text
    )


def match_any(words: Iterable[str]) -> str:
    """A terminal for just these words."""
    return f"/({'|'.join(map(escape_regex, words))})/"


def count_times(fewest: int, most: int | None) -> str:
    """How often something is there, behind it: so many times, or any number."""
    return "*" if (fewest, most) == (0, None) else f"{{{fewest},{'' if most is None else most}}}"


def choose(options: Iterable[tuple[str, Condition]]) -> str:
    """Alternatives of a rule with a parameter, each under its condition."""
    written = [
        body if condition == ALWAYS else f"{body} %if {condition}"
        for body, condition in options
        if condition != NEVER
    ]
    return " | ".join(dict.fromkeys(written))


def mark(hint: str) -> str:
    """Stands for the name of a rule of the same knot."""
    return f"\0{hint}\0"


class RuleBook:
    """Rules of a grammar; equal bodies share one rule.

    Args:
        ids: the names of special tokens.
    """

    def __init__(self, ids: Mapping[str, int] | None = None):
        self.ids = ids or {}
        self._names: dict[str, str] = {}
        self._bodies: dict[str, str] = {}
        self._knots: dict[tuple[str, ...], dict[str, str]] = {}
        self._size = [0]  # of all bodies; shared with whoever adds to the same grammar

    def share(self, other: "RuleBook") -> None:
        """Adds its rules to those of another book from now on."""
        self._names, self._bodies, self._size = other._names, other._bodies, other._size
        self._knots = other._knots

    def define(self, body: str, hint: str = "r", *, lazy: bool = False) -> str:
        """The name of the rule with this body; a lazy one ends at its first match."""
        if body not in self._names:
            self._names[body] = name = self.reserve(hint)
            self.fill(name, body, lazy=lazy)
        return self._names[body]

    def reserve(self, hint: str) -> str:
        """A name for a rule that refers to itself; `fill` gives it its body."""
        name = f"{hint}_{len(self._bodies)}"
        self._bodies[name] = ""
        return name

    def fill(self, name: str, body: str, *, lazy: bool = False) -> None:
        """Gives a reserved name its body."""
        self._write(name, f"{name}{'[lazy]' if lazy else ''}: {body}\n")

    def knot(self, bodies: Mapping[str, str]) -> dict[str, str]:
        """The names of rules with a parameter that refer to each other, by their hints.

        From outside refer to one of them in one rule only (`enter`): llguidance 1.9.1 fails on a
        rule with a parameter that is begun at two places if it contains one of them.

        Args:
            bodies: theirs, by their hints; `mark(hint)` stands for a name.
        """
        key = tuple(f"{hint}:{body}" for hint, body in bodies.items())
        if key not in self._knots:
            self._knots[key] = names = {hint: self.reserve(hint) for hint in bodies}
            for hint, body in bodies.items():
                for other, name in names.items():
                    body = body.replace(mark(other), name)
                self._write(names[hint], f"{names[hint]}::_: {body}\n")
        return self._knots[key]

    def enter(self, *bodies: str) -> str:
        """The name of a rule that begins a knot in one of these ways, with `::0` behind a name."""
        return self.define(" | ".join(bodies), "members")

    def capture(self, body: str, label: str) -> str:
        """The name of a rule with this body, whose text the matcher keeps under the label."""
        name = self.reserve("captured")
        self._write(name, f"{name}[capture={quote(label)}]: {body}\n")
        return name

    def _write(self, name: str, rule: str) -> None:
        """Keeps a rule.

        Raises:
            SchemaError: with it the grammar is too large.
        """
        self._size[0] += len(rule)
        if self._size[0] > MOST_TEXT:
            message = f"the grammar is too large: more than {MOST_TEXT:,} characters"
            raise SchemaError(message, hint="Offer fewer tools, or simpler schemas")
        self._bodies[name] = rule

    def terminal(self, regex: str, hint: str = "T") -> str:
        """The name of the terminal with this expression (`/.../`, `&`, `~`)."""
        return self.define(regex, hint)

    def text(self) -> str:
        """All rules, one a line."""
        return "".join(self._bodies.values())

    def cut(self, text: str) -> list[str]:
        """Structural text, cut where it spells special tokens, the longest first."""
        return [piece for piece in self._tokens.split(text) if piece]

    @cached_property
    def _tokens(self) -> re.Pattern[str]:
        """The names of special tokens, the longest first."""
        names = sorted(filter(None, self.ids), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, names)) or '(?!)'})")

    def end_raw(self, raw: str, terminator: str) -> str:
        """A rule for raw text, which is this terminal, and what ends it. Where a token stands in
        that, the text goes up to the token; else it is lazy."""
        first, *rest = self.cut(terminator)
        if rest:
            line = self.terminal(f"{raw} /{escape_regex(first)}/", "RAW")
            return self.define(f"{line} {self.fixed(''.join(rest))}", "text")
        return self.define(f"{raw} {quote(first)}", "text", lazy=True)

    def fixed(self, text: str) -> str:
        """An expression for structural text: literals, and tokens where it spells some."""
        pieces = (f"<[{self.ids[p]}]>" if p in self.ids else quote(p) for p in self.cut(text))
        return " ".join(pieces)
