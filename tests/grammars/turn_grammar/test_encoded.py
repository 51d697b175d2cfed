"""Expressions as a JSON string spells their texts."""

import json

import pytest

from constrained.mask.matcher import Matcher
from constrained.replay.replay_context import byte_tokenizer
from grammars.ir.nodes import ANY_TEXT, Expression, exclude_beginning, intersection
from grammars.ir.printer import print_rule
from grammars.turn_grammar.encoded import encode

VOCABULARY, TOKENIZER = byte_tokenizer(())


def accepts(expression: Expression, text: str) -> bool:
    grammar = 'start: "<" WORD ">"\n' + print_rule("WORD", expression)
    tokens = VOCABULARY.encode(f"<{text}>")
    return Matcher.compile(TOKENIZER, grammar).accepts(tokens) == len(tokens)


@pytest.mark.parametrize("beginning", ["a", '"', r"\\", r"\n"])
@pytest.mark.parametrize("text", ["a", "ab", "ba", "", '"', '"b', 'b"', '\\"', "\\", "\n", "é"])
def test_what_begins_no_text_begins_no_spelling(beginning: str, text: str) -> None:
    plain = intersection(ANY_TEXT, exclude_beginning(beginning))
    assert accepts(encode(plain), json.dumps(text, ensure_ascii=False)[1:-1]) == accepts(
        plain, text
    )
