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
    """Returns a Lark string. llguidance 1.9 reads JSON strings, but not an unescaped U+007F."""
    return _STRINGS.encode(text).replace("\x7f", r"\u007f")


def print_expression(expression: ir.Expression, level: int = _CHOICE) -> str:
    """Returns an expression as Lark, with parentheses if its level requires them."""
    return _PRINTERS[type(expression)](expression, level)


def print_rule(head: str, body: ir.Expression) -> str:
    """Returns a rule on one line; its head is the name with the attributes (`[lazy]`, `::_`)."""
    return f"{head}: {print_expression(body)}\n"


def _sequence(node: ir.Sequence, level: int) -> str:
    if not node.parts:
        return '""'
    return _join(" ", node.parts, own=_SEQUENCE, level=level)


def _choice(node: ir.Alternatives, level: int) -> str:
    assert node.options, "nothing can be written"
    return _join(" | ", node.options, own=_CHOICE, level=level)


def _join(operator: str, parts: Iterable[ir.Expression], *, own: int, level: int) -> str:
    text = operator.join([print_expression(part, own + 1) for part in parts])
    return f"({text})" if level > own else text


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
    match node.argument:
        case None:
            return node.name
        case Keep():
            return f"{node.name}::_"
        case SetBit(bit):
            return f"{node.name}::set_bit({bit})"
        case _:
            return f"{node.name}::0"


def _json(node: ir.JsonSchema, level: int) -> str:
    text = node.text.replace("\x7f", r"\u007f")  # as in `quote`
    return f"%json {text}"


# A table by type, since `match` would test many classes for each of thousands of nodes.
_PRINTERS: dict[type, Callable[[Any, int], str]] = {
    ir.Literal: lambda node, level: quote(node.text),
    ir.Token: lambda node, level: f"<[{node.id}]>",
    ir.Pattern: lambda node, level: f"/{node.regex}/",
    ir.Sequence: _sequence,
    ir.Alternatives: _choice,
    ir.Intersection: lambda node, level: _join(" & ", node.parts, own=_INTERSECTION, level=level),
    ir.Complement: lambda node, level: "~" + print_expression(node.of, _ATOM),
    ir.Repeat: _repeat,
    ir.RuleReference: _reference,
    ir.Guarded: lambda node, _: f"{print_expression(node.body, _SEQUENCE)} %if {node.condition}",
    ir.Costly: lambda node, level: print_expression(node.body, level),
    ir.JsonSchema: _json,
    ir.EmbeddedLark: lambda node, level: f"%lark {{\n{node.text}\n}}",
}
