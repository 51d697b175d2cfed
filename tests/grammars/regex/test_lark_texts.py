"""Grammars of clients as regular expressions: the same texts, or a refusal that says why."""

import re

import lark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.errors import SchemaError
from grammars.regex.lark_texts import express_lark
from grammars.schema.lowering.lower import lower

PATCH = """
start: head change+ tail
head: "*** Begin" LF
tail: "*** End" LF?
change: "@@ " name LF line+ -> change
name: /[a-z]+\\.py/
line: ("+" | "-" | " ") /(.*)/ LF
%import common.LF
"""
GRAMMARS = {
    'start: "a" "b"?': "ab",
    'start: WORD ("," WORD)*\nWORD: "x".."z" ~ 1..3': "xyz,",
    'start: "on"i | "off"': "onfOF",
    'start: [A] b\nA: "p"+\n!b: "q" ~ 2': "pq",
    'start: A B\nA: "1"\nB: "2"\n%ignore " "': "12 ",
    r'start: "\q" | "\\" | "\"" | "\x41\u0042"': '\\q"AB',
    "start: SIGNED_INT\n%import common.SIGNED_INT": "+-01",
}


@pytest.mark.parametrize("grammar", GRAMMARS)
@given(data=st.data())
def test_it_matches_what_lark_parses(grammar: str, data: st.DataObject) -> None:
    text = data.draw(st.text(GRAMMARS[grammar], max_size=8))
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    try:
        parser.parse(text)
        fits = True
    except lark.exceptions.UnexpectedInput:
        fits = False
    assert bool(re.fullmatch(express_lark(grammar), text)) == fits


def test_a_grammar_of_lines() -> None:
    pattern = express_lark(PATCH)
    text = "*** Begin\n@@ a.py\n+x = 1\n-\n*** End"
    assert re.fullmatch(pattern, text)
    assert not re.fullmatch(pattern, text.replace("@@ a.py\n", ""))
    schema = {"type": "object", "properties": {"input": {"type": "string", "pattern": pattern}}}
    report = lower(schema).report
    assert "pattern" in [finding.keyword for finding in report.enforced]
    assert not report.checked


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ('start: "(" start ")" | "x"', "'start' refers to itself"),
        ('start: a\na: b\nb: "x" a?', "'a' refers to itself"),
        ('start: "a', "not valid"),
        ('other: "a"', "no rule start"),
        ("start: A\n%import .secret.A", "only files of lark's library"),
        ("x" * 60_000, "60,000 characters"),
        ("start: A\n%import nothing.A", "not valid"),
        ("start: /a/i", "has flags"),
        ("%declare A\nstart: A", "declared, but not defined"),
        ('start: twice{"a"}\ntwice{x}: x x', "templates"),
        (r'start: "\x"', "cannot be read"),
        (r'start: "\U00110000"', "cannot be read"),
        (r'start: "\ud800"', "cannot be read"),
        ('start: "\ud800"', "cannot be read"),
        ('start: "a\0"', "cannot be read"),
        ('start: "a".."bc"', "from one character to another"),
        ('start: "".."a"', "from one character to another"),
        ("start: " + "(" * 2_000 + '"a"' + ")" * 2_000, "not valid|nests too deeply"),
        (
            "start: a0\n" + "".join(f"a{i}: a{i + 1} a{i + 1}\n" for i in range(30)) + 'a30: "x"',
            "too large",
        ),
    ],
)
def test_what_cannot_be_is_refused(grammar: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        express_lark(grammar)
