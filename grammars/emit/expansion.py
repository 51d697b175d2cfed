"""Expands the grammar of a turn into an ordinary context-free grammar.

A rule with a parameter becomes one rule for each value that the start can reach. Terminals become
rules, too, since there is no lexer: where two lexemes meet, every reading counts, not only that of
the longest lexeme. A lazy lexeme still ends at its first match.
"""

import re
from collections.abc import Sequence as Sequences

from grammars.emit.context_free import (
    ContextFreeGrammar,
    Nonterminal,
    Production,
    ProductionBuilder,
)
from grammars.emit.regular import MAX_STATES, RegularProductions, join
from grammars.errors import CannotEmitError
from grammars.regex.deterministic import TooManyStatesError
from grammars.regex.expressions import Expression as Regex
from grammars.regex.reader import UnreadableError
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.ir.lexer import read_terminal
from grammars.turn_grammar.ir.nodes import (
    Alternatives,
    Complement,
    Costly,
    EmbeddedLark,
    Expression,
    Guarded,
    Intersection,
    JsonSchema,
    Literal,
    Pattern,
    Repeat,
    RuleReference,
    Sequence,
    Token,
)
from grammars.turn_grammar.ir.shortest import apply

_NUMBER = re.compile(r"_\d+$")  # the end of a rule's name


def expand(grammar: Grammar) -> ContextFreeGrammar:
    """Expands the grammar into productions over characters and special tokens.

    Raises:
        CannotEmitError: a part of it is not context-free, or is too large; `where` is the rule of
            the grammar.
    """
    expansion = _Expansion(grammar)
    try:
        return expansion.expand()
    except RecursionError as error:
        raise CannotEmitError(
            "this rule cannot be expanded: it nests too deeply",
            where=expansion.rule,
            hint="Simplify the schema or pattern, or emit lark",
        ) from error


class _Expansion:
    def __init__(self, grammar: Grammar):
        self._grammar = grammar
        self._builder = ProductionBuilder()
        self._regular = RegularProductions(self._builder)
        self._rules: dict[tuple[str, int], Nonterminal] = {}
        self._waiting: list[tuple[str, int]] = []
        self._terminals: dict[str, tuple[Production, ...]] = {}

    @property
    def rule(self) -> str:
        """The rule that is being expanded."""
        return self._builder.origin

    def expand(self) -> ContextFreeGrammar:
        self._builder.origin = "start"
        start = self._options(self._grammar.start, 0)
        while self._waiting:
            name, bits = self._waiting.pop()
            self._builder.origin = name
            body = self._options(self._grammar.rules[name].body, bits)
            self._builder.fill(self._rules[name, bits], body)
        return self._builder.build(start)

    def _options(self, expression: Expression, bits: int) -> tuple[Production, ...]:
        """Returns the productions of an expression; () if it matches nothing.

        Args:
            expression: any expression that is allowed outside of terminals.
            bits: the parameter of its rule.
        """
        match expression:
            case Literal(""):
                return ((),)
            case Literal() | Token():
                return ((expression,),)
            case Sequence(parts):
                return self._follow(parts, bits)
            case Alternatives(options):
                written: list[Production] = []
                for option in options:
                    written += self._options(option, bits)
                return tuple(dict.fromkeys(written))
            case Guarded(body, condition):
                return self._options(body, bits) if condition.holds(bits) else ()
            case Costly(body):
                return self._options(body, bits)
            case Repeat(body, fewest, most):
                some = self._options(body, bits)
                if not some:
                    return () if fewest else ((),)
                symbol = self._builder.symbol(some, "repeated")
                return (self._builder.repeat(symbol, fewest, most, "repeat"),)
            case RuleReference(name, argument):
                if self._grammar.rules[name].is_terminal:
                    return self._match(name)
                given = 0 if argument is None else apply(argument, bits)
                return ((self._refer(name, given),),)
            case JsonSchema():
                return self._match_schema(expression)
            case EmbeddedLark():
                raise CannotEmitError(
                    "a Lark grammar of your own works only with llguidance",
                    where=self._builder.origin,
                    hint="Emit lark, or give the answer a JSON schema or a regular expression",
                )
            case Pattern() | Intersection() | Complement():
                raise AssertionError(f"{expression} outside of a terminal")

    def _follow(self, parts: Sequences[Expression], bits: int) -> tuple[Production, ...]:
        whole: Production = ()
        for part in parts:
            options = self._options(part, bits)
            if not options:
                return ()
            whole = join(whole, self._builder.define(options, "choice"))
        return (whole,)

    def _refer(self, name: str, bits: int) -> Nonterminal:
        """Returns the nonterminal of a rule with this parameter."""
        key = name, bits
        if key not in self._rules:
            self._rules[key] = self._builder.reserve(_NUMBER.sub("", name), name)
            self._waiting.append(key)
        return self._rules[key]

    def _match(self, name: str) -> tuple[Production, ...]:
        """Returns the productions of a terminal: one symbol, which all uses share."""
        if name not in self._terminals:
            rule = self._grammar.rules[name]
            before, self._builder.origin = self._builder.origin, name
            regex = self._read(rule.body)
            options = self._regular.options(regex, lazy=rule.lazy)
            hint = _NUMBER.sub("", name)
            self._terminals[name] = (self._builder.define(options, hint),) if options else ()
            self._builder.origin = before
        return self._terminals[name]

    def _read(self, body: Expression) -> Regex:
        """Reads the regular expression of a terminal.

        Raises:
            CannotEmitError: it has syntax that the reader does not know.
        """
        try:
            return read_terminal(body, self._grammar.rules)
        except UnreadableError as error:
            raise CannotEmitError(
                f"this regular expression cannot be expanded: {error}",
                where=self._builder.origin,
                hint="Emit lark, or simplify the pattern",
            ) from error

    def _match_schema(self, schema: JsonSchema) -> tuple[Production, ...]:
        """Returns the productions of what llguidance accepts for a schema.

        Raises:
            CannotEmitError: no automaton can express it.
        """
        language = schema.language
        try:
            states = None if language is None else language.automaton(MAX_STATES)
        except TooManyStatesError as error:
            raise self._refuse_schema(schema, f"its automaton has {error}") from error
        if states is None:
            raise self._refuse_schema(schema, "only llguidance supports it")
        return self._regular.write_states(states)

    def _refuse_schema(self, schema: JsonSchema, reason: str) -> CannotEmitError:
        return CannotEmitError(
            f"no rules for {schema.text} can be written: {reason}",
            where=self._builder.origin,
            hint="Emit lark, or remove the keyword",
        )
