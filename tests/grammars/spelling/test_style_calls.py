"""Calls whose values are written in another style than JSON: rendered, held, parsed, completed."""

import functools
import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from grammars.errors import RenderError, SchemaError
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import are_same
from grammars.spelling.value_reader import FaultError, ValueReader
from grammars.turn import ArgumentsDelta, Policy, State, Tool, ToolCall, Turn, collect
from grammars.wire.format import (
    Format,
    JsonArguments,
    JsonStyle,
    Literal,
    Marker,
    Name,
    TaggedArguments,
)
from grammars.wire.formats import FORMATS as REGISTERED
from tests.agreement.matching import Masked
from tests.grammars.spelling.json_styles import GEMMA, PRETTY, PYTHON, is_writable
from tests.turn_completer import turn_completer
from tests.turn_strategies import Case, cases, chunkings

TAGS = TaggedArguments(
    "<parameter=",
    ">",
    "</parameter>\n",
    "</function>\n",
    PYTHON.true,
    PYTHON.false,
    PYTHON.null,
    PYTHON,
)
FORMATS = {
    "gemma": Format(
        "gemma",
        (Marker("<|call>"), Literal("call:"), Name(), JsonArguments(GEMMA), Marker("<call|>")),
    ),
    "seed": Format(
        "seed",
        (Marker("<seed>"), Literal("\n<function="), Name(), Literal(">\n"), TAGS,
         Marker("</seed>")),
        between="\n",
    ),
    "python": Format(
        "python",
        (Marker("<call>"), Name(), JsonArguments(PYTHON), Marker("</call>")),
    ),
    "pretty": Format(
        "pretty",
        (Marker("<call>"), Literal('{"name": "'), Name(), Literal('", "arguments": '),
         JsonArguments(PRETTY), Literal("}"), Marker("</call>")),
    ),
}  # fmt: skip
FEW = settings(suppress_health_check=list(HealthCheck), max_examples=15)


@pytest.mark.parametrize("name", FORMATS)
@FEW
@given(data=st.data())
def test_calls_in_other_styles(name: str, data: st.DataObject) -> None:
    format = FORMATS[name]
    case: Case = data.draw(cases(format))
    if name == "gemma":
        assume(all(is_writable(call.arguments, GEMMA) for call in case.turn.calls))
    turn = parse(case.text, format, case.tools, case.state)
    assert turn.content == case.turn.content
    assert [c.name for c in turn.calls] == [c.name for c in case.turn.calls]
    for read, written in zip(turn.calls, case.turn.calls, strict=True):
        assert are_same(read.arguments, written.arguments)
        assert not read.errors
    try:
        held = Masked(format, case.tools, case.policy, case.state)
    except SchemaError:
        return
    completer = turn_completer(format, case.tools, case.policy, case.state)
    for cut in data.draw(st.lists(st.integers(0, len(case.text)), max_size=8, unique=True)):
        text = case.text[:cut]
        if held.prefix(text) == text:
            rest = completer.complete(text)
            assert rest is not None, (text, held.grammar)
            assert held.accepts(text + rest), (text, rest, held.grammar)


@pytest.mark.parametrize("name", FORMATS)
@FEW
@given(data=st.data())
def test_arguments_are_told_as_json_while_they_arrive(name: str, data: st.DataObject) -> None:
    case: Case = data.draw(cases(FORMATS[name]))
    if name == "gemma":
        assume(all(is_writable(call.arguments, GEMMA) for call in case.turn.calls))
    parser = Parser(case.format, case.tools, case.state, stream=True)
    events = [e for piece in data.draw(chunkings(case.text)) for e in parser.feed(piece)]
    told: dict[int, str] = {}
    for event in [*events, *parser.close()]:
        if isinstance(event, ArgumentsDelta):
            told[event.index] = told.get(event.index, "") + event.text
    assert len(told) == len(case.turn.calls)
    for index, call in enumerate(case.turn.calls):
        assert are_same(json.loads(told[index]), call.arguments)


def tell(style: JsonStyle, pieces: list[str]) -> list[str]:
    """What is certain after each piece."""
    reader = ValueReader(style)
    told: list[str] = []
    for piece in pieces:
        reader.feed(piece)
        told.append(reader.json)
    return told


def test_raw_strings_are_told_as_they_come() -> None:
    pieces = ["{ci", "ty", ":<|", '"|>Par<', 'is<|"', "|>,n", ":1", "2,b:[No", "ne,tr", "ue]", "}"]
    assert tell(GEMMA, pieces) == [
        "{", "", '"city": ', '"Par', "<is", '", ', '"n": ', '12, "b": [', "null, ", "true]", "}"
    ]  # fmt: skip


def test_strings_of_python_are_told_as_they_come() -> None:
    pieces = ["{'a", "\\", "x4", "1\\u00", 'e9"', "\\'': ", "Tr", "ue, '\\U0001", "f642", "': 1}"]
    assert tell(PYTHON, pieces) == [
        '{"a', "", "", "\\u0041\\u00", 'e9\\"', "'\": ", "", 'true, "', "\\ud83d\\ude42", '": 1}'
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["{a:nix,", "{a:NaN,", "{a:01,"])
def test_what_is_no_value_of_gemma_is_told_early(text: str) -> None:
    reader = ValueReader(GEMMA)
    assert reader.feed(text[:-1]) is None
    with pytest.raises(FaultError) as error:
        reader.feed(",")
    assert error.value.offset == 0


@pytest.mark.parametrize(
    ("name", "text", "rest"),
    [
        ("gemma", '<|call>call:f{a:<|"|>b<|"|>,c{}}<call|>Hi', "{}}<call|>Hi"),
        ("gemma", "<|call>call:f{a:1}<call|><|call>call:f{a:nix,b:1}<call|>", ",b:1}<call|>"),
        ("python", "<call>f{'a': '\\q', 'b': nix}</call>Hi", "}</call>Hi"),
        ("python", "<call>f{'a': '\\q', 'b': 1}</call>Hi", "</call>Hi"),
    ],
)
def test_where_a_call_is_none_does_not_depend_on_the_pieces(
    name: str, text: str, rest: str
) -> None:
    for size in range(1, len(text) + 1):
        parser = Parser(FORMATS[name], [Tool("f", lower({}))], stream=True)
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        events = [event for piece in pieces for event in parser.feed(piece)]
        assert collect([*events, *parser.close()]).content == rest


def test_a_string_that_contains_its_quote_is_not_rendered() -> None:
    for arguments in ({"a": ['<|"|>']}, {"a": {"b:": 1}}):
        with pytest.raises(RenderError) as error:
            render(Turn(calls=(ToolCall("f", arguments),)), FORMATS["gemma"])
        assert error.value.where == "/calls/0/arguments"


@functools.cache
def hold_strings(name: str, schema: str) -> tuple[Masked, list[Tool]]:
    """A tool with two such strings, an argument and a member of one, and its mask."""
    text = {"type": "string", **json.loads(schema)}
    inner = {"type": "object", "properties": {"s": text}, "required": ["s"]}
    whole = {"type": "object", "properties": {"s": text, "o": inner}, "required": ["o"]}
    tools = [Tool("f", lower(whole))]
    format = next(f for f in REGISTERED if f.name == name)
    return Masked(format, tools, Policy(), State()), tools


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(?!a$).*$"},
        {"pattern": "^[^\\n'a-z]*$"},
        {"not": {"enum": ["a", "\x01", "é", "😀'"]}, "minLength": 1},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("name", ["seed_oss", "minicpm5", "lfm2"])
@FEW
@given(text=st.text("\0\x01\x1f\x7f\x85\xadé\u2028\ue000😀'\"\\\n aZ", max_size=4))
def test_what_is_rendered_fits_as_its_strings_do(
    name: str, schema: dict[str, Json], text: str
) -> None:
    held, tools = hold_strings(name, json.dumps(schema))
    for arguments in ({"o": {"s": text}}, {"s": text, "o": {"s": text}}):
        written = render(Turn(calls=(ToolCall("f", arguments),)), held.format, tools)
        (call,) = parse(written, held.format, tools).calls
        assert call.arguments == arguments
        fits = tools[0].schema.admits(arguments)
        assert call.valid == fits
        assert held.accepts(written) == fits, (written, held.grammar)
