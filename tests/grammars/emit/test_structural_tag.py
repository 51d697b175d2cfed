"""Structural tags are trees where there are special tokens, and grammars elsewhere."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from grammars.emit.emitter import emit
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, KeyOrder, Policy, Think, Tool
from grammars.turn_grammar.ir.grammar import Grammar, Rule
from grammars.turn_grammar.ir.nodes import (
    Alternatives,
    Expression,
    Literal,
    Repeat,
    RuleReference,
    Sequence,
    Token,
)
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from grammars.wire.formats.hermes import HERMES
from tests.grammars.emit.emitted_cases import EmittedCase, read_small_sets
from tests.grammars.emit.emitted_texts import EngineVocabulary

CALL = Policy(Choice.REQUIRED, think=Think.FORBIDDEN)


def emit_format(start: Expression, rules: dict[str, Rule] | None = None) -> dict[str, Any]:
    tag = json.loads(emit(Grammar(start, rules or {}, ""), "structural-tag"))
    assert tag["type"] == "structural_tag"
    return tag["format"]


def list_types(format: dict[str, Any]) -> Iterator[str]:
    yield format["type"]
    for inner in (*format.get("elements", ()), *filter(None, [format.get("content")])):
        yield from list_types(inner)


def test_a_call_between_tokens() -> None:
    ids = {"<tool_call>": 7, "</tool_call>": 8, "<think>": 9, "</think>": 10}
    tool = Tool("ping", lower({"type": "object", "properties": {}, "additionalProperties": False}))
    tag = json.loads(emit(build_turn(HERMES, [tool], CALL, markers=ids), "structural-tag"))
    types = set(list_types(tag["format"]))
    assert types == {"sequence", "star", "token", "grammar", "const_string"}
    elements = tag["format"]["elements"]
    assert {"type": "token", "token": 7} in elements
    arguments = '\n{"name": "ping", "arguments": {}}\n'
    assert arguments in json.dumps(tag).encode().decode("unicode_escape")


def test_no_tokens_make_one_grammar() -> None:
    start = Sequence((Literal("a"), Alternatives((Literal("b"), Literal("c")))))
    format = emit_format(start)
    assert format["type"] == "grammar"
    assert format["grammar"].startswith('root ::= "a" ')
    assert emit_format(Literal("a")) == {"type": "const_string", "value": "a"}
    assert emit_format(Sequence(())) == {"type": "const_string", "value": ""}


def test_a_tree_that_repeats_much_is_one_grammar() -> None:
    word = RuleReference("word_0")
    rules = {"word_0": Rule(Repeat(Alternatives((Literal("a" * 50), Literal("b" * 50))), 2, 9))}
    few = Sequence((Token("<", 1), word, Token(">", 2)))
    assert emit_format(few, rules)["type"] == "sequence"
    format = emit_format(Sequence((few, few, few, few)), rules)
    assert format["type"] == "grammar"
    assert format["grammar"].count("Token(1)") == 4


def test_tokens_in_what_refers_to_itself_are_in_the_grammar() -> None:
    body = Alternatives(
        (Sequence((Token("<", 1), RuleReference("r_0"), Token(">", 2))), Literal("x"))
    )
    format = emit_format(RuleReference("r_0"), {"r_0": Rule(body)})
    assert format["type"] == "grammar"
    assert 'Token(1) r-0 Token(2) | "x"' in format["grammar"]


@pytest.mark.xgrammar
@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_xgrammar_takes_the_same_texts(format: Format, engine_vocabulary: EngineVocabulary) -> None:
    from tests.grammars.emit.xgrammar_engine import XGrammarEngine

    draw = random.Random(format.name)
    policy = Policy(draw.choice(list(Choice)), key_order=draw.choice(list(KeyOrder)))
    case = EmittedCase(format, draw.choice(read_small_sets()), policy)
    engine = XGrammarEngine(engine_vocabulary.vocabulary)
    agreement = case.judge("structural-tag", engine.reading, engine_vocabulary, draw, walks=3)
    assert agreement is not None
    assert not agreement.disputed
    assert agreement.judged["shortest"]
