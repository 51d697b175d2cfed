"""Expressions as a JSON string spells their texts."""

import json

import pytest

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.turn_grammar.encoded import encode
from grammars.turn_grammar.ir.nodes import ANY_TEXT, Expression, exclude_beginning, intersection
from grammars.turn_grammar.ir.printer import print_rule

VOCABULARY, TOKENIZER = byte_tokenizer(())


def accepts(expression: Expression, text: str) -> bool:
    grammar = 'start: "<" WORD ">"\n' + print_rule("WORD", expression)
    tokens = VOCABULARY.encode(f"<{text}>")
    return Matcher.compile(TOKENIZER, grammar).count_accepted(tokens) == len(tokens)


@pytest.mark.parametrize("beginning", ["a", '"', r"\\", r"\n"])
@pytest.mark.parametrize("text", ["a", "ab", "ba", "", '"', '"b', 'b"', '\\"', "\\", "\n", "é"])
def test_what_begins_no_text_begins_no_spelling(beginning: str, text: str) -> None:
    plain = intersection(ANY_TEXT, exclude_beginning(beginning))
    assert accepts(encode(plain), json.dumps(text, ensure_ascii=False)[1:-1]) == accepts(
        plain, text
    )
