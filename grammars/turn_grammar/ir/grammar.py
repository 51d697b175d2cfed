"""The grammar of a turn as a value, and the builder that collects its rules."""

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from grammars.limits.steps import spend
from grammars.regex.writing import escape_regex
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.printer import print_rule, quote

_BUILT = 4  # characters of a printed rule per step


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule or terminal. A lazy lexeme ends at its first match, any other at its longest. A rule
    with a parameter can end if the `needed` bits are set, and at least so many."""

    body: ir.Expression
    is_terminal: bool = False
    lazy: bool = False
    needed: int = 0
    least: int = 0


@dataclass(frozen=True)
class Grammar:
    """The grammar of one assistant turn, and the special tokens that rules may contain."""

    start: ir.Expression
    rules: Mapping[str, Rule]
    lark: str
    tokens: tuple[str, ...] = ()


_RESERVED = Rule(ir.EMPTY)


class GrammarBuilder:
    """Collects the rules of a grammar; equal bodies share one rule."""

    def __init__(self, ids: Mapping[str, int] | None = None):
        self.ids = ids or {}
        self._names: dict[tuple[ir.Expression, bool, bool], ir.RuleReference] = {}
        self._rules: dict[str, Rule] = {}
        self._printed: dict[str, str] = {}
        self._families: dict[tuple[tuple[str, ir.Expression], ...], dict[str, str]] = {}
        self._spell: Callable[[ir.Expression], ir.Expression] | None = None

    def respell(self, spell: Callable[[ir.Expression], ir.Expression]) -> "GrammarBuilder":
        """Returns a builder for the same grammar that rewrites each expression with `spell`. New
        rules may only refer to rules that were rewritten in the same way."""
        other = copy(self)
        other._spell = spell
        return other

    def define(self, body: ir.Expression, hint: str = "r") -> ir.Expression:
        """Returns a reference to the rule with this body; adds the rule if it does not exist."""
        return self._find(body, hint)

    def terminal(self, body: ir.Expression, hint: str) -> ir.Expression:
        """Returns a reference to a terminal with this body: a lexeme that ends at its longest
        match."""
        return self._find(body, hint, is_terminal=True)

    def lazy(self, body: ir.Expression, hint: str) -> ir.Expression:
        """Returns a reference to a terminal with this body that ends at its first match."""
        return self._find(body, hint, is_terminal=True, lazy=True)

    def _find(
        self, body: ir.Expression, hint: str, *, is_terminal: bool = False, lazy: bool = False
    ) -> ir.Expression:
        if self._spell is not None:
            body = self._spell(body)
        name = self._next_name(hint)
        new = ir.RuleReference(name)
        # One look-up, not two: hashing a deep body costs more than an unused reference.
        known = self._names.setdefault((body, is_terminal, lazy), new)
        if known is new:
            self._keep(name, Rule(body, is_terminal, lazy))
        return known

    def reserve(self, hint: str) -> str:
        """Reserves a name, for a rule that refers to itself; `fill` sets its body."""
        name = self._next_name(hint)
        self._rules[name] = _RESERVED
        return name

    def _next_name(self, hint: str) -> str:
        return f"{hint}_{len(self._rules)}"

    def fill(self, name: str, body: ir.Expression) -> None:
        self._keep(name, Rule(body if self._spell is None else self._spell(body)))

    def family(
        self, bodies: Mapping[str, ir.Expression], needed: int = 0, least: int = 0
    ) -> dict[str, str]:
        """Adds rules with one parameter that refer to each other; returns their names by hint.

        Only one rule outside the family may refer to it (`enter`): llguidance 1.9.1 fails if a rule
        with a parameter begins in two places and one contains the other.

        Args:
            bodies: their bodies, by hint; references between them use the hints as names.
            needed: the bits that must be set before they can end.
            least: the minimum number of bits that must be set.
        """
        if self._spell is not None:
            bodies = {hint: self._spell(body) for hint, body in bodies.items()}
        key = tuple(bodies.items())
        names = self._families.get(key)
        if names is None:
            self._families[key] = names = {hint: self.reserve(hint) for hint in bodies}
            for hint, body in bodies.items():
                rule = Rule(_rename(body, names), needed=needed, least=least)
                self._keep(names[hint], rule, "::_")
        return names

    def enter(self, *bodies: ir.Expression) -> ir.Expression:
        """Returns a reference to a rule that begins a family in one of these ways."""
        return self.define(ir.choice(bodies), "members")

    def capture(self, body: ir.Expression, label: str) -> ir.Expression:
        """Returns a reference to a rule; the matcher records its text under the label."""
        name = self.reserve("captured")
        self._keep(name, Rule(body), f"[capture={quote(label)}]")
        return ir.RuleReference(name)

    def _keep(self, name: str, rule: Rule, attribute: str = "") -> None:
        if rule.lazy:
            attribute = "[lazy]"
        printed = print_rule(name + attribute, rule.body)
        spend(1 + len(printed) // _BUILT)
        self._rules[name] = rule
        self._printed[name] = printed

    def build(self, start: ir.Expression) -> Grammar:
        # The rules are in the order of their names, which is the order of creation.
        rules = "".join([self._printed[name] for name in self._rules])
        lark = f"%llguidance {{}}\n{print_rule('start', start)}{rules}"
        return Grammar(start, dict(self._rules), lark=lark, tokens=tuple(self.ids))

    def cut(self, text: str) -> list[str]:
        """Splits structural text into special tokens and other text; the longest token wins."""
        return [piece for piece in self._tokens.split(text) if piece]

    @cached_property
    def _tokens(self) -> re.Pattern[str]:
        """A pattern for the names of special tokens, the longest first."""
        names = sorted(filter(None, self.ids), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, names)) or '(?!)'})")

    def fixed(self, text: str) -> ir.Expression:
        """Returns the expression for structural text: literals and special tokens."""
        pieces: list[ir.Expression] = []
        for piece in self.cut(text):
            if piece in self.ids:
                pieces.append(ir.Token(piece, self.ids[piece]))
            else:
                pieces.append(ir.Literal(piece))
        return ir.sequence(*pieces)

    def begins_with_token(self, text: str) -> bool:
        return self.cut(text)[0] in self.ids

    def end_raw(self, raw: ir.Expression, terminator: str) -> ir.Expression:
        """Returns raw text (a terminal) and the text that ends it: in one lazy lexeme, which ends
        at the first terminator, unless this has a special token."""
        first, *rest = self.cut(terminator)
        if rest:
            line = self.terminal(ir.sequence(raw, ir.Pattern(escape_regex(first))), "RAW")
            return self.define(ir.sequence(line, self.fixed("".join(rest))), "text")
        return self.lazy(ir.sequence(raw, ir.Literal(first)), "text")

    def up_to_token(self, raw: ir.Expression, *, empty: bool) -> ir.Expression:
        """Returns raw text that a special token ends, so the lexeme need not be lazy. If it may be
        empty, it is optional, since there are no empty lexemes."""
        some = self.terminal(ir.Intersection((raw, ir.Pattern("(?s:.+)"))), "RAW")
        return ir.optional(some) if empty else some


def _rename(body: ir.Expression, names: Mapping[str, str]) -> ir.Expression:
    """Returns the body with rule names instead of hints."""
    match body:
        case ir.RuleReference(hint, argument) if argument is not None and hint in names:
            return ir.RuleReference(names[hint], argument)
        case ir.Sequence(parts):
            return ir.Sequence(tuple([_rename(part, names) for part in parts]))
        case ir.Guarded(inner, condition):
            return ir.Guarded(_rename(inner, names), condition)
        case ir.Alternatives(options):
            return ir.Alternatives(tuple([_rename(option, names) for option in options]))
        case ir.Repeat(inner):
            return replace(body, body=_rename(inner, names))
        case _:
            return body
