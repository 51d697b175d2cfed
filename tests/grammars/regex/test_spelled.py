"""Patterns as llguidance spells them in JSON strings: what the completer knows, the mask takes."""

import json

import pytest

from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import build_tokenizer, byte_vocabulary
from grammars.regex.automaton import compile_regexes
from grammars.regex.spelled import spell_as_llguidance

PATTERN = "(?s:.*)[/](?s:.*)"
BYTES = byte_vocabulary(())
TOKENIZER = build_tokenizer(BYTES, ())
STRINGS = (
    "\x7f",
    "\\u007f",
    "\\u007F",
    "\x1f",
    "\\u001f",
    "\\n",
    "\x80",
    "\u2028",
    "\\/",
    "/",
    "é",
)


@pytest.mark.parametrize("begin", STRINGS)
def test_the_expression_takes_what_the_mask_takes(begin: str) -> None:
    schema = json.dumps({"type": "string", "pattern": f"^({PATTERN})$"})
    matcher = Matcher.compile(TOKENIZER, f"%llguidance {{}}\nstart: %json {schema}\n")
    automaton = compile_regexes((spell_as_llguidance(PATTERN),))
    assert automaton is not None
    text = f'"{begin}/"'
    tokens = BYTES.encode(text)
    assert automaton.accepts(text) == (matcher.accepts(tokens) == len(tokens))


def test_a_set_of_one_control_character() -> None:
    automaton = compile_regexes((spell_as_llguidance("a\\u007f"),))
    assert automaton is not None
    assert automaton.accepts('"a\\u007F"')
    assert not automaton.accepts('"a\x7f"')
