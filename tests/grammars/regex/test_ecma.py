"""Regular expressions of JSON Schema, for the mask: what it takes, jsonschema-rs takes too."""

import json
import re

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.regex.ecma import translate
from grammars.regex.string_formats import FORMATS
from grammars.schema.nodes import String
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import Values
from tests.text_strategies import TEXTS, texts_of_format


def matches(expression: str, text: str) -> bool:
    """Does llguidance match all of the text?"""
    regex = expression.replace("/", "\\/")
    vocabulary, tokenizer = byte_tokenizer(())
    matcher = Matcher.compile(tokenizer, f"%llguidance {{}}\nstart: T\nT: /{regex}/\n")
    tokens = vocabulary.encode(text)
    if matcher.count_accepted(tokens) < len(tokens):
        return False
    for token in tokens:
        matcher.commit(token)
    return matcher.is_complete


TRANSLATED = [
    "^a$",
    "(?i)^a|b$",
    "a",
    "^a|b$",
    "a|^b",
    "^(a|b)c?$",
    "^[a-z]{2,3}$",
    "^\\d+$",
    "^\\D$",
    "^\\w\\W\\s\\S$",
    "^[\\s\\S]$",
    "^[^\\w]$",
    "^[\\d\\-x]$",
    "^.$",
    "^(?s:a.(?-s:.))$",
    "^(?s:.)(.)$",
    "^a(?s).(.)$",
    "^[.|$^]$",
    "^[[&~]$",
    "^a\\/b\\.c\\_\\-\\$$",
    "^\\x41\\u0042$",
    "^a\nb\\\n$",
    "^\\p{Lu}$",
    "^é$",
    "^(?:a|b)$",
    "^$",
    "",
    "$",
    "^a\\\\b$",
    "^\"'$",
]
ALPHABET = "abcABx12é_ \t\n\r\x0b\xa0\u2028\ufeff\"'/\\.-$^|[&~\x00\x7f日"


@pytest.mark.parametrize("pattern", TRANSLATED)
@given(text=st.text(ALPHABET, max_size=3) | TEXTS)
def test_a_translated_pattern_says_the_same(pattern: str, text: str) -> None:
    expression = translate(pattern)
    assert expression is not None
    ours = matches(expression, text)
    theirs = jsonschema_rs.is_valid({"pattern": pattern}, text)
    if "." in pattern and re.search("[\r\u2028]", text):
        assert ours <= theirs  # `.` is no line end to ECMA 262; to jsonschema-rs only \n is one
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "\\bfoo", "foo\\B", "(a)\\1", "(?<n>a)\\k<n>"),
        *("\\cA", "\\Aa", "a\\z", "\\Z", "\\a", "(^a|b$)", "a^", "$a", "^(a$)"),
        *("a++", "a?+", "a{2}{3}", "(a){2,}+"),
    ],
)
def test_what_a_mask_cannot_hold_is_not_translated(pattern: str) -> None:
    assert translate(pattern) is None


def test_repeated_flags_are_read_once() -> None:
    assert translate("(?i)" * 100_000 + "^a$") == translate("(?i)^a$")


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(max_examples=max(25, settings().max_examples // 4))  # large expressions draw slowly
@given(data=st.data())
def test_the_mask_admits_only_what_a_format_admits(name: str, data: st.DataObject) -> None:
    text = data.draw(texts_of_format(name))
    assert jsonschema_rs.is_valid(
        {"type": "string", "format": name}, text, validate_formats=True
    ), text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2024-02-29"),
        ("time", "23:59:59.123Z"),
        ("date-time", "2024-12-31T00:00:00+01:00"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
        ("ipv4", "192.168.0.255"),
        ("email", "first.last@mail.example.com"),
        ("uri", "https://user@example.com:8080/a/b%20c?q=1&r=2#top"),
        ("uri", "mailto:someone@example.com"),
        ("uri", "urn:isbn:0451450523"),
        ("uri", "file:///etc/hosts"),
    ],
)
def test_usual_values_of_a_format_are_admitted(name: str, text: str) -> None:
    assert matches(FORMATS[name], text)


def test_a_pattern_in_json_is_matched_on_the_value() -> None:
    builder = GrammarBuilder()
    string = Values(builder).value(String(pattern=translate('^a"\\\\\n$')), {})
    vocabulary, tokenizer = byte_tokenizer(())
    matcher = Matcher.compile(tokenizer, builder.build(string).lark)
    tokens = vocabulary.encode('"a\\"\\\\\\n"')
    assert matcher.count_accepted(tokens) == len(tokens)


@pytest.mark.parametrize(
    "pattern", ['^[^"]$', "^[^\\\\]$", "^[^/]$", '^[^"a]$', "^\\S$", '^.["\n]?$']
)
def test_sets_without_an_escaped_character_exclude_its_escape(pattern: str) -> None:
    builder = GrammarBuilder()
    string = Values(builder).value(String(pattern=translate(pattern)), {})
    vocabulary, tokenizer = byte_tokenizer(())
    whole = Matcher.compile(tokenizer, builder.build(string).lark)
    for text in ('"', "\\", "/", "\b", "\n", "\x01", "a", "é", 'a"'):
        tokens = vocabulary.encode(json.dumps(text, ensure_ascii=False))
        matcher = whole.fork()
        taken = matcher.count_accepted(tokens) == len(tokens)
        assert taken == jsonschema_rs.is_valid({"pattern": pattern}, text), text
