"""Writes structural tags, XGrammar's grammar language (0.2 and later, which have token formats).

Parts with special tokens become a tree of `sequence`, `or`, `star` and `token`, if they are not
recursive and repeat little. Everything else is a `grammar`. The formats `json_schema`, `any_text`
and `triggered_tags` are not used, since they accept other texts than our grammars: white space
anywhere, repeated or missing keys, half a marker.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from grammars.emit.context_free import (
    ContextFreeGrammar,
    Nonterminal,
    Production,
    Symbol,
    find_reached,
    list_names,
)
from grammars.emit.rules_text import Notation, write_rules
from grammars.regex.characters import EVERY
from grammars.turn_grammar.ir.nodes import Literal, Token

MAX_REPEATED = 2
"""A tree may be this many times as long as one grammar."""

_Format: TypeAlias = dict[str, object]


def _write_token(token: Token) -> str:
    return f"Token({token.id})"


_NOTATION = Notation("XGrammar's EBNF", _write_token, EVERY)


def write_structural_tag(grammar: ContextFreeGrammar) -> str:
    """Writes the grammar as a structural tag in JSON: a tree, or one grammar with tokens if the
    parts of a tree would repeat shared rules."""
    tree = _print(_Formats(grammar).choose(grammar.start))
    whole = _print({"type": "grammar", "grammar": write_rules(grammar, _NOTATION)})
    return tree if len(tree) <= MAX_REPEATED * len(whole) else whole


def _print(format: _Format) -> str:
    return json.dumps({"type": "structural_tag", "format": format}, ensure_ascii=False)


class _Formats:
    def __init__(self, grammar: ContextFreeGrammar):
        self._grammar = grammar
        self._rules = grammar.rules
        self._uses = _count_uses(grammar)
        self._with_tokens = _find_with_tokens(grammar)

    def choose(self, options: Sequence[Production]) -> _Format:
        """Returns the union of the productions."""
        formats = [self._follow(option) for option in options]
        return formats[0] if len(formats) == 1 else {"type": "or", "elements": formats}

    def _follow(self, production: Production) -> _Format:
        """Returns the symbols in sequence; adjacent symbols without tokens become one grammar."""
        elements: list[_Format] = []
        run: list[Symbol] = []
        for symbol in production:
            apart = self._split(symbol)
            if apart is None:
                run.append(symbol)
                continue
            if run:
                elements.append(self._write_grammar(run))
                run = []
            elements.append(apart)
        if run or not elements:
            elements.append(self._write_grammar(run))
        return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}

    def _split(self, symbol: Symbol) -> _Format | None:
        """Returns a symbol with tokens as a tree; None: it has no tokens, or cannot be a tree."""
        match symbol:
            case Token(_, number):
                return {"type": "token", "token": number}
            case Nonterminal(name) if name in self._with_tokens:
                return self._split_rule(symbol)
            case _:
                return None

    def _split_rule(self, symbol: Nonterminal) -> _Format | None:
        options = self._rules[symbol.name]
        match options:
            case ((*body, last), ()) if last == symbol:
                loop = tuple(body)
                refers_once = self._uses[symbol.name] == 2
                if refers_once and symbol.name not in find_reached([loop], self._rules):
                    return {"type": "star", "content": self._follow(loop)}
                return None
            case _ if self._uses[symbol.name] > 1:
                return None  # written out twice, it would grow with the grammar's depth
            case _ if symbol.name in find_reached(options, self._rules):
                return None
            case _:
                return self.choose(options)

    def _write_grammar(self, run: Sequence[Symbol]) -> _Format:
        match run:
            case []:
                return {"type": "const_string", "value": ""}
            case [Literal(text)]:
                return {"type": "const_string", "value": text}
            case _:
                part = self._grammar.cut([tuple(run)])
                return {"type": "grammar", "grammar": write_rules(part, _NOTATION)}


def _find_with_tokens(grammar: ContextFreeGrammar) -> set[str]:
    """Returns the nonterminals whose texts can contain special tokens."""
    users: dict[str, list[str]] = {}
    queue: list[str] = []
    for name, options in grammar.rules.items():
        for production in options:
            for used in list_names(production):
                users.setdefault(used, []).append(name)
            if any(isinstance(symbol, Token) for symbol in production):
                queue.append(name)
    found = set[str]()
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += users.get(name, ())
    return found


def _count_uses(grammar: ContextFreeGrammar) -> Mapping[str, int]:
    """Returns the number of references to each nonterminal."""
    uses = dict.fromkeys(grammar.rules, 0)
    for options in (grammar.start, *grammar.rules.values()):
        for production in options:
            for name in list_names(production):
                uses[name] += 1
    return uses
