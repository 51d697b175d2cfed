"""Expressions as Lark: parentheses where an operator needs them, and nowhere else."""

import pytest

from grammars.schema.bits import KEEP, SetBit, count
from grammars.turn_grammar.ir.nodes import (
    EMPTY,
    ZERO,
    Complement,
    EmbeddedLark,
    Expression,
    Guarded,
    JsonSchema,
    Literal,
    Pattern,
    Repeat,
    RuleReference,
    Token,
    choice,
    intersection,
    many,
    optional,
    sequence,
)
from grammars.turn_grammar.ir.printer import print_expression, print_rule

A = Literal("a")
B = RuleReference("b")


@pytest.mark.parametrize(
    ("expression", "lark"),
    [
        (Literal('"\x7f\n'), r'"\"\u007f\n"'),
        (Token("<end>", 7), "<[7]>"),
        (Pattern("[a-z]+"), "/[a-z]+/"),
        (EMPTY, '""'),
        (sequence(A, EMPTY, sequence(B, A)), '"a" b "a"'),
        (choice([A, choice([B, A])]), '"a" | b'),
        (sequence(choice([A, B]), A), '("a" | b) "a"'),
        (choice([sequence(A, B), A]), '"a" b | "a"'),
        (optional(A), '"a"?'),
        (many(choice([A, B])), '("a" | b)*'),
        (optional(many(A)), '("a"*)?'),
        (Repeat(sequence(A, B), 2, None), '("a" b){2,}'),
        (Repeat(A, 2, 3), '"a"{2,3}'),
        (intersection(sequence(A, B), Complement(choice([A, B]))), '"a" b & ~("a" | b)'),
        (choice([intersection(A, B), A]), '"a" & b | "a"'),
        (sequence(intersection(A, B), A), '("a" & b) "a"'),
        (sequence(A, RuleReference("r", KEEP)), '"a" r::_'),
        (RuleReference("r", ZERO), "r::0"),
        (Guarded(sequence(A, RuleReference("r", SetBit(3))), count(3, 4, 0, 0)),
         '"a" r::set_bit(3) %if bit_clear(3)'),
        (JsonSchema('{"type": "number"}'), '%json {"type": "number"}'),
        (EmbeddedLark("start: /a/"), "%lark {\nstart: /a/\n}"),
    ],
)  # fmt: skip
def test_expressions(expression: Expression, lark: str) -> None:
    assert print_expression(expression) == lark


def test_a_rule_is_one_line() -> None:
    assert print_rule("r[lazy]", sequence(A, B)) == 'r[lazy]: "a" b\n'
