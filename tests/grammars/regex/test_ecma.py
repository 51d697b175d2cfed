"""Regular expressions of JSON Schema, for the mask: what it takes, jsonschema-rs takes too."""

import json
import re
from contextlib import suppress

import jsonschema_rs
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from constrained.errors import GrammarError
from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.limits.steps import StepsError, limit_steps
from grammars.regex.automaton import compile_regexes
from grammars.regex.ecma import read_pattern, translate
from grammars.regex.spelled import is_fully_spelled
from grammars.regex.string_formats import FORMATS
from grammars.schema.nodes import String
from grammars.schema.validator import Validator
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.ir.nodes import Expression
from grammars.turn_grammar.ir.printer import print_expression
from grammars.turn_grammar.terminals import match_json_strings, match_regex
from grammars.turn_grammar.values import Values
from tests.text_strategies import TEXTS, texts_of_format


def matches(expression: str, text: str) -> bool:
    """Does llguidance match all of the text?"""
    return takes(compile_terminal(match_regex(expression)), text)


def compile_terminal(terminal: Expression) -> Matcher:
    """A matcher of the terminal alone."""
    lark = f"%llguidance {{}}\nstart: T\nT: {print_expression(terminal)}\n"
    return Matcher.compile(byte_tokenizer(())[1], lark)


def takes(whole: Matcher, text: str) -> bool:
    """Does the matcher, of which nothing is matched yet, match all of the text?"""
    matcher = whole.fork()
    tokens = byte_tokenizer(())[0].encode(text)
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


# Texts over a small alphabet, so that assertions and what they look at meet by chance.
MARKS = st.text("ab1_- \nAé", max_size=7)
ATOMS = st.sampled_from(
    ["a", "b", "1", ".", r"\w", r"\d", r"\s", "[a-b1]", "[^a]", "-", r"\b", r"\B", "^", "$", "_"]
)


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.sampled_from(["(?:", "(", "(?=", "(?!", "(?<=", "(?<!"])
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "{2,}"])
    return (
        st.lists(inner, max_size=4).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | st.builds("{}{})".format, groups, inner)
        | st.builds("(?:{}){}".format, inner, counts)
    )


PATTERNS = st.recursive(ATOMS, combine, max_leaves=8)


@given(PATTERNS, st.lists(MARKS, max_size=6))
@example("^(?!a)", ["", "a", 'b"', "é\n"])
@example(r"^(?!.*éa)\p{L}{2}$", ["éa", "aé", "éé", "1a"])
@example(r"^(?!.*é\p{L})\p{L}{2}|\P{L}\p{L}(?<!b)$", ["éa", "aé", "éé", "1a", "1b"])
def test_the_json_strings_of_a_pattern_are_the_spellings_of_its_texts(
    pattern: str, texts: list[str]
) -> None:
    regex = translate(pattern)
    automaton = None if regex is None else compile_regexes((regex,))
    if regex is None or automaton is None:
        reject()
    try:
        whole = compile_terminal(match_json_strings(regex))
    except GrammarError:
        assert not any(map(automaton.accepts, texts))  # the pattern matches nothing
        return
    for text in texts:
        for ascii in {False, is_fully_spelled(regex)}:
            spelled = json.dumps(text, ensure_ascii=ascii)
            assert takes(whole, spelled) == automaton.accepts(text), spelled
            assert not takes(whole, spelled[:-1])
            assert not takes(whole, spelled + '"')


@settings(max_examples=3 * settings().max_examples)
@given(PATTERNS, st.lists(MARKS, max_size=6))
def test_assertions_hold_as_in_python(pattern: str, texts: list[str]) -> None:
    try:
        # Python counts the letters of all languages, an end before the last line end, and no place
        # of the empty text as inside.
        written = pattern.replace("$", r"(?![\s\S])").replace(r"\B", r"(?!\b)")
        expected = re.compile(written, re.ASCII)
    except re.error:  # look-behinds of several lengths, among others
        reject()
    reading = read_pattern(pattern)
    assert reading is not None
    automaton = compile_regexes((reading.regex,))
    assert automaton is not None
    for text in texts:
        held = expected.search(text) is not None
        assert automaton.accepts(text) == held or (reading.left_out and not held), text


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"^(?=.*[A-Z])(?=.*\d).{8,20}$", ["Abcdefg1"], ["abcdefg1", "A1", "A1" * 11]),
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", ["1.5", "-.5"], ["-", ".", ""]),
        (r"^\bab\b.*$", ["ab", "ab c"], ["abc"]),
        (
            r"^(?:(?!xn--)[a-z-]{1,63}(?<!-)\.)+[a-z]{2}$",
            ["a-b.de", "xn.de"],
            ["xn--a.de", "a-.de"],
        ),
        (r"^(?:(?!--).)*$", ["a-b-"], ["a--b"]),
        (r"(?<=a\b) b", ["a b"], ["aa c", " b"]),
        (r"(?<!ab*)c", ["c", "bc"], ["abbc", "ac"]),
        (r"x(?=y.*)y*(?<=w.{3})q", [], ["xyq", "wxyq"]),
        (r"^a(?<=(?=ab)a)b?$", ["ab"], ["a", "b"]),
        (r"(?<=a\b-)b", ["a-b"], ["ab", "--b"]),
        (r"(?<!a(?!b).)c", ["abc", "c"], ["aac"]),
        (r"(?<n>a)(?!\k<n>)b", ["ab"], ["aa"]),
        (r"^(?:(a)|\1b)$", ["a", "b"], ["ab"]),
        (r"^(?!(a)b)\1a$", ["a"], ["aa", "ab"]),
        ("^[^]{2}[]?$", ["\n\r"], ["a"]),
        (r"^[\b]\cA\0$", ["\x08\x01\x00"], ["b"]),
        (r"^\{.+}]$", ["{a}]"], ["{}]"]),
        (r"^a{,3}\-[\w-.]$", ["a{,3}-."], ["aaa-."]),
        (r"^\101\8$", ["A8"], ["101"]),
        (r"^\p{Script=Greek}+$", ["αβ"], ["ab"]),
        (r"^[\uD800-\uDFFF]?\uD83D\uDE00$", ["😀"], ["a"]),
        ("(?i)^[k-m]É$", ["Lé"], ["ae"]),
    ],
)
def test_mask_and_validator_read_patterns_alike(
    pattern: str, fitting: list[str], other: list[str]
) -> None:
    reading = read_pattern(pattern)
    assert reading is not None
    for text in (*fitting, *other):
        assert matches(reading.regex, text) == (text in fitting)
        assert Validator({"pattern": pattern}, {}).admits(text) == (text in fitting)


@pytest.mark.parametrize(
    ("pattern", "left_out"),
    [
        ("^(a|b)\\1$", ("\\1",)),
        ("(?<n>a)\\k<n>", ("\\k<n>",)),
        ("^(?!(a)\\1)a", ("\\1",)),
        ("^(?>a*)b$", ("(?>a*)",)),
        (r"(?=b)(?:(?=.{600}a)[ab]{2})*$", (r"(?=.{600}a)",)),
    ],
)
def test_what_is_not_in_the_mask_is_named(pattern: str, left_out: tuple[str, ...]) -> None:
    reading = read_pattern(pattern)
    assert reading is not None
    assert reading.left_out == left_out
    assert translate(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?:(a)|\1b)$",
        r"^(?!(a)b)\1a$",
        r"^(?:(.*)\1){0}b$",
        r"(?<!b\B|(?<!\B))a",
        r"^(?:(?<![a-]{2}(?<!foo( ))(?:(?<!b{0,2}(?<![^]{0,2}))_)+).)+$",
        r"^a+[^a-c](?:(?<!A+[^a-c](?: (?<!x+(?<! ))))_)+(?<!(?:(?<!(-{1,3}(?<!A))?)b)+\W{0,2})",
    ],
)
def test_what_is_regular_is_wholly_in_the_mask(pattern: str) -> None:
    assert translate(pattern) is not None


@pytest.mark.parametrize(
    "pattern", ["\\Aa", "a\\z", "\\Z", "a++", "a?+", "a{2}{3}", "(", "[", "^*", "(?x)a", "\\"]
)
def test_what_is_no_pattern_is_not_translated(pattern: str) -> None:
    assert read_pattern(pattern) is None


def test_long_patterns_are_read_in_no_time() -> None:
    for part in ("[", "(?<", "(?:", r"\b", "(?=", "(?<!a)", "a(?!b)", "(?:a|\\b)"):
        with limit_steps(200_000), suppress(StepsError):
            read_pattern(part * (10_000 // len(part)))


def test_repeated_flags_are_read_once() -> None:
    assert translate("(?i)" * 1_000 + "^a$") == translate("(?i)^a$")


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


def test_a_look_behind_at_the_end_of_another_sees_the_text_once() -> None:
    for pattern in (r"(?<=b(?!(?<=^ab)))", r"(?<=b(?!(?<=\bab)))"):
        regex = translate(pattern)
        assert regex is not None
        assert [text for text in ("ab", "aab", "bb") if matches(regex, text)] == ["aab", "bb"]
