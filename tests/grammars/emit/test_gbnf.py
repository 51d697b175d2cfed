"""GBNF is what llama.cpp takes it for: texts of the turn's grammar, and no others."""

import random

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from grammars.emit.emitter import emit
from grammars.emit.expansion import expand
from grammars.emit.gbnf import write_gbnf
from grammars.errors import CannotEmitError, SchemaError
from grammars.parse.parser import parse
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, KeyOrder, Policy, Think, Tool
from grammars.turn_grammar.ir.grammar import Grammar, GrammarBuilder, Rule
from grammars.turn_grammar.ir.nodes import (
    Alternatives,
    EmbeddedLark,
    Expression,
    JsonSchema,
    Literal,
    Pattern,
    Repeat,
    RuleReference,
    Sequence,
    Token,
    optional,
)
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from grammars.wire.formats.generic import GENERIC
from grammars.wire.formats.hermes import HERMES
from grammars.wire.formats.qwen3_coder import QWEN3_CODER
from grammars.wire.formats.seed_oss import SEED_OSS
from tests.agreement.chosen_formats import IS_THOROUGH, SCALE
from tests.grammars.emit.emitted_cases import EmittedCase, read_small_sets
from tests.grammars.emit.emitted_texts import EngineVocabulary
from tests.grammars.emit.gbnf_engine import GbnfEngine
from tests.turn_strategies import cases, seeds

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CALL = Policy(Choice.REQUIRED, think=Think.FORBIDDEN, parallel=False)


def make_grammar(start: Expression, rules: dict[str, Rule] | None = None) -> Grammar:
    return Grammar(start, rules or {}, "")


def takes(engine: GbnfEngine, known: EngineVocabulary, grammar: str, text: str) -> bool:
    with engine.reading(grammar) as reading:
        return reading.accepts(known.vocabulary.encode(text))


def offer(schema: object) -> Tool:
    properties = {"v": schema}
    return Tool("x", lower({"type": "object", "properties": properties, "required": ["v"]}))


def call(value: str) -> str:
    return f'\n{{"name": "x", "arguments": {{"v": {value}}}}}\n'


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_every_format_with_real_tools(
    format: Format, engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    draw = random.Random(format.name)
    policy = Policy(draw.choice(list(Choice)), key_order=draw.choice(list(KeyOrder)))
    case = EmittedCase(format, draw.choice(read_small_sets()), policy)
    agreement = case.judge("gbnf", gbnf_engine.reading, engine_vocabulary, draw, walks=1)
    assert agreement is not None
    assert not agreement.disputed
    assert agreement.judged["shortest"]


@settings(
    suppress_health_check=SUPPRESSED,
    max_examples=5 * SCALE,
    deadline=None,
    phases=list(Phase) if IS_THOROUGH else [Phase.explicit, Phase.reuse, Phase.generate],
)
@given(data=st.data())
def test_any_schema(
    engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine, data: st.DataObject
) -> None:
    drawn = data.draw(cases(data.draw(st.sampled_from(FORMATS))))
    case = EmittedCase(drawn.format, drawn.tools, drawn.policy, drawn.state, [drawn.text])
    draw = random.Random(data.draw(seeds()))
    try:
        agreement = case.judge("gbnf", gbnf_engine.reading, engine_vocabulary, draw, walks=1)
    except SchemaError:
        assume(False)
    else:
        assert agreement is None or not agreement.disputed


SCHEMAS = (
    {"type": "integer", "multipleOf": 7, "minimum": 3, "maximum": 500},
    {"type": "number", "multipleOf": 25},
    {"type": "string", "minLength": 2, "maxLength": 2500},
    {"type": "string", "pattern": "^(a*)*b$"},
    {"type": "string", "not": {"enum": ["a", "b"]}},
    {"type": "string", "pattern": "^[^\\n]*\\.py$", "maxLength": 12},
    {"type": "array", "items": {"type": "string", "pattern": "^x*$"}, "maxItems": 3000},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True},
    {"type": ["array", "null"], "items": {"$ref": "#/properties/v"}},
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_values(
    schema: dict[str, object], engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    texts = [call(value) for value in ("0", "-0", "7", "0.25", "0.5", '"xx"', '"a.py"', "[[]]")]
    case = EmittedCase(GENERIC, [offer(schema)], CALL, texts=texts)
    draw = random.Random(0)
    agreement = case.judge("gbnf", gbnf_engine.reading, engine_vocabulary, draw, walks=3)
    assert agreement is not None
    assert not agreement.disputed


TAGGED = (
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "maxLength": 60},
    {"type": "string", "pattern": "^[a-z<]*$", "maxLength": 4},
    {"type": "number", "minimum": -1, "exclusiveMaximum": 12.5},
)


@pytest.mark.parametrize("schema", TAGGED, ids=str)
def test_values_between_tags(
    schema: dict[str, object], engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    values = (
        "",
        "a",
        "ab",
        "abcde",
        "abcdef",
        "<a<",
        "a\n</parameter",
        "é" * 300,
        "é" * 301,
        "12.4",
    )
    head, tail = "<function=x>\n<parameter=v>\n", "\n</parameter>\n</function>\n</tool_call>"
    texts = [f"<tool_call>\n{head}{value}{tail}" for value in values]
    case = EmittedCase(QWEN3_CODER, [offer(schema)], CALL, texts=texts)
    draw = random.Random(0)
    agreement = case.judge("gbnf", gbnf_engine.reading, engine_vocabulary, draw, walks=3)
    assert agreement is not None
    assert not agreement.disputed


def test_what_only_a_lexer_gives_up_is_a_valid_call(
    engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    """llguidance reads the longest lexeme, which is the word; there is no lexer here."""
    tool = offer({"anyOf": [{"enum": ["[1"]}, {"items": {"type": "integer"}, "type": "array"}]})
    grammar = emit(build_turn(SEED_OSS, [tool], CALL), "gbnf")
    head, tail = "<function=x>\n<parameter=v>", "</parameter>\n</function>\n</seed:tool_call>"
    for value, is_valid in (("[1", True), ("[1, 2]", True), ("[2]", True), ("[1, x]", False)):
        text = f"<seed:tool_call>\n{head}{value}{tail}"
        assert takes(gbnf_engine, engine_vocabulary, grammar, text) is is_valid
        (read,) = parse(text, SEED_OSS, [tool]).calls
        assert read.valid is is_valid


def test_counts_are_exact(engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine) -> None:
    """llama.cpp takes a count beyond 2,000 for none at all."""
    for fewest, most in ((0, 2), (3, 3), (13, 40), (100, 2_501), (2_100, None)):
        grammar = emit(make_grammar(Repeat(Literal("ab"), fewest, most)), "gbnf")
        assert "{" not in grammar
        near = {fewest - 1, fewest, fewest + 1, fewest + 57, 2_001}
        if most is not None:
            near |= {most - 1, most, most + 1, 2 * most}
        for count in near:
            expected = count >= fewest and (most is None or count <= most)
            text = "ab" * max(0, count)
            assert takes(gbnf_engine, engine_vocabulary, grammar, text) is expected or count < 0


def test_a_repeated_body_may_be_empty(
    engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    """llama.cpp would call it left recursion."""
    body = Sequence((optional(Literal("a")), optional(Literal("b"))))
    rules = {"r_0": Rule(body)}
    for inner in (body, RuleReference("r_0"), Repeat(RuleReference("r_0"), 0, None)):
        grammar = emit(make_grammar(Repeat(inner, 0, None), rules), "gbnf")
        for text in ("", "a", "b", "ba", "abab", "aabba"):
            assert takes(gbnf_engine, engine_vocabulary, grammar, text)
        assert not takes(gbnf_engine, engine_vocabulary, grammar, "abc")


def test_a_lazy_terminal_ends_where_it_matches_first(
    engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    builder = GrammarBuilder()
    until = builder.lazy(Sequence((Pattern("(?s:.*)"), Literal("</a>"))), "until")
    grammar = emit(builder.build(Sequence((until, Literal("!")))), "gbnf")
    assert takes(gbnf_engine, engine_vocabulary, grammar, "x<</a>!")
    assert not takes(gbnf_engine, engine_vocabulary, grammar, "x</a></a>!")


def test_characters_that_mean_something_in_gbnf(
    engine_vocabulary: EngineVocabulary, gbnf_engine: GbnfEngine
) -> None:
    text = '[a-z]^"\\\n\t\r#x::= |<[5]>!é日🙂\x01\x7f\u2028'
    grammar = emit(make_grammar(Literal(text)), "gbnf")
    assert takes(gbnf_engine, engine_vocabulary, grammar, text)
    builder = GrammarBuilder()
    sets = builder.terminal(Pattern(r"[\x00-\x1f^\]\\\-é\u{1f600}-\u{1f64f}]*"), "SET")
    grammar = emit(builder.build(sets), "gbnf")
    assert takes(gbnf_engine, engine_vocabulary, grammar, "^]\\-é😀\x01\n")
    for other in ("a", "[", "è", "\x20"):
        assert not takes(gbnf_engine, engine_vocabulary, grammar, other)


def test_what_cannot_be_written_is_left_out() -> None:
    """A rule that leads to itself alone derives no text."""
    rules = {"r_0": Rule(Sequence((Literal("["), RuleReference("r_0"))))}
    options = Alternatives((RuleReference("r_0"), Literal("x")))
    assert emit(make_grammar(options, rules), "gbnf") == 'root ::= "x"\n'
    with pytest.raises(CannotEmitError, match="no turn can be written"):
        emit(make_grammar(RuleReference("r_0"), rules), "gbnf")


def test_a_token_is_its_number() -> None:
    grammar = make_grammar(Sequence((Token("<tool_call>", 7), Literal("x"))))
    assert emit(grammar, "gbnf") == 'root ::= <[7]> "x"\n'


def test_equal_grammars_are_equal_text() -> None:
    """Prompt caches and logs compare texts: no set decides an order."""
    tool = offer({"enum": ["a", 1, None, "b"], "description": "x"})
    texts = [emit(build_turn(HERMES, [tool]), "gbnf") for _ in range(2)]
    assert texts[0] == texts[1]


def test_left_recursion_is_refused() -> None:
    rules = {
        "a_0": Rule(Alternatives((RuleReference("b_1"), Literal("x")))),
        "b_1": Rule(Sequence((optional(Literal("-")), RuleReference("a_0"), Literal("y")))),
    }
    grammar = expand(make_grammar(RuleReference("a_0"), rules))
    with pytest.raises(CannotEmitError, match="begin with a value of the same kind") as caught:
        write_gbnf(grammar)
    assert caught.value.where in rules


def test_keys_in_any_order_are_refused_beyond_a_bound() -> None:
    keys = [f"key_{i}" for i in range(24)]
    properties = {key: {"type": "integer"} for key in keys}
    tool = Tool("x", lower({"type": "object", "properties": properties, "required": keys}))
    with pytest.raises(CannotEmitError, match="more than 50,000 productions") as caught:
        emit(build_turn(HERMES, [tool]), "gbnf")
    assert caught.value.where is not None
    assert caught.value.where.partition("_")[0] in ("next", "more")
    assert "--key-order schema" in str(caught.value)
    assert emit(build_turn(HERMES, [tool], Policy(key_order=KeyOrder.SCHEMA)), "gbnf")


def test_what_else_is_refused() -> None:
    big = {"type": "integer", "multipleOf": 3_001}
    unknown = RuleReference("T_0")
    anchored = Rule(Pattern("^a$"), is_terminal=True)
    for start, rules, message in (
        (EmbeddedLark("start: /x/"), {}, "a Lark grammar of your own"),
        (Literal("a\0b"), {}, r"U\+0000"),
        (unknown, {"T_0": anchored}, "cannot be expanded"),
        (JsonSchema('{"type": "string"}'), {}, "only llguidance supports it"),
    ):
        with pytest.raises(CannotEmitError, match=message):
            emit(make_grammar(start, rules), "gbnf")
    with pytest.raises(CannotEmitError, match=r"3001.*more than 3,000 states"):
        emit(build_turn(GENERIC, [offer(big)]), "gbnf")
    with pytest.raises(CannotEmitError, match=r"no language 'bnf'.*gbnf"):
        emit(make_grammar(Literal("x")), "bnf")
