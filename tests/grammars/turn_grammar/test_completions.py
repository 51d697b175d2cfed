"""Completions, character by character."""

from typing import Any

import pytest

from grammars.schema.lowering.lower import lower
from grammars.turn import (
    Answer,
    Choice,
    ChoiceAnswer,
    GrammarAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    Start,
    State,
    Think,
    Tool,
)
from grammars.wire.format import Content, Format, JsonCall, JsonStyle, Marker
from grammars.wire.formats import FORMATS, GENERIC, HERMES, LLAMA3_JSON, MISTRAL, QWEN3_CODER
from tests.agreement.matching import Masked
from tests.turn_completer import turn_completer

REQUIRED = Policy(Choice.REQUIRED)
TEXT = {"type": "string"}
JSON_END = "}\n</tool_call>"
CLOSE = "\n</parameter>"
TAG_END = CLOSE + "\n</function>\n</tool_call>"


def tool(properties: Any, name: str = "f", **root: Any) -> Tool:
    return Tool(name, lower({"type": "object", "properties": properties, **root}))


PING = tool({}, "ping")
CITY = tool({"city": TEXT, "unit": {"enum": ["celsius", "c"]}}, "weather", required=["city"])


def complete(
    format: Format,
    text: str,
    *tools: Tool,
    policy: Policy = REQUIRED,
    state: State | None = None,
) -> str | None:
    """The completion, which the mask of the same request has to take."""
    state = state or State()
    rest = turn_completer(format, tools, policy, state).complete(text)
    grammar = Masked(format, tools, policy, state, single=False)
    assert grammar.prefix(text) == text
    assert rest is None or grammar.accepts(text + rest)
    return rest


@pytest.mark.parametrize(
    ("format", "text", "rest"),
    [
        (HERMES, "", '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'),
        (HERMES, " \n<tool_c", 'all>\n{"name": "ping", "arguments": {}}\n</tool_call>'),
        (HERMES, "<tool_call>\n{", '"name": "ping", "arguments": {}}\n</tool_call>'),
        (HERMES, '<tool_call>\n{"name": "w', 'eather", "arguments": {"city": ""}}\n</tool_call>'),
        (HERMES, "<think>a",
         '</think><tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'),
        (QWEN3_CODER, "", "<tool_call>\n<function=ping>\n</function>\n</tool_call>"),
        (QWEN3_CODER, "<fun", "ction=ping>\n</function>\n</tool_call>"),
        (QWEN3_CODER, "<tool_call>\n<function=w", f"eather>\n<parameter=city>\n{TAG_END}"),
        (QWEN3_CODER, "<function=ping>\n</f", "unction>\n</tool_call>"),
        (MISTRAL, "", "[TOOL_CALLS]ping[ARGS]{}"),
        (MISTRAL, "[TOOL_CALLS]weather[AR", 'GS]{"city": ""}'),
        (MISTRAL, "[TOOL_CALLS]ping[ARGS]{}", ""),
        (LLAMA3_JSON, "", '{"name": "ping", "parameters": {}}'),
        (LLAMA3_JSON, '\n{"name": "weather", "parameters": {"c', 'ity": ""}}'),
        (LLAMA3_JSON, '{"name": "ping", "parameters": {}', "}"),
        (GENERIC, '<tool_call>\n{"name": "ping", "arguments": {}}\n</to', "ol_call>"),
    ],
)  # fmt: skip
def test_calls_that_are_required(format: Format, text: str, rest: str) -> None:
    assert complete(format, text, PING, CITY) == rest


def test_after_a_call_and_a_line_break_the_turn_may_end() -> None:
    call = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    assert complete(HERMES, call, PING) == ""
    assert complete(HERMES, f"{call}\n", PING) == ""
    assert complete(HERMES, f"{call}\n<", PING) == call[1:]
    assert complete(HERMES, f"{call}\n{call}", PING) == ""
    assert complete(HERMES, call, PING, policy=Policy.named("ping")) == ""


@pytest.mark.parametrize(
    "format", [f for f in FORMATS if f.contents == (Content(),)], ids=lambda f: f.name
)
def test_content_ends_anywhere(format: Format) -> None:
    opener = format.opener.text if format.opener else "{"
    begun = "" if format.tag_heads else opener[:-1]  # text has no head of a tag
    for text in ("", "Hi", "Hi\n" + begun, "Hi {", "{"):
        assert complete(format, text, PING, policy=Policy()) == ""
        assert complete(format, text, PING, policy=Policy(Choice.NONE)) == ""


def test_a_call_behind_content_is_completed() -> None:
    rest = '\n{"name": "ping", "arguments": {}}\n</tool_call>'
    assert complete(HERMES, "Hi\n<tool_call>", PING, policy=Policy()) == rest
    bare = '{"name": "pi'
    assert complete(LLAMA3_JSON, bare, PING, policy=Policy()) == 'ng", "parameters": {}}'


def test_reasoning_is_closed() -> None:
    free, block = Policy(), Policy(think=Think.REQUIRED)
    is_open = State(Start.OPEN)
    assert complete(HERMES, "hm", policy=free, state=is_open) == "</think>"
    assert complete(HERMES, "hm</thi", policy=free, state=is_open) == "nk>"
    assert complete(HERMES, "hm</think>", policy=free, state=is_open) == ""
    assert complete(HERMES, "<think>\nhm", policy=free) == "</think>"
    assert complete(HERMES, "<thi", policy=free) == ""
    assert complete(HERMES, "", policy=block) == "<think></think>"
    assert complete(HERMES, "\n<thi", policy=block) == "nk></think>"
    forbidden = Policy(think=Think.FORBIDDEN)
    assert complete(HERMES, "\n</th", policy=forbidden, state=is_open) == "ink>"
    assert complete(HERMES, "", policy=forbidden, state=State(Start.CLOSED)) == ""
    required = Policy(Choice.REQUIRED, think=Think.REQUIRED)
    call = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    assert complete(HERMES, "<think>a</think>\n\n", PING, policy=required) == call


TREE = {"type": "object", "properties": {"v": {"type": "null"}, "next": {"$ref": "#/$defs/T"}},
        "required": ["v"]}  # fmt: skip
LIST = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/L"}, "minItems": 1}, {"const": 12}]}


@pytest.mark.parametrize(
    ("schema", "value", "rest"),
    [
        (TEXT, "", '""'),
        (TEXT, '"Par', '"'),
        (TEXT, '"a\\', '/"'),
        (TEXT, '"\\u', 'D0aa"'),
        (TEXT, '"\\uD83d', '\\uDCaa"'),
        (TEXT, '"\\ud83d\\uD', 'Caa"'),
        (TEXT, '"\\u12', 'aa"'),
        (TEXT | {"minLength": 3}, '"\\u0041', 'aa"'),
        (TEXT | {"maxLength": 1}, '"日', '"'),
        (TEXT | {"pattern": "^[a-f]{2}-x+$"}, '"f', 'a-x"'),
        (TEXT | {"pattern": "^[a-f]{2}-x+$", "minLength": 6}, "", '"aa-xxx"'),
        (TEXT | {"pattern": '"$'}, "", '"\\""'),
        (TEXT | {"pattern": '^[/"]$'}, '"\\', '""'),
        (TEXT | {"pattern": '^[/"]+$'}, '"/', '"'),
        (TEXT | {"pattern": "^[0-9]/[0-9]$"}, '"1', '/0"'),
        (TEXT | {"pattern": "^\\n[あ-ん]$"}, '"\\', 'nあ"'),
        (TEXT | {"pattern": "^\\p{Lu}\\P{L}$"}, "", '"A0"'),
        (TEXT | {"pattern": "^(?=.*[A-Z])(?!a)[a-zA-Z]{3}$"}, '"b', 'Aa"'),
        (TEXT | {"pattern": "^\\bab\\b.$"}, '"ab', '-"'),
        (TEXT | {"pattern": "^[\\s\\S]{2}$"}, '"\\u00', '22a"'),
        (TEXT | {"format": "date"}, '"2024-02', '-01"'),
        (TEXT | {"format": "uuid"}, '"0123456', 'a-aaaa-aaaa-aaaa-aaaaaaaaaaaa"'),
        ({"type": "integer"}, "", "0"),
        ({"type": "integer"}, "-", "0"),
        ({"type": "integer", "minimum": 12}, "", "12"),
        ({"type": "integer", "minimum": 200, "maximum": 350}, "3", "00"),
        ({"type": "number"}, "1.", "0"),
        ({"type": "number"}, "-1e", "0"),
        ({"type": "number"}, "12", ""),
        ({"type": "number", "exclusiveMinimum": 2, "maximum": 2.5}, "2", ".1"),
        ({"type": "integer", "multipleOf": 7}, "1", "4"),
        ({"type": "integer", "multipleOf": 7, "minimum": 100}, "", "105"),
        ({"type": "number", "multipleOf": 25, "minimum": 1}, "1", "00"),
        ({"type": "integer", "multipleOf": 4, "maximum": -1}, "", "-4"),
        ({"type": ["boolean", "null"]}, "t", "rue"),
        ({"type": ["boolean", "null"]}, "", "true"),
        ({"enum": ["alpha", "al", 10, 1.5, [1, {"k": 2}]]}, '"al', '"'),
        ({"enum": ["alpha", "al", 10, 1.5, [1, {"k": 2}]]}, '"alp', 'ha"'),
        ({"enum": ["alpha", "al", 10, 1.5, [1, {"k": 2}]]}, "1", "0"),
        ({"enum": ["alpha", "al", 10, 1.5, [1, {"k": 2}]]}, '[1, {"', 'k": 2}]'),
        ({"type": "array", "items": TEXT, "minItems": 2}, "", '["", ""]'),
        ({"type": "array", "items": TEXT, "minItems": 2}, '["a', '", ""]'),
        ({"type": "array", "items": TEXT}, '["a",', ' ""]'),
        ({"type": "array", "prefixItems": [{"type": "null"}, TEXT], "items": False}, "[null, ",
         '""]'),
        ({}, '{"a": [1, {"b', '": 0}]}'),
        ({}, '[[], {}, "x", tr', "ue]"),
        ({}, '{"a":', " 0}"),
        ({}, '{"a": 1,', ' "": 0}'),
        ({}, "[-", "0]"),
        ({"$ref": "#/$defs/T"}, '{"v": null, "n', 'ext": {"v": null}}'),
        ({"$ref": "#/$defs/L"}, "", "12"),
        ({"$ref": "#/$defs/L"}, "[[1", "2]]"),
        ({"anyOf": [{"type": "object", "properties": {"k": {"const": "a"}, "x": TEXT},
                     "required": ["k", "x"]},
                    {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]},
         '{"k": "a"', ', "x": ""}'),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "required": ["b"]},
         '{"a": "1"', ', "b": ""}'),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": {"type": "null"}},
         '{"a', '": ""}'),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": {"type": "null"}},
         '{"a": "", ', '"": null}'),
        ({"type": "object", "properties": {"": TEXT}, "additionalProperties": {"type": "null"}},
         '{"": "", "', 'a": null}'),
    ],
)  # fmt: skip
def test_json_values(schema: Any, value: str, rest: str) -> None:
    definitions = {"$defs": {"T": TREE, "L": LIST}}
    one = tool({"v": schema}, required=["v"], **definitions)
    written = f'<tool_call>\n{{"name": "f", "arguments": {{"v": {value}'
    assert complete(HERMES, written, one) == f"{rest}}}{JSON_END}"


@pytest.mark.parametrize(
    ("schema", "value", "rest"),
    [
        (TEXT, "", CLOSE),
        (TEXT, " a <b>\n", "</parameter>"),
        (TEXT, "a\n</para", "meter>"),
        (TEXT, "a\n</parameter>\n<x", CLOSE),
        (TEXT | {"minLength": 3}, "a\n", "\n" + CLOSE),
        (TEXT | {"minLength": 3}, "abc\n</", "parameter>"),
        (TEXT | {"pattern": "^[a-z]+\\n?$"}, "a\n", "</parameter>"),
        (TEXT | {"pattern": "^[a-z]+x$"}, "a", "x" + CLOSE),
        (TEXT | {"enum": ["red", "green"]}, "", "red" + CLOSE),
        (TEXT | {"enum": ["red", "green"]}, "g", "reen" + CLOSE),
        ({"type": "boolean"}, "", "True" + CLOSE),
        ({"type": "boolean"}, "f", "alse" + CLOSE),
        ({"type": "null"}, "n", "ull" + CLOSE),
        ({"type": "integer", "minimum": 20}, "3", "0" + CLOSE),
        ({"type": "number", "multipleOf": 5, "minimum": 0.2}, "", "5" + CLOSE),
        ({"type": "array", "items": {"type": "boolean"}}, "[t", "rue]" + CLOSE),
        ({"type": "object", "properties": {"k": TEXT}, "required": ["k"]}, "", '{"k": ""}' + CLOSE),
        ({"enum": [{"k": [1]}, None]}, '{"', 'k": [1]}' + CLOSE),
        ({"type": ["integer", "string"], "minLength": 3}, "", "0" + CLOSE),
        ({"anyOf": [{"type": "array"}, TEXT | {"minLength": 3}]}, "[1", "]" + CLOSE),
        ({"anyOf": [{"type": "array"}, TEXT | {"pattern": "^[a-z]+$"}]}, "[1", "]" + CLOSE),
        ({"anyOf": [{"enum": ["a", 22]}, TEXT | {"minLength": 3}]}, "2", "2" + CLOSE),
    ],
)  # fmt: skip
def test_raw_values(schema: Any, value: str, rest: str) -> None:
    written = f"<tool_call>\n<function=f>\n<parameter=v>\n{value}"
    end = "\n</function>\n</tool_call>"
    assert complete(QWEN3_CODER, written, tool({"v": schema}, required=["v"])) == rest + end


def test_tagged_arguments_that_are_missing() -> None:
    one = tool({"a": TEXT, "b": {"type": "integer"}, "c": TEXT}, required=["b", "c"])
    head = "<tool_call>\n<function=f>\n"
    b = "<parameter=b>\n0\n</parameter>\n"
    c = "<parameter=c>\n"
    assert complete(QWEN3_CODER, head, one) == b + c + TAG_END
    assert (
        complete(QWEN3_CODER, f"{head}<parameter=a>\nx", one) == f"\n</parameter>\n{b}{c}{TAG_END}"
    )
    assert complete(QWEN3_CODER, f"{head}<parameter=", one) == b[11:] + c + TAG_END
    assert complete(QWEN3_CODER, f"{head}{b}<", one) == c[1:] + TAG_END
    optional = tool({"a": TEXT, "b": TEXT})
    assert (
        complete(QWEN3_CODER, f"{head}<parameter=a>\nx\n</parameter>\n<", optional) == TAG_END[15:]
    )
    opened = f"{head}<parameter=a>\nx\n</parameter>\n<par"
    assert complete(QWEN3_CODER, opened, optional) == TAG_END  # as a part of the text
    free = tool({"a": TEXT}, additionalProperties={"type": "null"})
    assert complete(QWEN3_CODER, f"{head}<parameter=", free) == f"a>\n{TAG_END}"
    assert complete(QWEN3_CODER, f"{head}<parameter=ab", free) == f">\nNone{TAG_END}"


def test_a_tool_of_several_objects() -> None:
    branches = [
        {"type": "object", "properties": {"k": {"const": "a"}, "x": TEXT}, "required": ["k", "x"]},
        {"type": "object", "properties": {"k": {"const": "bb"}}, "required": ["k"]},
    ]
    one = Tool("f", lower({"anyOf": branches}))
    head = "<tool_call>\n<function=f>\n<parameter=k>\n"
    end = TAG_END.removeprefix("\n")
    assert complete(QWEN3_CODER, head, one) == f"bb\n{end}"
    assert complete(QWEN3_CODER, f"{head}a", one) == f"\n</parameter>\n<parameter=x>\n\n{end}"
    assert complete(MISTRAL, '[TOOL_CALLS]f[ARGS]{"k": "', one) == 'bb"}'


def answered(answer: Answer, text: str, *tools: Tool, format: Format = HERMES) -> str | None:
    return complete(format, text, *tools, policy=Policy(answer=answer))


@pytest.mark.parametrize("tools", [(), (PING,)], ids=["alone", "beside tools"])
def test_answers(tools: tuple[Tool, ...]) -> None:
    schema = lower({"type": "object", "properties": {"n": {"type": "integer"}},
                    "required": ["n"]}, only_object=False)  # fmt: skip
    assert answered(JsonAnswer(schema), "", *tools) == '{"n": 0}'
    assert answered(JsonAnswer(schema), "<think>a</think>\n\n{", *tools) == '"n": 0}'
    assert answered(JsonAnswer(schema), '{"n": 1}', *tools) == ""
    assert answered(JsonAnswer(schema), '{"', *tools, format=LLAMA3_JSON) == 'n": 0}'
    assert answered(RegexAnswer("^[a-c]{2}/\\d+$"), "b", *tools) == "a/0"
    assert answered(RegexAnswer("(?:x|<tool_call>)y"), "", *tools) == "xy"
    assert answered(ChoiceAnswer(("yes", "no", "nothing")), "", *tools) == "no"
    assert answered(ChoiceAnswer(("yes", "no", "nothing")), "not", *tools) == "hing"
    assert answered(ChoiceAnswer(("yes", "no")), "<think></think>\n", *tools) == "\nno"
    assert answered(ChoiceAnswer(("<tea>!",)), "<t", *tools) == "ea>!"
    if not tools:  # beside calls, white space is read as that in front of one
        assert answered(ChoiceAnswer(("  b", "<cc>")), "<think></think>\n\n<") == "cc>"
    assert answered(ChoiceAnswer(("  b", "<cc>")), "<think></think>\n\n", *tools) is not None
    long = "a" * 100
    assert answered(ChoiceAnswer((long,)), "", *tools) == long  # rather than a call


def test_what_becomes_of_rare_nodes() -> None:
    both = {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "multipleOf": 2}]}
    one = tool({"v": {"type": "array", "items": both}}, required=["v"])
    head = '[TOOL_CALLS]f[ARGS]{"v": [4, '
    assert complete(MISTRAL, head, one) == "5]}"
    assert complete(MISTRAL, head + "-", one) == "0]}"
    none = tool({"v": {"type": "array", "maxItems": 1}}, required=["v"])
    assert complete(MISTRAL, '[TOOL_CALLS]f[ARGS]{"v": [1', none) == "]}"
    spaced = Format("spaced", (Marker("<c>"), JsonCall()), between="\n", after="\n\n")
    call = '<c>{"name": "ping", "arguments": {}}'
    for end, rest in (("", ""), ("\n", ""), ("\n\n", ""), ("\n<", call[1:])):
        assert complete(spaced, call + end, PING) == rest


def test_what_is_not_known() -> None:
    assert answered(GrammarAnswer('start: "a" | "b"'), "") is None
    wrong = turn_completer(HERMES, [PING], REQUIRED, State())
    assert wrong.complete("no call") is None


def test_a_schema_that_refers_to_itself_may_nest_deeply() -> None:
    tree = tool({"t": {"$ref": "#/$defs/T"}}, required=["t"], **{"$defs": {"T": TREE}})
    deep = '{"t": ' + '{"v": null, "next": ' * 2000
    rest = turn_completer(MISTRAL, [tree], REQUIRED, State()).complete(f"[TOOL_CALLS]f[ARGS]{deep}")
    assert rest == '{"v": null}' + "}" * 2001


def test_any_value_may_nest_without_end() -> None:
    deep = "[TOOL_CALLS]f[ARGS]" + '{"v": ' + "[" * 5000
    assert (
        turn_completer(MISTRAL, [tool({"v": {}})], REQUIRED, State()).complete(deep)
        == "]" * 5000 + "}"
    )


def test_the_separators_of_the_style_are_written() -> None:
    style = JsonStyle(item=",", key=":", ascii=True)
    format = Format("tight", (Marker("<c>"), JsonCall(style=style)))
    one = tool({"é": TEXT, "b": {"const": [1, 2]}}, required=["é", "b"])
    assert complete(format, "", one) == '<c>{"name":"f","arguments":{"é":"","b":[1,2]}}'
    assert complete(format, '<c>{"name":"f","arguments":{"\\u', one) == '00E9":"","b":[1,2]}}'


def test_a_long_turn_is_completed() -> None:
    one = tool({"path": TEXT, "edits": {"type": "array", "items": {"type": "object", "properties": {
        "line": {"type": "integer", "minimum": 1}, "text": TEXT}, "required": ["line", "text"]}}},
        required=["path", "edits"])  # fmt: skip
    edit = '{"line": 12, "text": "x = [\\"y\\"] * 3 + z  # so"}'
    text = '[TOOL_CALLS]f[ARGS]{"path": "a.py", "edits": [' + ", ".join([edit] * 400) + ', {"line'
    completer = turn_completer(MISTRAL, [one], REQUIRED, State())
    assert completer.complete(text) == '": 1, "text": ""}]}'
