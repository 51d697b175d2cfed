"""The grammar: what it lets through, character by character."""

from dataclasses import replace
from typing import Any

import llguidance
import pytest

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import OWN_LIMITS
from grammars.errors import SchemaError, ToolError
from grammars.parse.parser import Parser, collect
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import (
    Answer,
    Choice,
    ChoiceAnswer,
    JsonAnswer,
    KeyOrder,
    Policy,
    RegexAnswer,
    Start,
    State,
    Tool,
    ToolCall,
    Turn,
)
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import Format, JsonCall, JsonStyle
from grammars.wire.formats import FORMATS, HERMES, LLAMA3_JSON, QWEN3_CODER
from tests.agreement.matching import Masked

REQUIRED = Policy(Choice.REQUIRED)
IN_ORDER = Policy(Choice.REQUIRED, key_order=KeyOrder.SCHEMA)


def grammar(format: Format, properties: Any, policy: Policy = REQUIRED, **root: Any) -> Masked:
    schema = lower({"type": "object", "properties": properties, **root})
    return Masked(format, [Tool("f", schema)], policy, State(), single=False)


def in_json(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'


def in_tags(**arguments: str) -> str:
    written = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function=f>\n{written}</function>\n</tool_call>"


def takes(properties: Any, arguments: str, **root: Any) -> bool:
    return grammar(HERMES, properties, **root).accepts(in_json(arguments))


def takes_raw(schema: Any, value: str) -> bool:
    return grammar(QWEN3_CODER, {"v": schema}).accepts(in_tags(v=value))


TEXT = {"type": "string"}


def test_a_declared_key_cannot_be_written_a_second_time_as_another() -> None:
    two = {"path": TEXT, "content": TEXT}
    written = '<tool_call>\n{"name": "f", "arguments": {"path": "a", "content": "b"'
    trap = written + ', "path'
    assert grammar(HERMES, two).prefix(trap) == written
    assert grammar(HERMES, two, additionalProperties=True).prefix(trap + '": "c"') == trap
    for root in ({}, {"additionalProperties": True}):
        assert not takes(two, '{"path": "a", "content": "b", "path": "c"}', **root)
        assert not takes(two, '{"path": "a", "\\u0063ontent": 5}', **root)
    assert not takes(two, '{"path": "a", "content": "b", "pathx": 1}')
    assert takes(two, '{"path": "a", "content": "b", "pathx": 1}', additionalProperties=True)
    assert not takes(two, '{"path": "a", "x": 1}')
    assert takes({}, '{"\\u0063": 1}', additionalProperties=True)


def test_no_spelling_of_a_declared_key_is_an_additional_one() -> None:
    for written in ('{"é": 5}', '{"\\u00e9": 5}', '{"\\u00E9": 5}'):
        assert not takes({"é": TEXT}, written, additionalProperties=True)
    assert takes({"é": TEXT}, '{"\\u00e9": "", "\\u00ea": 5}', additionalProperties=True)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, ["0", "-1", "1" * 19],
         ["01", '"1"', "+1", "1.5", "1.0", "1e3", "1."]),
        ({"type": "integer", "minimum": 3, "maximum": 12}, ["3", "12"],
         ["2", "13", "-3", "3.5", "2e0", "2e1"]),
        ({"type": "integer", "multipleOf": 5}, ["15", "0", "-5"], ["16", "15.0"]),
        ({"type": "number"}, ["1", "1.5e-3", "1.7976931348623157e+308", "2.5e-324", "1" + "0" * 25],
         ["1.8e308", "1e309", "10e300", "NaN", "1.", ".5"]),
        ({"type": "number", "exclusiveMinimum": 0}, ["0.1", "1e-06", "5E+300"],
         ["0", "-1", "0.0", "0e1", "-1e-6", "1e308", "1e-400"]),
        ({"type": "number", "minimum": 0, "maximum": 1},
         ["0", "1", "0.25", "1e-06", "9.5E-1", "1e0", "0.12345678901234567"],
         ["1.5", "1e1", "1.1e0", "-0.1", "1e-301"]),
        ({"type": "number", "minimum": -1e-3, "exclusiveMaximum": 2.5e4},
         ["-1e-3", "-0.001", "2.4e4", "24999.5", "1e-9", "-5e-4"],
         ["-2e-3", "2.5e4", "3e4", "1e5"]),
        (TEXT, ['"a"', '"\\u00e9\\n\\/"', '"\\ud83d\\ude00"', '"\x7f"'],
         ['"\\ud800"', '"\\udc00a"', '"\n"', '"\\x"', "a"]),
        (TEXT | {"minLength": 2, "maxLength": 3}, ['"ab"', '"日本語"', '"\\n\\u0041"'], ['"a"']),
        (TEXT | {"pattern": "^[a-c]+$"}, ['"abc"'], ['"d"', '""']),
        ({"anyOf": [TEXT | {"pattern": "^a$"}, {"type": "integer", "multipleOf": 5}]},
         ['"a"', "5"], [' "a"', '\n5']),
        (TEXT | {"format": "date"}, ['"2024-02-29"'], ['"2023-02-29"']),
        ({"enum": ["a", 1, [1, {"a": {}}], {}, None, "\x7f"]},
         ['"a"', "1", '[1, {"a": {}}]', "{}", "null", '"\x7f"'], ['"b"', "2", "1.0", "[1]"]),
        ({"enum": [1.0, 2.5, 1e-06, 1e16]},
         ["1.0", "2.5", "1e-06", "1e-6", "0.000001", "1e+16"], ["1", "2", "2.0", "1.5"]),
        ({"const": {"a": [1, 2], "b": None, "c": {"d": 1, "e": 2}}},
         ['{"a": [1, 2], "b": null, "c": {"d": 1, "e": 2}}',
          '{"c": {"e": 2, "d": 1}, "b": null, "a": [1, 2]}'],
         ['{"a": [1, 2], "b": null}', '{"a": [2, 1], "b": null, "c": {"d": 1, "e": 2}}',
          '{"a": [1, 2], "a": [1, 2], "b": null, "c": {"d": 1, "e": 2}}']),
        ({"enum": ["é/ü", "\\u00e9"]},
         ['"é/ü"', '"\\u00e9/\\u00fc"', '"\\u00E9\\/\\u00FC"', '"é\\/ü"', '"\\\\u00e9"'],
         ['"\\u00e9"', '"\\u00ea/ü"', '"é\\u002fü"']),
        ({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2},
         ["[null]", "[null, null]"], ["[]", "[null,null]", "[null, null, null]"]),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        ({"type": "array", "minItems": 2}, ["[1, 2]", "[1, 2, 3]"], ["[1]"]),
        ({"type": "array", "prefixItems": [{"type": "null"}, TEXT], "minItems": 1},
         ["[null]", '[null, "a"]', '[null, "a", 1, 2]'], ["[]", "[1]"]),
        ({"type": "array", "prefixItems": [{"type": "null"}, TEXT], "items": False},
         ["[]", "[null]", '[null, "a"]'], ['[null, "a", 1]']),
        ({"type": "array", "prefixItems": [TEXT, TEXT], "maxItems": 1}, ['["a"]'], ['["a", "a"]']),
        ({"type": ["boolean", "null"]}, ["true", "null"], ["True", "None"]),
        ({}, ['{"a": [1, "b", {}]}', "[]", "false"], ["x"]),
        ({"type": "object", "properties": {}}, ["{}"], ['{"a": 1}']),
    ],
)  # fmt: skip
def test_json_values(schema: Any, good: list[str], bad: list[str]) -> None:
    held = grammar(HERMES, {"v": schema})
    assert [v for v in good if not held.accepts(in_json(f'{{"v": {v}}}'))] == []
    assert [v for v in bad if held.accepts(in_json(f'{{"v": {v}}}'))] == []


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (TEXT, ["", "null", " a\n\n<b> ", "</parameter>", '"', "\n</parameter>\n</div>"],
         ["\n</parameter>\n<parameter=v>\n", "</parameter>\n</function>"]),
        (TEXT | {"enum": ["", "a", "x\n</parameter>\n</function>"]}, ["", "a"],
         ["b", "x\n</parameter>\n</function>"]),
        (TEXT | {"pattern": "^a/\n\\d$"}, ["a/\n1"], ["a/1", "a/\n1\n"]),
        (TEXT | {"minLength": 2, "maxLength": 3}, ["ab", "\n\n\n", "日本"], ["a", "abcd"]),
        ({"const": 3}, ["3"], ["4"]),
        ({"enum": [False, None]}, ["False", "false", "null"], ["True"]),
        ({"type": "boolean"}, ["True", "true", "False", "false"], ["TRUE", "1"]),
        ({"type": "null"}, ["None", "null"], [""]),
        ({"type": "integer", "minimum": 1}, ["1"], ["0", " 1", "a"]),
        ({"type": "array", "items": {"type": "boolean"}}, ["[true]"], ["[True]"]),
        ({"type": ["integer", "string"], "minLength": 3}, ["5", "abc"], ["ab"]),
        ({"anyOf": [{"type": ["boolean", "null"]}, TEXT | {"pattern": "^xx"}]}, ["True", "None"],
         ["yes"]),
        ({"anyOf": [{"enum": ["a", 2]}, TEXT | {"minLength": 3}]}, ["a", "2", "abc"], ["b"]),
        ({"anyOf": [{"enum": [{"k": 1}, 2]}, {"type": "object", "properties": {"m": {}}}]},
         ['{"k": 1}', '{"m": 1}', "2"], ['{"k": 2}']),
        ({"anyOf": [{"const": "\n</parameter>\n<"}, {"type": "null"}]}, ["None"], ["a"]),
    ],
)  # fmt: skip
def test_raw_values(schema: Any, good: list[str], bad: list[str]) -> None:
    held = grammar(QWEN3_CODER, {"v": schema})
    assert [v for v in good if not held.accepts(in_tags(v=v))] == []
    assert [v for v in bad if held.accepts(in_tags(v=v))] == []


def test_tagged_arguments_keep_the_order_and_what_is_required() -> None:
    three = {"a": TEXT, "b": TEXT, "c": TEXT}
    held = grammar(QWEN3_CODER, three, IN_ORDER, required=["b"])
    assert held.accepts(in_tags(b="1"))
    assert held.accepts(in_tags(a="1", b="2", c="3"))
    assert not held.accepts(in_tags(a="1"))
    assert not held.accepts(in_tags(b="1", a="2"))
    assert not held.accepts(in_tags(b="1", d="2"))
    free = grammar(QWEN3_CODER, {"a": TEXT}, IN_ORDER, additionalProperties={"type": "integer"})
    assert free.accepts(in_tags(a="x", n="1", m="2"))
    assert free.accepts(in_tags(n="1"))
    assert not free.accepts(in_tags(n="x"))
    assert not free.accepts(in_tags(n="1", a="x"))
    assert not free.accepts(in_tags(**{"k" * 257: "1"}))


def test_what_cannot_be_written_between_tags() -> None:
    unwritable = {"const": "\n</parameter>\n</function>"}
    with pytest.raises(SchemaError, match="key 'a>' cannot be written") as info:
        grammar(QWEN3_CODER, {"a>": TEXT})
    assert info.value.where == "/properties/a>"
    with pytest.raises(SchemaError, match="none of its values") as info:
        grammar(QWEN3_CODER, {"v": unwritable}, required=["v"])
    assert info.value.where == "/properties/v"
    assert grammar(QWEN3_CODER, {"v": unwritable, "w": TEXT}).accepts(in_tags(w="a"))
    assert grammar(QWEN3_CODER, {"w": TEXT}, additionalProperties=unwritable).accepts(in_tags(w=""))
    for name in ("", "a b", "é>"):
        with pytest.raises(ToolError, match="cannot write the name"):
            build_grammar(QWEN3_CODER, [Tool(name, lower(True))])
        build_grammar(HERMES, [Tool(name, lower(True))])


def test_recursion_is_held() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}
    root = {"$defs": {"T": tree}, "required": ["t"]}
    assert takes({"t": {"$ref": "#/$defs/T"}}, '{"t": {"next": {"next": {}}}}', **root)
    assert not takes({"t": {"$ref": "#/$defs/T"}}, '{"t": {"next": {"last": {}}}}', **root)


def test_free_text_holds_no_marker_and_no_unknown_tool() -> None:
    for format, call in ((HERMES, in_json("{}")), (QWEN3_CODER, in_tags())):
        held = grammar(format, {}, Policy())
        assert held.accepts("Hi <b> {}")
        assert held.accepts(f"Hi\n{call}")
        assert held.accepts(f"<think>a</think>{call}\n{call}")
        assert not held.accepts("a <tool_call> b")
        assert not held.accepts("a </think> b")
        assert not held.accepts(call.replace('"f"', '"g"').replace("=f", "=g"))
        assert not grammar(format, {}, Policy(Choice.NONE)).accepts(call)
        assert not grammar(format, {}, Policy(parallel=False)).accepts(f"{call}\n{call}")
        assert not grammar(format, {}).accepts(f"Hi\n{call}")


def test_an_answer_without_a_marker_may_be_an_object() -> None:
    schema = lower({"type": "object", "properties": {"name": TEXT}}, only_object=False)
    policy = Policy(answer=JsonAnswer(schema))
    held = Masked(LLAMA3_JSON, [Tool("f", lower(True))], policy, State(), single=False)
    assert held.accepts('{"name": "f"}')
    assert held.accepts('\n{"name": "f", "parameters": {}}')
    assert not held.accepts('{"name": "g", "parameters": {}}')


@pytest.mark.parametrize("blank", ["", "\n", " ", "\n ", "\n \n", "\n\n\n\n"])
@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_white_space_before_a_call_beside_an_answer(format: Format, blank: str) -> None:
    """Also where the call itself begins with white space, as harmony's does."""
    tools = [Tool("f", lower({"type": "object"}))]
    schema = lower({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False})
    held = Masked(format, tools, Policy(answer=JsonAnswer(schema)), State(), single=False)
    call = render(Turn(calls=(ToolCall("f", {}),)), format, tools, State())
    assert held.accepts(blank + call), (held.prefix(blank + call), held.grammar)


@pytest.mark.parametrize("tools", [[], [Tool("f", lower({"type": "object"}))]])
@pytest.mark.parametrize(("format", "most"), [(HERMES, 2), (LLAMA3_JSON, 1)])
def test_an_answer_in_json_begins_with_little_white_space(
    format: Format, most: int, tools: list[Tool]
) -> None:
    closed = {"type": "object", "additionalProperties": False}
    policy = Policy(answer=JsonAnswer(lower(closed)))
    held = Masked(format, tools, policy, State(), single=False)
    for count in range(6):
        assert held.accepts("\n" * count + "{}") == (count <= most)
    assert held.accepts(" {}")


@pytest.mark.parametrize("answer", [ChoiceAnswer(("yes", "no")), RegexAnswer("yes|no")])
@pytest.mark.parametrize("tools", [[], [Tool("f", lower({"type": "object"}))]])
def test_white_space_is_no_part_of_an_answer(answer: Answer, tools: list[Tool]) -> None:
    def accepts(text: str, state: State) -> bool:
        policy = Policy(answer=answer)
        if not Masked(HERMES, tools, policy, state, single=False).accepts(text):
            return False
        parser = Parser(HERMES, tools, state, calls=bool(tools), answer=True)
        assert collect([*parser.feed(text), *parser.close()]).content in ("yes", "no")
        return True

    plain, opened = State(), State(Start.OPEN)
    assert accepts("yes", plain)
    assert accepts("<think>a</think>\n\nyes", plain)
    assert accepts("a</think>\n\nno", opened)
    assert accepts("a</think>no", opened)
    assert accepts("\n\nyes", State(Start.CLOSED, "\n\n"))
    assert accepts("yes", State(Start.CLOSED))
    for state in (plain, State(Start.CLOSED), State(Start.CLOSED, "\n")):
        assert not accepts("\n\nyes", state)


NOTHING = JsonAnswer(lower({"type": "object", "additionalProperties": False}))
NAMED = Tool("f", lower({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}))


def test_only_arguments_are_captured_beside_an_answer() -> None:
    text = build_grammar(LLAMA3_JSON, [NAMED], Policy(answer=NOTHING), captures=True)
    vocabulary, tokenizer = byte_tokenizer(())
    matcher = llguidance.LLMatcher(tokenizer, text, log_level=0, limits=OWN_LIMITS)
    written = render(Turn(calls=(ToolCall("f", {"a": "b"}),)), LLAMA3_JSON)
    for token in vocabulary.encode(written):
        matcher.consume_token(token)
    assert matcher.get_captures() == [("f", b'{"a": "b"}')]


def test_an_indented_call_beside_an_answer_ends_as_the_template_writes_it() -> None:
    format = replace(LLAMA3_JSON, call=(JsonCall(style=JsonStyle(indent=2)),))
    written = render(Turn(calls=(ToolCall("f", {"a": "b"}),)), format)
    for policy in (Policy(), Policy(answer=NOTHING)):
        assert Masked(format, [NAMED], policy, State()).accepts(written)


def test_a_deep_listed_value_takes_no_rules_of_its_own() -> None:
    deep: Any = 1
    for level in range(60):
        deep = {"a": deep} if level % 2 else [deep, "x"]
    tool = Tool("f", lower({"type": "object", "properties": {"v": {"enum": [deep, [deep]]}}}))
    written = build_grammar(HERMES, [tool], Policy(), State())
    assert len(written.splitlines()) < 40
    flat = {"enum": [{"a": 1, "b": ["x"]}]}
    held = grammar(HERMES, {"v": flat})
    for written in ('{"a": 1, "b": ["x"]}', '{"b": ["x"], "a": 1}'):
        assert held.accepts(in_json(f'{{"v": {written}}}'))
    assert not held.accepts(in_json('{"v": {"a": 1}}'))
