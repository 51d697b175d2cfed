"""Grammar, parser and renderer agree also for formats that the registry does not have."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import PolicyError, SchemaError
from grammars.parse.parser import Parser, collect, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.schema.members import KeyOrder
from grammars.turn import Choice, JsonAnswer, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format, KeywordArguments, NestedArguments
from grammars.wire.formats import FORMATS as REGISTERED
from tests.agreement.case_checks import SLOW, assert_obeys, is_held_whole, masked, spell
from tests.agreement.chosen_formats import SCALE
from tests.agreement.matching import Masked
from tests.agreement.unregistered_formats import (
    ARGUMENTS_FIRST,
    BARE_LIST,
    BARE_MEMBER,
    BARE_OBJECTS,
    BARE_PYTHON,
    DASHES,
    DASHES_AFTER,
    ENCODED,
    ENCODED_BEHIND_NAME,
    FORMATS,
    KEY_TAGS,
    LINES,
    TAGGED_PYTHON,
    in_python,
)
from tests.turn_strategies import cases, chunkings, mutate, seeds

EACH = pytest.mark.parametrize("name", FORMATS)


@EACH
@settings(suppress_health_check=SLOW, max_examples=8 * SCALE)
@given(data=st.data())
def test_grammar_parser_and_renderer_agree(name: str, data: st.DataObject) -> None:
    """What is rendered is accepted and read back, and whatever else is accepted is read: of one
    case, since to draw it and to compile its grammars takes most of the time."""
    case = data.draw(cases(FORMATS[name]))
    grammars = masked(case)
    if all(is_held_whole(tool, case.format) for tool in case.tools):
        for grammar in grammars:
            assert grammar.accepts(case.text), (grammar.prefix(case.text), grammar.grammar)
    assert spell(parse(case.text, case.format, case.tools, case.state)) == spell(case.turn)
    parser = Parser(case.format, case.tools, case.state)
    events = [e for piece in data.draw(chunkings(case.text)) for e in parser.feed(piece)]
    assert spell(collect([*events, *parser.close()])) == spell(case.turn)
    rng = random.Random(data.draw(seeds()))
    for grammar in grammars:
        texts = [mutate(case.text, rng) for _ in range(20)]
        texts = [text for text in texts if grammar.accepts(text)]
        walks = (grammar.walk(rng, case.text[: rng.randint(0, len(case.text))]) for _ in range(3))
        texts += [walk for walk in walks if walk is not None]
        for text in texts:
            assert_obeys(parse(text, case.format, case.tools, case.state), case)


PING = Tool("ping", lower({"type": "object", "properties": {"a": {"type": "string"}}}))
BOTH = (ToolCall("ping", {"a": "x"}), ToolCall("ping", {}))


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (
            BARE_LIST,
            '[{"name": "ping", "arguments": {"a": "x"}}, {"name": "ping", "arguments": {}}]',
        ),
        (
            BARE_OBJECTS,
            '{"name": "ping", "parameters": {"a": "x"}},{"name": "ping", "parameters": {}}',
        ),
        (BARE_PYTHON, "[ping(a='x'), ping()]"),
    ],
    ids=["list", "objects", "python"],
)
def test_several_calls_that_no_marker_opens(format: Format, text: str) -> None:
    grammar = Masked(format, [PING], Policy(), State())
    assert render(Turn(calls=BOTH), format) == text
    assert grammar.accepts(text)
    assert grammar.accepts("\n" + text)
    assert not grammar.accepts(text[:-2])
    alone = Masked(format, [PING], Policy(parallel=False), State())
    assert not alone.accepts(text)
    assert parse(text, format, [PING]).calls == BOTH
    quoted = f"As in {text}."
    assert grammar.accepts(quoted)
    assert parse(quoted, format, [PING]) == Turn(quoted)


def test_a_list_of_calls_that_is_none_is_content() -> None:
    for text in ("[1, 2]", '[{"title": "x"}]', "[see above]"):
        assert Masked(BARE_LIST, [PING], Policy(), State()).accepts(text)
        assert parse(text, BARE_LIST, [PING]) == Turn(text)


def test_a_bracket_in_front_of_text_is_no_call_in_python() -> None:
    for text in ("[1] is a source.", "[link](https://a.b)", "[", "[pin", "[ping", "[ping]"):
        assert Masked(BARE_PYTHON, [PING], Policy(), State()).accepts(text)
        assert parse(text, BARE_PYTHON, [PING]) == Turn(text)
        parser = Parser(BARE_PYTHON, [PING], stream=True)
        events = [event for character in text for event in parser.feed(character)]
        assert collect([*events, *parser.close()]) == Turn(text)


def test_arguments_in_front_of_the_name_are_told_behind_it() -> None:
    text = '<call>{ "arguments": {"a": "x"}, "name": "ping" }</call>'
    parser = Parser(ARGUMENTS_FIRST, [PING], stream=True)
    events = [event for character in text for event in parser.feed(character)]
    assert collect(events).calls == BOTH[:1]
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["CallOpened", "ArgumentsDelta", "CallRead"]


def test_a_string_that_holds_no_object_is_no_call() -> None:
    text = '<call>{"name": "ping", "arguments": "[1]"}</call>'
    assert not Masked(ENCODED, [PING], Policy(), State()).accepts(text)
    assert parse(text, ENCODED, [PING], recover=True) == Turn(text)
    plain = '<call>{"name": "ping", "arguments": {"a": "x"}}</call>'
    assert parse(plain, ENCODED, [PING], recover=True).calls == BOTH[:1]


@pytest.mark.parametrize(
    ("format", "texts"),
    [
        (
            ENCODED_BEHIND_NAME,
            ('<call>get-it"{\\"a\\": \\"x\\"}"</call>', '<call>get-it"{}"</call>'),
        ),
        (DASHES, ('<call>get-it\n- a: "x"\n---</call>', "<call>get-it</call>")),
        (DASHES_AFTER, ('<call>get-it\n- a: "x"\n--</call>', "<call>get-it\n--</call>")),
    ],
    ids=["encoded", "end", "after"],
)
def test_the_end_of_a_name_and_of_a_list(format: Format, texts: tuple[str, str]) -> None:
    tool = Tool("get-it", PING.schema)
    for text, arguments in zip(texts, ({"a": "x"}, {}), strict=True):
        call = ToolCall("get-it", arguments)
        assert render(Turn(calls=(call,)), format) == text
        assert Masked(format, [tool], Policy(), State()).accepts(text)
        for recover in (False, True):
            assert parse(text, format, [tool], recover=recover).calls == (call,)


@pytest.mark.parametrize("format", [DASHES, DASHES_AFTER], ids=["end", "after"])
def test_a_number_may_have_the_sign_that_ends_the_list(format: Format) -> None:
    properties = {"a": {"type": "number"}, "b": {"type": "number"}}
    tool = Tool("ping", lower({"type": "object", "properties": properties}))
    call = ToolCall("ping", {"a": -1.5, "b": 1e-9})
    text = render(Turn(calls=(call,)), format)
    assert Masked(format, [tool], Policy(), State()).accepts(text)
    assert parse(text, format, [tool]).calls == (call,)


def test_a_call_without_its_list_is_recovered() -> None:
    text = '{"name": "ping", "arguments": {"a": "x"}}'
    assert parse(text, BARE_LIST, [PING]) == Turn(text)
    assert parse(text, BARE_LIST, [PING], recover=True).calls == BOTH[:1]
    assert parse(f"[{text}]", BARE_LIST, [PING], recover=True).calls == BOTH[:1]
    lines = "[\n" + text + ",\n" + text + "\n]"
    assert parse(lines, BARE_LIST, [PING], recover=True).calls == BOTH[:1] * 2


def test_an_answer_may_not_be_taken_for_an_object_with_calls() -> None:
    for schema in ({"type": "object"}, {"type": "string"}):
        answer = JsonAnswer(lower(schema, only_object=False))
        with pytest.raises(PolicyError, match="cannot tell such an answer from a call"):
            build_turn(BARE_MEMBER, [PING], Policy(answer=answer))
        build_turn(BARE_MEMBER, [PING], Policy(Choice.NONE, answer=answer))


def test_an_answer_may_not_be_taken_for_a_list_of_calls() -> None:
    def answer(schema: dict[str, Any]) -> Policy:
        return Policy(answer=JsonAnswer(lower(schema, only_object=False)))

    titled = {"type": "object", "properties": {"title": {"type": "string"}}}
    closed = titled | {"additionalProperties": False}
    grammar = Masked(BARE_LIST, [PING], answer(closed), State())
    assert grammar.accepts('{"title": "x"}')
    assert grammar.accepts('[{"name": "ping", "arguments": {}}]')
    assert not grammar.accepts("[1]")
    for schema in ({"type": "array"}, {"enum": [[1]]}, {}):
        with pytest.raises(PolicyError, match="a list could be read as a list of calls") as info:
            build_turn(BARE_LIST, [PING], answer(schema))
        assert info.value.where == "/response_format"


def test_a_raw_string_may_end_in_front_of_another_call() -> None:
    """Its end is the beginning of that of a string with a call behind it."""
    schema = lower({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    call = "<run>get.call(a='it''s')</run>"
    held = Masked(TAGGED_PYTHON, (Tool("get", schema),), Policy(Choice.REQUIRED), State())
    for text in (call, f"{call}\n{call}", f"{call}\n{call}\n{call}"):
        assert held.accepts(text)


def test_undeclared_arguments_are_sorted_among_the_declared() -> None:
    hole = KeywordArguments(sorted_keys=True)
    schema = lower(
        {"properties": {"m": {"type": "integer"}}, "additionalProperties": {"type": "integer"}}
    )
    policy = Policy(Choice.REQUIRED, key_order=KeyOrder.SCHEMA)
    held = Masked(in_python("sorted", hole), (Tool("get", schema),), policy, State())
    for arguments in ("a=1, m=2", "m=2, z=1", "a=1, m=2, z=3"):
        assert held.accepts(f"<calls>[get({arguments})]</calls>")


def test_strings_of_lines_are_json_wherever_the_values_are() -> None:
    """They are read as JSON, so the grammar has none of Python's escapes."""
    letter: Any = {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^[a\\n😀]+$"}
    tool = Tool("f", lower({"type": "object", "properties": {"x": letter}, "required": ["x"]}))
    grammar = Masked(LINES, [tool], Policy(choice=Choice.REQUIRED, parallel=False), State())
    for spelled, text in {
        r"\u000a": "\n",
        r"\n": "\n",
        r"\ud83d\ude00": "😀",
        "a😀": "a😀",
    }.items():
        turn = f'<call>f\nwith:\n  x: "{spelled}"\n</call>'
        assert grammar.accepts(turn), spelled
        assert parse(turn, LINES, [tool]).calls == (ToolCall("f", {"x": text}),)
    # no encoder writes the number of a letter of ASCII
    for spelled in (r"\u0061", r"\x61", r"\U0001f600", r"\'", "b"):
        assert not grammar.accepts(f'<call>f\nwith:\n  x: "{spelled}"\n</call>'), spelled


NESTED = next(format for format in REGISTERED if isinstance(format.hole, NestedArguments))


@pytest.mark.parametrize(
    ("format", "pattern"),
    [(KEY_TAGS, "^x"), (LINES, "^[(]"), (NESTED, "^[ ]")],
    ids=["tags of the keys", "lines", "nested tags"],
)
def test_a_call_without_arguments_is_not_written_where_some_are_required(
    format: Format, pattern: str
) -> None:
    """No key that fits can be written in these formats; without arguments the call does not fit."""
    some = {"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False}
    state, policy = State(), Policy(choice=Choice.REQUIRED)
    Masked(format, [Tool("f", lower(some))], policy, state)
    with pytest.raises(SchemaError, match="more keys than such a call can write"):
        Masked(format, [Tool("f", lower({**some, "minProperties": 1}))], policy, state)


UNWRITABLE: Any = {"type": "object", "patternProperties": {"^[ ]": {}},
                   "additionalProperties": False, "minProperties": 1}  # fmt: skip
WRITABLE: Any = {"type": "object", "properties": {"a": {"const": "x"}}, "required": ["a"],
                 "additionalProperties": False}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "call"),
    [
        ({**WRITABLE, "properties": {"a": {"const": "x"}, "o": UNWRITABLE}}, {"a": "x"}),
        ({**WRITABLE, "properties": {"a": {"anyOf": [{"const": "x"}, UNWRITABLE]}}}, {"a": "x"}),
        ({"anyOf": [UNWRITABLE, WRITABLE]}, {"a": "x"}),
    ],
    ids=["optional key", "alternative", "alternative of the whole"],
)
def test_nested_tags_leave_out_objects_that_they_cannot_write(schema: Any, call: Any) -> None:
    tool = Tool("f", lower(schema))
    grammar = Masked(NESTED, [tool], Policy(choice=Choice.REQUIRED), State())
    assert grammar.accepts(render(Turn(calls=(ToolCall("f", call),)), NESTED, [tool]))
    required = {"type": "object", "properties": {"o": UNWRITABLE}, "required": ["o"]}
    with pytest.raises(SchemaError, match="more keys than such a call can write"):
        Masked(NESTED, [Tool("f", lower(required))], Policy(choice=Choice.REQUIRED), State())
