"""Declared keys in any order, in every format, or in that of the schema."""

from itertools import permutations
from typing import Any

import pytest

from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import RequestError
from constrained.model.compile.grammar_compiler import GrammarCompiler, GrammarSource
from constrained.prompt.tools.shapes import read_tools
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.schema.members import MAX_BITS
from grammars.turn import Choice, ChoiceAnswer, KeyOrder, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.ir.completion import Completer
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS, HERMES, QWEN3_CODER
from tests.agreement.matching import Masked
from tests.command_line import Run
from tests.command_line import write as write_file
from tests.scripted_model import scripted
from tests.templates import hermes_call, tool
from tests.turn_completer import turn_completer

EACH = pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["y"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "integer"},
        "at": POINT,
        "mode": {"type": ["string", "null"]},
    },
    "required": ["lines", "path"],
}
VALUES = {"path": "a/b.py", "lines": 3, "at": {"y": 1, "x": 2}, "mode": "w"}
OPEN = {**SCHEMA, "additionalProperties": {"type": "integer"}}
TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}},
    "required": ["v"],
}


def write(format: Format, arguments: dict[str, Any], offered: Tool) -> str:
    return render(Turn(calls=(ToolCall(offered.name, arguments),)), format, [offered])


def make(format: Format, schema: Any, order: KeyOrder = KeyOrder.ANY) -> tuple[Tool, Masked]:
    made = Tool("f", lower(schema))
    policy = Policy(Choice.REQUIRED, key_order=order)
    return made, Masked(format, [made], policy, State(), True)


def pick(*keys: str, **extra: Any) -> dict[str, Any]:
    return {key: VALUES[key] for key in keys} | extra


@EACH
def test_all_orders_are_taken_and_read_back(format: Format) -> None:
    offered, grammar = make(format, SCHEMA)
    for count in range(len(VALUES) + 1):
        for keys in permutations(VALUES, count):
            text = write(format, pick(*keys), offered)
            assert grammar.accepts(text) == ({"path", "lines"} <= {*keys}), text
            if grammar.accepts(text):
                assert parse(text, format, [offered]).calls[0].arguments == pick(*keys)


@EACH
def test_schema_order_on_demand(format: Format) -> None:
    offered, grammar = make(format, SCHEMA, KeyOrder.SCHEMA)
    taken = [
        keys
        for keys in permutations(VALUES)
        if grammar.accepts(write(format, pick(*keys) | {"at": {"x": 2, "y": 1}}, offered))
    ]
    is_sorted = format.hole.style.sorted_keys  # so the renderer writes all in one order
    assert taken == (list(permutations(VALUES)) if is_sorted else [tuple(VALUES)])


@EACH
def test_undeclared_keys_stand_anywhere_and_trap_nobody(format: Format) -> None:
    offered, grammar = make(format, OPEN)
    for arguments in (
        {"zz": 1, **pick("lines"), "z": 2, **pick("path", "mode"), "Z": 3},
        {**pick("mode", "path"), "pathx": 1, **pick("lines")},
        pick("lines", "path"),
    ):
        assert grammar.accepts(write(format, arguments, offered)), arguments
    assert not grammar.accepts(write(format, {"zz": 1, **pick("lines", "mode"), "z": 2}, offered))


@EACH
def test_recursive_objects(format: Format) -> None:
    offered, grammar = make(format, TREE)
    tree = {"left": {"right": {"v": 1}, "v": 2, "left": {"v": 3}}, "right": {"v": 4}, "v": 5}
    assert grammar.accepts(write(format, tree, offered))
    assert not grammar.accepts(write(format, {"left": {"v": 1}}, offered))


@EACH
@pytest.mark.parametrize("schema", [SCHEMA, OPEN], ids=["closed", "open"])
def test_what_is_written_is_not_written_again(format: Format, schema: Any) -> None:
    offered, grammar = make(format, schema)
    completer = turn_completer(format, [offered], Policy(Choice.REQUIRED), State(), grammar.ids)
    text = write(format, pick("mode", "at", "path", "lines"), offered)
    for at in range(len(text)):
        if len(grammar.prefix(text[:at])) < at:
            continue
        rest = completer.complete(text[:at])
        assert rest is not None
        assert grammar.accepts(text[:at] + rest), (text[:at], rest)


def test_a_key_is_written_once_and_the_last_one_is_forced() -> None:
    _, grammar = make(HERMES, {**SCHEMA, "required": list(VALUES)})
    start = '<tool_call>\n{"name": "f", "arguments": '
    written = start + '{"mode": null, "lines": 3, "at": {"y": 2}'
    matcher = grammar.matcher.fork()
    for token in grammar.encode(written):
        matcher.commit(token)
    forced = grammar.vocabulary.text(matcher.forced()).decode()
    assert forced == ', "path": "'
    assert grammar.prefix(written + ', "mode"') == written + ', "'


def make_many(keys: int, required: int, **keywords: Any) -> dict[str, Any]:
    """A schema of so many keys, the last of which are required."""
    properties = {f"k{i}": {"type": "boolean"} for i in range(keys)}
    asked = list(properties)[keys - required :]
    return {"type": "object", "properties": properties, "required": asked, **keywords}


@pytest.mark.parametrize("format", [HERMES, QWEN3_CODER], ids=lambda f: f.name)
@pytest.mark.parametrize("keys", [MAX_BITS + 1, 500])
@pytest.mark.parametrize(
    "others", [{}, {"additionalProperties": True}, {"patternProperties": {"^x-": {}}}], ids=str
)
def test_objects_of_many_keys_take_any_order(
    format: Format, keys: int, others: dict[str, Any]
) -> None:
    schema = make_many(keys, 5, **others)
    offered, grammar = make(format, schema)
    arguments = dict.fromkeys(["k0", "k7", f"k{keys - 6}", *schema["required"]], True)
    for names in (arguments, [*reversed(arguments)], sorted(arguments)):
        assert grammar.accepts(write(format, dict.fromkeys(names, True), offered))
    twice = write(format, arguments, offered).replace("k7", "k0")
    assert not grammar.accepts(twice)
    del arguments[schema["required"][2]]
    assert not grammar.accepts(write(format, arguments, offered))
    assert not offered.schema.report.narrowed


def test_objects_of_many_required_keys_keep_the_order_of_the_schema() -> None:
    for required, taken in ((MAX_BITS, True), (MAX_BITS + 1, False)):
        offered, grammar = make(HERMES, make_many(required + 1, required))
        arguments = dict.fromkeys([f"k{i}" for i in range(required + 1)], True)
        assert grammar.accepts(write(HERMES, arguments, offered))
        backwards = dict(reversed(arguments.items()))
        assert grammar.accepts(write(HERMES, backwards, offered)) == taken
        narrowed = [finding.keyword for finding in offered.schema.report.narrowed]
        assert narrowed == ([] if taken else ["required"])


def test_objects_of_many_keys_can_be_ended() -> None:
    schema = make_many(100, 10)
    offered, grammar = make(HERMES, schema)
    text = write(HERMES, dict.fromkeys(["k99", "k3", *schema["required"]], True), offered)
    completer = turn_completer(HERMES, [offered], Policy(Choice.REQUIRED), State(), grammar.ids)
    for at in range(0, len(text), 15):
        rest = completer.complete(text[:at])
        assert rest is not None
        assert grammar.accepts(text[:at] + rest), (text[:at], rest)


TOOL = tool("move", {"x": {"type": "integer"}, "y": {"type": "integer"}}, required=["x", "y"])


def test_the_option_reaches_the_mask() -> None:
    with scripted(hermes_call("move", '{"y": 1, "x": 2}')) as model:
        (made,) = model.call("Hi", [TOOL]).calls
        assert list(made.arguments.items()) == [("y", 1), ("x", 2)]
        (made,) = model.call("Hi", [TOOL], key_order=KeyOrder.SCHEMA).calls
        assert list(made.arguments) == ["x", "y"]
        with pytest.raises(RequestError, match="key_order is 'no'"):
            model.call("Hi", [TOOL], key_order="no")


def test_the_command_line(run: Run, tmp_path: Any) -> None:
    path = write_file(tmp_path / "tools.json", [TOOL])
    words = ["grammar", "--tools", path, "--format", "hermes"]
    assert "::_:" in run(*words)[1]
    code, in_order, _ = run(*words, "--key-order", "schema")
    assert code == 0
    assert "::_:" not in in_order


def test_grammars_are_built_once_for_the_same_tools() -> None:
    compiler = GrammarCompiler(byte_vocabulary(), ())

    def find(tools: list[Any], policy: Policy) -> Completer:
        source = GrammarSource(HERMES, tools=read_tools(tools), policy=policy, state=State())
        return compiler.find_completer(source)

    first = find([TOOL], Policy())
    assert find([TOOL], Policy()) is first
    loose = [{"type": "function", "function": {**TOOL["function"], "strict": False}}]
    assert find(loose, Policy()) is find(loose, Policy())
    in_order = Policy(key_order=KeyOrder.SCHEMA)
    assert first not in [find([TOOL], policy) for policy in (in_order, Policy.named("move"))]
    assert find([TOOL], Policy()) is first
    answer = Policy(answer=ChoiceAnswer(("a", "b")))
    assert find([], answer) is not find([], answer)
