"""Values in every style: spelled, enforced by the mask, read back, completed from any cut."""

import functools
import json
import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st
from jinja2 import Environment

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.errors import SchemaError
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema, are_same
from grammars.schema.numbers import normalise_numbers
from grammars.spelling.styles import has_json_strings, holds, spell
from grammars.spelling.value_reader import DeepJsonError, ValueReader, read_json, read_value
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.ir.printer import print_expression
from grammars.turn_grammar.values import Values
from grammars.wire.format import JsonStyle
from tests.grammars.spelling.json_styles import BARE, GEMMA, PRETTY, PYTHON, QUOTE, is_writable
from tests.schema_strategies import VALUES, Shape, fitting, leaves, objects, parameters, shapes
from tests.text_strategies import KEYS, TEXTS
from tests.turn_strategies import chunkings, seeds

STYLES = {
    "json": JsonStyle(),
    "python": PYTHON,
    "gemma": GEMMA,
    "gemma, quote a token": GEMMA,
    "pretty": PRETTY,
}
EACH = pytest.mark.parametrize("name", STYLES)
FEW = settings(suppress_health_check=list(HealthCheck), max_examples=20)
SHAPES = leaves([]) | objects(shapes(), KEYS) | shapes() | parameters()
ESCAPED = TEXTS | st.text(
    "\0\x01\x07\x1f\x7f\x85\xa0\xadéÿĀ\u2028\ue000\ufeff😀\U0010ffff'\"\\\n aZ", max_size=4
)
SIGNS = frozenset(b"\\\"'{}[]:,<|>xuUd8eE0")


class Mask:
    """What the engine says to texts of a schema in a style."""

    def __init__(self, name: str, schema: Schema):
        self.style = STYLES[name]
        self.vocabulary, tokenizer = byte_tokenizer((QUOTE,) if "token" in name else ())
        quote = self.vocabulary.marker(QUOTE)
        self.ids: Mapping[str, int] = {} if quote is None else {QUOTE: quote}
        builder = GrammarBuilder(self.ids)
        start = Values(builder, self.style).value(schema.node, schema.definitions)
        grammar = builder.build(start)
        self.grammar = grammar.lark
        self._matcher = Matcher.compile(tokenizer, self.grammar)
        self.completer = Completer(grammar)

    def takes(self, text: str, *, whole: bool = True) -> bool:
        """Does the mask take the text, and may it end there?"""
        tokens = self.vocabulary.encode_marked(text, self.ids)
        matcher = self._matcher.fork()
        if matcher.count_accepted(tokens) < len(tokens):
            return False
        for token in tokens:
            matcher.commit(token)
        return matcher.is_complete or not whole

    def walk(self, rng: random.Random, start: str, steps: int) -> str:
        """A random text that the mask takes, and that begins with as much of `start`."""
        matcher = self._matcher.fork()
        tokens = self.vocabulary.encode_marked(start, self.ids)
        tokens = tokens[: matcher.count_accepted(tokens)]
        for token in tokens:
            matcher.commit(token)
        for _ in range(steps):
            allowed = [t for t in np.flatnonzero(matcher.mask()).tolist() if not matcher.ends(t)]
            if matcher.is_finished or not allowed:
                break
            signs = [t for t in allowed if t in SIGNS]
            pick = rng.choice(signs if signs and rng.random() < 0.7 else allowed)
            tokens.append(pick)
            matcher.commit(pick)
        return self.vocabulary.text(tokens).decode(errors="ignore")

    def complete(self, text: str) -> str:
        """The text and its rest."""
        rest = self.completer.complete(text)
        assert rest is not None, (text, self.grammar)
        return text + rest


def mask(name: str, schema: Any) -> tuple[Mask, Schema]:
    try:
        lowered = lower(schema, only_object=False)
        return Mask(name, lowered), lowered
    except SchemaError:
        reject()


def assert_completed(mask: Mask, schema: Schema, text: str, cuts: list[int]) -> None:
    """What the mask takes of a text is completed to a value that fits."""
    for cut in cuts:
        if mask.takes(text[:cut], whole=False):
            whole = mask.complete(text[:cut])
            assert mask.takes(whole), (text[:cut], whole, mask.grammar)
            value = read_value(whole, mask.style)
            assert schema.report.checked or schema.admits(value), whole
            assert_settled(value, schema)
            if has_json_strings(mask.style) and "'" not in mask.style.quotes:
                assert_strict(whole)


def assert_settled(value: Any, schema: Schema) -> None:
    """The mask writes numbers as the schema means them, so readers change none of them."""
    assert are_same(normalise_numbers(value, schema), value)
    if schema.source == {"type": "integer"}:
        assert type(value) is int


def assert_strict(text: str) -> None:
    """It is JSON to any reader: doubles are finite, integers short, surrogates come in pairs."""

    def refuse(name: str) -> float:
        raise AssertionError(name)

    def read_float(digits: str) -> float:
        assert math.isfinite(float(digits)), digits
        return float(digits)

    def read_int(digits: str) -> int:
        assert len(digits.lstrip("-")) <= 308
        return int(digits)

    value = json.loads(text, parse_constant=refuse, parse_float=read_float, parse_int=read_int)
    json.dumps(value, ensure_ascii=False).encode()
    text.encode()


def cuts_of(text: str) -> st.SearchStrategy[list[int]]:
    few = st.lists(st.integers(0, len(text)), max_size=12, unique=True)
    return few.map(lambda drawn: sorted({0, len(text), *drawn}))


@EACH
@FEW
@given(data=st.data())
def test_a_value_is_held_read_and_completed(name: str, data: st.DataObject) -> None:
    shape: Shape = data.draw(SHAPES)
    held, schema = mask(name, shape.schema)
    value = data.draw(fitting(shape).filter(lambda v: is_writable(v, held.style)))
    text = spell(value, held.style)
    assert are_same(read_value(text, held.style), value)
    if schema.admits(value):
        taken = held.takes(text)
        event("taken" if taken else "not taken")
        assert taken or schema.report.checked, (text, held.grammar)
    assert_completed(held, schema, text, data.draw(cuts_of(text)))


@EACH
@FEW
@given(data=st.data())
def test_a_value_that_does_not_fit_is_refused(name: str, data: st.DataObject) -> None:
    shape: Shape = data.draw(SHAPES)
    held, schema = mask(name, shape.schema)
    other = data.draw(st.one_of(VALUES, data.draw(SHAPES).values))
    text = spell(other, held.style)
    if not schema.report.checked and held.takes(text):
        assert schema.admits(read_value(text, held.style)), (text, held.grammar)


@EACH
@FEW
@given(data=st.data())
def test_a_random_walk_is_completed(name: str, data: st.DataObject) -> None:
    shape: Shape = data.draw(SHAPES)
    held, schema = mask(name, shape.schema)
    start = spell(data.draw(shape.values), held.style)
    rng = random.Random(data.draw(seeds()))
    text = held.walk(rng, start[: rng.randint(0, len(start))], 60)
    assert_completed(held, schema, text, sorted(rng.sample(range(len(text) + 1), len(text) // 3)))


@given(VALUES)
def test_python_is_spelled_as_repr_does(value: Any) -> None:
    assert spell(value, PYTHON) == repr(value)


@given(VALUES, st.booleans())
def test_json_is_python_too(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    assert are_same(read_value(text, PYTHON), value)
    held, _ = mask("python", {})
    assert held.takes(text)


@functools.cache
def cached_mask(schema: str) -> tuple[Mask, Schema]:
    return mask("python", json.loads(schema))


def number(text: str, letter: str, width: int) -> str:
    """The text in Python's spelling, with numeric escapes of this width where they fit."""
    parts: list[str] = []
    for character in text:
        if character in "\\'":
            parts.append("\\" + character)
        elif (character.isascii() and character.isprintable()) or ord(character) >= 16**width:
            parts.append(character)
        else:
            parts.append(f"\\{letter}{ord(character):0{width}X}")
    return f"'{''.join(parts)}'"


def spellings(text: str) -> list[str]:
    """What writers of Python and of JSON make of it."""
    as_json = [json.dumps(text), json.dumps(text, ensure_ascii=False)]
    numbers = [number(text, letter, width) for letter, width in (("u", 4), ("U", 8))]
    return [spell(text, PYTHON), ascii(text), *as_json, *numbers]


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"enum": ["a", "no", 'a"', "\x01", "é", "😀", "\ue000'"]}},
        *(
            {"pattern": pattern}
            for pattern in (
                "^(?!a$).*$",
                "^(?!.*[\x07é😀])",
                "(?<![\\\\\x7f])['\"]",
                "^[^\\s'a-z]*$",
                "^[\\x00-\\x1f😀]*$",
                "^[^\\p{Greek}]*$",
            )
        ),
        {"pattern": "^[^\\n]*$", "not": {"pattern": "[\x01\x85]|^.$"}, "maxLength": 3},
    ],
    ids=json.dumps,
)
@given(text=ESCAPED)
def test_each_spelling_of_a_string_fits_as_the_string_does(schema: Any, text: str) -> None:
    held, lowered = cached_mask(json.dumps({"type": "string", **schema}))
    assert not lowered.report.checked
    for spelled in spellings(text):
        assert read_value(spelled, PYTHON) == text
        assert held.takes(spelled) == lowered.admits(text), (spelled, held.grammar)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"é": {"type": "null"}, "\x01": {"type": "null"}, "😀'": {"type": "null"}}},
        {"patternProperties": {"^[\x01é😀]": {"type": "null"}}},
        {"propertyNames": {"pattern": "^(?!.*[\x01é😀])"}},
    ],
    ids=json.dumps,
)
@given(text=ESCAPED)
def test_each_spelling_of_a_further_key_fits_as_the_key_does(schema: Any, text: str) -> None:
    whole = {"type": "object", **schema, "additionalProperties": {"type": "integer"}}
    held, lowered = cached_mask(json.dumps(whole))
    assert not lowered.report.checked
    for spelled in spellings(text):
        member = f"{{{spelled}: 1}}"
        assert held.takes(member) == lowered.admits({text: 1}), (member, held.grammar)


def test_beside_a_large_set_python_still_writes_what_it_does_not_print() -> None:
    held, lowered = cached_mask(json.dumps({"type": "string", "pattern": "^\\P{L}{4}"}))
    for text in (
        "\x01\n\x7f\x85",
        "\xa0\xad\u200b\u3000",
        "\ufeff\U000e0001\ue000\u2028",
        "😀1'\"",
    ):
        assert lowered.admits(text)
        assert held.takes(spell(text, PYTHON))
    assert not held.takes(spell("\x01\n\x7fé", PYTHON))
    assert not held.takes("'\\x01\\n\\x7f\\xe9'")


# The part of a template that writes arguments.
GEMMA_TEMPLATE = """
{%- macro write(value) -%}
    {%- if value is string -%}{{ '<|"|>' + value + '<|"|>' }}
    {%- elif value is boolean -%}{{ 'true' if value else 'false' }}
    {%- elif value is mapping -%}
        {{- '{' -}}
        {%- for key, member in value | dictsort -%}
            {{- key }}:{{ write(member) }}{{ ',' if not loop.last -}}
        {%- endfor -%}
        {{- '}' -}}
    {%- elif value is sequence -%}
        {{- '[' -}}
        {%- for item in value -%}{{ write(item) }}{{ ',' if not loop.last }}{%- endfor -%}
        {{- ']' -}}
    {%- else -%}{{ value }}
    {%- endif -%}
{%- endmacro -%}
{{ write(value) }}"""


@given(VALUES)
def test_gemma_is_spelled_as_its_template_does(value: Any) -> None:
    template = Environment(keep_trailing_newline=True).from_string(GEMMA_TEMPLATE)
    assert spell(value, GEMMA) == template.render(value=value)


@given(VALUES)
def test_pretty_json_is_spelled_as_a_template_does(value: Any) -> None:
    assert spell(value, PRETTY) == json.dumps(value, ensure_ascii=False, indent=4).replace(
        "\n", "\n" + " " * 8
    )


@EACH
@given(st.dictionaries(TEXTS, VALUES, max_size=3), TEXTS, st.data())
def test_an_object_is_read_as_it_arrives(
    name: str, value: Any, rest: str, data: st.DataObject
) -> None:
    style = STYLES[name]
    if style.bare_keys and not holds(value, style):
        reject()
    text = spell(value, style)
    pieces = [piece for piece in data.draw(chunkings(text)) if piece]
    for keeps in (False, True):
        assert ValueReader(style, keeps=keeps).feed(text + rest) == len(text)
        reader = ValueReader(style, 1, keeps=keeps)
        written, signs = "", ""
        for piece in pieces[:-1]:
            assert reader.feed(piece) is None
            written += reader.json
            signs += "".join(reader.json[sign.offset] for sign in reader.signs)
        assert reader.feed(pieces[-1] + rest) == len(pieces[-1])
        written += reader.json
        signs += "".join(reader.json[sign.offset] for sign in reader.signs)
        assert signs == "{" + ",".join(":" * len(value)) + "}"
        assert written == text if keeps else are_same(read_json(written), value)


def test_the_end_of_a_quote_begins_no_string() -> None:
    reader = ValueReader(JsonStyle(quotes=("''",), escapes=False), keeps=True)
    assert [reader.feed(piece) for piece in ("[''a''", "']")] == [None, 2]


@pytest.mark.parametrize(
    ("style", "texts"),
    [
        (PYTHON, ["", "'", "'a", "'a\"", "nan", "inf", "NaN", "1e999", "(1,)", "[1,]", "{1: 2}",
                  "'\\ud800'", "'\\q'", "'\\/'", "'\n'", "'\\U00110000'", "TRUE", "'a' 'b'",
                  "0x10", "1_000", "b'a'", "{'a'}", "{'a' 1}", "'\ud800'", "-", "01"]),
        (GEMMA, ["", "a", "{a}", "{:1}", '<|"|>', '{<|"|>a:1}', "NaN", '"a"', "'a'", "{a:1,}",
                 "{a:1}}", "True", '<|"|>a']),
    ],
)  # fmt: skip
def test_what_spells_nothing_is_refused(style: JsonStyle, texts: list[str]) -> None:
    assert [text for text in texts if reads(text, style)] == []


def test_a_slash_may_be_escaped_in_strings_of_json_alone() -> None:
    assert read_value(r'"a\/b"', PYTHON) == "a/b"
    assert not reads(r"'a\/b'", PYTHON)


@given(st.text(max_size=20) | st.text(alphabet="{}[]'\"\\:,ux0d8N1eTrue<|> \n", max_size=20))
def test_readers_are_total(text: str) -> None:
    for style in STYLES.values():
        reads(text, style)


def reads(text: str, style: JsonStyle) -> bool:
    """Does the text spell a value, which JSON can spell, too?"""
    try:
        value = read_value(text, style)
    except ValueError:
        return False
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    return True


@pytest.mark.parametrize("style", [PYTHON, GEMMA, PRETTY])
def test_deep_nesting_is_told(style: JsonStyle) -> None:
    with pytest.raises(DeepJsonError):
        read_value("[" * 100_000 + "]" * 100_000, style)


@pytest.mark.parametrize("key", ["a:b", "a,b", "{", "]", "", " a", "a\n", 'x<|"|>'])
def test_a_key_that_cannot_be_written_is_refused(key: str) -> None:
    inner = {"type": "object", "properties": {key: {"type": "null"}}}
    schema = lower({"type": "object", "properties": {"a/b": inner}})
    with pytest.raises(SchemaError) as error:
        Mask("gemma", schema)
    assert error.value.where is not None
    assert error.value.where.startswith("/properties/a~1b/properties/")
    assert error.value.hint
    assert not holds({key: 1}, GEMMA)


def test_a_constant_that_cannot_be_written_is_left_out() -> None:
    options = ["a", f"{QUOTE}", ["<|", {"b": QUOTE}]]
    held = Mask("gemma", lower({"enum": options}, only_object=False))
    assert held.takes(spell("a", GEMMA))
    assert not held.takes(spell(QUOTE, GEMMA))
    assert not held.takes(spell(options[2], GEMMA))
    with pytest.raises(SchemaError, match="none of its values"):
        Mask("gemma", lower({"enum": options[1:]}, only_object=False))


@pytest.mark.parametrize("name", ["gemma", "gemma, quote a token"])
def test_half_a_quote_is_text(name: str) -> None:
    for schema in (
        {"enum": ["a", 'a<|"']},
        {"type": "string"},
        {"pattern": "^a", "type": "string"},
    ):
        held = Mask(name, lower(schema, only_object=False))
        whole = held.complete('<|"|>a<|"')
        assert held.takes(whole)
        assert whole == '<|"|>a<|"<|"|>' or "token" not in name
    if "token" not in name:
        held = Mask(name, lower({"enum": ["a", "b"]}, only_object=False))
        assert held.complete('<|"|>a<|') == '<|"|>a<|"|>'


def test_white_space_is_exact_down_to_some_depth() -> None:
    held = Mask("pretty", lower({}, only_object=False))
    value = []
    for _ in range(12):
        value = [value, {"a": value}]
    text = spell(value, PRETTY)
    for cut in range(0, 1500, 7):
        whole = held.complete(text[:cut])
        assert held.takes(whole)
    assert not held.takes(json.dumps([1], indent=2))
    assert not held.takes("[1]")


def test_structural_text_is_cut_at_special_tokens() -> None:
    builder = GrammarBuilder({"<a>": 1, "<a>b": 2, "": 3})
    assert print_expression(builder.fixed("x<a>b<a>y")) == '"x" <[2]> <[1]> "y"'
    assert print_expression(builder.fixed("<")) == '"<"'


def test_patterns_with_look_around_are_spelled_in_each_style() -> None:
    pattern = "^(?!.*ab)(?=.*\\d)[\\p{Script=Greek}ab\\d']{2,}$"
    schema = lower({"type": "string", "pattern": pattern, "maxLength": 3}, only_object=False)
    held = Mask("python", schema)
    for text in ("'α1'", '"a1b"', '"b1\'"'):
        assert held.takes(text)
    assert not any(map(held.takes, ("'ab1'", "'αβ'", '"1αβγ"', "'1'", r"'a\x621'")))
    assert held.completer.complete("'b") == "0'"


def test_a_character_may_be_spelled_by_its_number() -> None:
    schema = lower({"type": "string", "pattern": "^[a-c\\n\u00a0🙂]{5}$"}, only_object=False)
    for text in (r"'ab\n\xa0\U0001F642'", r'"ab\x0a\u00A0🙂"'):
        held = Mask("python", schema)
        assert held.takes(text)
        assert_completed(held, schema, text, list(range(len(text))))
    assert not held.takes(r"'\x61bcab'")
    keys = Mask("python", lower({"type": "object", "properties": {"a'": {"type": "null"}},
                                 "additionalProperties": {"type": "integer"}}))  # fmt: skip
    assert keys.takes("{\"a'\": null, 'b': 1}")
    assert keys.takes(r"{'\xa0': 1}")
    assert not any(
        map(keys.takes, ('{"a\'": 1}', r"{'a\'': 1}", r"{'\x61\x27': 1}", r"{'\u0061': 1}"))
    )


def test_keys_without_quotes_have_no_control_characters() -> None:
    """What the renderer may write as a bare key is what the grammar lets a model write."""
    for code in (*range(0x20), *range(0x7F, 0xA1)):
        key = f"a{chr(code)}b"
        assert not BARE.accepts(key)
        assert not holds({key: 1}, GEMMA), ascii(key)
    assert holds({"aéb": 1}, GEMMA)
    assert BARE.accepts("aéb")
