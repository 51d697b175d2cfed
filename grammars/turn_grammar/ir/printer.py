"""Writes expressions and rules as Lark for llguidance."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from grammars.schema.bits import Keep, SetBit
from grammars.turn_grammar.ir import nodes as ir

# Precedence of the operators; an operand of lower precedence gets parentheses.
_CHOICE, _INTERSECTION, _SEQUENCE, _ATOM = range(4)


_STRINGS = json.JSONEncoder(ensure_ascii=False)  # `json.dumps` would make one per string


def quote(text: str) -> str:
    """Returns a Lark string literal.

    llguidance 1.9 reads JSON strings, but not an unescaped U+007F.
    """
    return _STRINGS.encode(text).replace("\x7f", r"\u007f")


def print_expression(expression: ir.Expression, level: int = _CHOICE) -> str:
    """Returns an expression as Lark, with parentheses if its level requires them."""
    return _PRINTERS[type(expression)](expression, level)


def print_rule(head: str, body: ir.Expression) -> str:
    """Returns a rule on one line; its head is the name with the attributes (`[lazy]`, `::_`)."""
    return f"{head}: {print_expression(body)}\n"


def _literal(node: ir.Literal, level: int) -> str:
    return quote(node.text)


def _token(node: ir.Token, level: int) -> str:
    return f"<[{node.id}]>"


def _pattern(node: ir.Pattern, level: int) -> str:
    return f"/{node.regex}/"


def _sequence(node: ir.Sequence, level: int) -> str:
    if not node.parts:
        return '""'
    return _join(" ", node.parts, own=_SEQUENCE, level=level)


def _choice(node: ir.Alternatives, level: int) -> str:
    assert node.options, "nothing can be written"
    return _join(" | ", node.options, own=_CHOICE, level=level)


def _intersection(node: ir.Intersection, level: int) -> str:
    return _join(" & ", node.parts, own=_INTERSECTION, level=level)


def _join(operator: str, parts: Iterable[ir.Expression], *, own: int, level: int) -> str:
    text = operator.join([print_expression(part, own + 1) for part in parts])
    return f"({text})" if level > own else text


def _complement(node: ir.Complement, level: int) -> str:
    return "~" + print_expression(node.of, _ATOM)


def _repeat(node: ir.Repeat, level: int) -> str:
    # Two postfix operators, such as `x*?`, have another meaning in other Lark parsers.
    body = print_expression(node.body, _ATOM)
    if isinstance(node.body, ir.Repeat | ir.Complement):
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


def _reference(node: ir.RuleReference, level: int) -> str:
    return node.name if node.argument is None else f"{node.name}::{_argument(node.argument)}"


def _argument(argument: ir.Argument) -> str:
    match argument:
        case Keep():
            return "_"
        case SetBit(bit):
            return f"set_bit({bit})"
        case _:
            return "0"


def _guarded(node: ir.Guarded, level: int) -> str:
    return f"{print_expression(node.body, _SEQUENCE)} %if {node.condition}"


def _costly(node: ir.Costly, level: int) -> str:
    return print_expression(node.body, level)


def _json(node: ir.JsonSchema, level: int) -> str:
    text = node.text.replace("\x7f", r"\u007f")  # as in `quote`
    return f"%json {text}"


def _lark(node: ir.EmbeddedLark, level: int) -> str:
    return f"%lark {{\n{node.text}\n}}"


# A table by type, since `match` would test many classes for each of thousands of nodes.
_PRINTERS: dict[type, Callable[[Any, int], str]] = {
    ir.Literal: _literal,
    ir.Token: _token,
    ir.Pattern: _pattern,
    ir.Sequence: _sequence,
    ir.Alternatives: _choice,
    ir.Intersection: _intersection,
    ir.Complement: _complement,
    ir.Repeat: _repeat,
    ir.RuleReference: _reference,
    ir.Guarded: _guarded,
    ir.Costly: _costly,
    ir.JsonSchema: _json,
    ir.EmbeddedLark: _lark,
}
