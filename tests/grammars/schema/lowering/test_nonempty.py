"""Required strings that are not empty."""

from typing import Any

import pytest

from constrained.prompt.tools.offer import read_offer
from constrained.prompt.tools.shapes import read_tools
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.schema.lowering.tool_options import require_nonempty
from grammars.schema.nodes import Node, Object, Reference, String
from grammars.turn import Policy, State, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import hermes_call, tool

EDIT = tool(
    "edit",
    {
        "path": {"type": "string"},
        "comment": {"type": "string"},
        "kind": {"enum": ["", "a"]},
        "mode": {"const": ""},
        "more": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"x": {"type": ["string", "null"]}},
                "required": ["x"],
            },
        },
    },
    required=["path", "kind", "mode"],
)
FINE: dict[str, Any] = {"path": "p", "comment": "", "kind": "a", "mode": ""}


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_the_mask_holds_it_in_every_format(format: Format) -> None:
    loose = Masked(format, read_tools([EDIT]), Policy.named("edit"), State(), False)
    tight = Masked(
        format, read_offer([EDIT], nonempty=True).tools, Policy.named("edit"), State(), False
    )

    def write_call(arguments: dict[str, Any]) -> str:
        calls = (ToolCall("edit", arguments, id="abcdefghi"),)
        return render(Turn(calls=calls), format, state=State(), tools=read_tools([EDIT]))

    for arguments in (FINE, FINE | {"more": [{"x": "y"}, {"x": None}]}):
        assert loose.accepts(write_call(arguments))
        assert tight.accepts(write_call(arguments))
    for arguments in (FINE | {"path": ""}, FINE | {"kind": ""}, FINE | {"more": [{"x": ""}]}):
        assert loose.accepts(write_call(arguments))
        assert not tight.accepts(write_call(arguments))


def test_definitions_are_tightened_where_they_are_required() -> None:
    text = {"type": "string"}
    source = {
        "type": "object",
        "$defs": {"text": text, "node": {"$ref": "#", "title": "a"}},
        "properties": {
            "a": {"$ref": "#/$defs/text"},
            "b": {"$ref": "#/$defs/text"},
            "c": {"$ref": "#/$defs/node"},
        },
        "required": ["a"],
    }
    schema = require_nonempty(lower(source))
    assert isinstance(schema.node, Object)
    nodes = {p.key: p.node for p in schema.node.properties}

    def resolve(node: Node) -> Node:
        return resolve(schema.definitions[node.name]) if isinstance(node, Reference) else node

    assert resolve(nodes["a"]) == String(1)
    assert resolve(nodes["b"]) == String()
    inner = resolve(nodes["c"])
    assert isinstance(inner, Object)
    assert resolve(inner.properties[0].node) == String(1)
    assert len(schema.definitions) == len(lower(source).definitions) + 1


def test_lengths_and_patterns_stay() -> None:
    texts = {
        "a": {"type": "string", "minLength": 3, "maxLength": 5},
        "b": {"type": "string", "maxLength": 0},
        "c": {"type": "string", "pattern": "^x*$"},
    }
    source = {"type": "object", "properties": texts, "required": [*texts]}
    schema = require_nonempty(lower(source))
    assert isinstance(schema.node, Object)
    a, b, c = (p.node for p in schema.node.properties)
    assert (a, b) == (String(3, 5), String(0, 0))
    assert isinstance(c, String)
    assert c.min_length == 1


def test_the_option_reaches_the_mask() -> None:
    call = hermes_call("edit", '{"path": "", "kind": "a", "mode": ""}')
    with scripted(call) as model:
        (made,) = model.call("Hi", [EDIT]).calls
        assert made.arguments["path"] == ""
        (made,) = model.call("Hi", [EDIT], require_nonempty=True).calls
        assert made.arguments["path"] != ""


def test_the_command_line(run: Run, tmp_path: Any) -> None:
    path = write(tmp_path / "tools.json", [EDIT])
    _, loose, _ = run("grammar", "--tools", path, "--format", "hermes")
    code, tight, _ = run("grammar", "--tools", path, "--format", "hermes", "--require-nonempty")
    assert code == 0
    assert loose != tight
