"""Writes expressions and rules as Lark for llguidance."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from grammars.schema.bits import Keep, SetBit
from grammars.turn_grammar.ir.nodes import (
    Alternatives,
    Argument,
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

# Precedence of the operators; an operand of lower precedence gets parentheses.
_CHOICE, _INTERSECTION, _SEQUENCE, _ATOM = range(4)


_STRINGS = json.JSONEncoder(ensure_ascii=False)  # `json.dumps` would make one per string


def quote(text: str) -> str:
    """Returns a Lark string literal.

    llguidance 1.9 reads JSON strings, but not an unescaped U+007F.
    """
    return _STRINGS.encode(text).replace("\x7f", r"\u007f")


def print_expression(expression: Expression, level: int = _CHOICE) -> str:
    """Returns an expression as Lark, with parentheses if its level requires them."""
    return _PRINTERS[type(expression)](expression, level)


def print_rule(head: str, body: Expression) -> str:
    """Returns a rule on one line; its head is the name with the attributes (`[lazy]`, `::_`)."""
    return f"{head}: {print_expression(body)}\n"


def _literal(node: Literal, level: int) -> str:
    return quote(node.text)


def _token(node: Token, level: int) -> str:
    return f"<[{node.id}]>"


def _pattern(node: Pattern, level: int) -> str:
    return f"/{node.regex}/"


def _sequence(node: Sequence, level: int) -> str:
    if not node.parts:
        return '""'
    return _join(" ", node.parts, own=_SEQUENCE, level=level)


def _choice(node: Alternatives, level: int) -> str:
    assert node.options, "nothing can be written"
    return _join(" | ", node.options, own=_CHOICE, level=level)


def _intersection(node: Intersection, level: int) -> str:
    return _join(" & ", node.parts, own=_INTERSECTION, level=level)


def _join(operator: str, parts: Iterable[Expression], *, own: int, level: int) -> str:
    text = operator.join([print_expression(part, own + 1) for part in parts])
    return f"({text})" if level > own else text


def _complement(node: Complement, level: int) -> str:
    return "~" + print_expression(node.of, _ATOM)


def _repeat(node: Repeat, level: int) -> str:
    # Two postfix operators, such as `x*?`, have another meaning in other Lark parsers.
    body = print_expression(node.body, _ATOM)
    if isinstance(node.body, Repeat | Complement):
        body = f"({body})"
    match node.fewest, node.most:
        case 0, 1:
            return body + "?"
        case 0, None:
            return body + "*"
        case fewest, None:
            return f"{body}{{{fewest},}}"
        case fewest, most:
            return f"{body}{{{fewest},{most}}}"


def _reference(node: RuleReference, level: int) -> str:
    return node.name if node.argument is None else f"{node.name}::{_argument(node.argument)}"


def _argument(argument: Argument) -> str:
    match argument:
        case Keep():
            return "_"
        case SetBit(bit):
            return f"set_bit({bit})"
        case _:
            return "0"


def _guarded(node: Guarded, level: int) -> str:
    return f"{print_expression(node.body, _SEQUENCE)} %if {node.condition}"


def _costly(node: Costly, level: int) -> str:
    return print_expression(node.body, level)


def _json(node: JsonSchema, level: int) -> str:
    text = node.text.replace("\x7f", r"\u007f")  # as in `quote`
    return f"%json {text}"


def _lark(node: EmbeddedLark, level: int) -> str:
    return f"%lark {{\n{node.text}\n}}"


# A table by type, since `match` would test many classes for each of thousands of nodes.
_PRINTERS: dict[type, Callable[[Any, int], str]] = {
    Literal: _literal,
    Token: _token,
    Pattern: _pattern,
    Sequence: _sequence,
    Alternatives: _choice,
    Intersection: _intersection,
    Complement: _complement,
    Repeat: _repeat,
    RuleReference: _reference,
    Guarded: _guarded,
    Costly: _costly,
    JsonSchema: _json,
    EmbeddedLark: _lark,
}
