"""Values between tags that may be text, an object or a list: which one has to be plain."""

from typing import Any

import pytest

from constrained.inspect.replay.check import check_rows
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import RenderError
from grammars.parse.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire.format import find_named
from grammars.wire.formats import FORMATS
from tests.templates import tool

TEXTS = ("qwen3_coder", "glm45", "minicpm5")
SHORT = {"type": ["string", "object"], "maxLength": 2}
ENDING = {"type": ["string", "array"], "pattern": "b$"}
FREE = {"type": ["string", "object"]}


def check(name: str, schema: dict[str, Any], value: Any) -> tuple[bool, Any]:
    """Does the grammar take the call, and what is read?"""
    offered = tool("f", {"a": schema})
    format = find_named(name, FORMATS)
    assert format is not None
    text = render(Turn(calls=(ToolCall("f", {"a": value}),)), format)
    (row,) = check_rows([{"id": 1, "format": name, "tools": [offered], "text": text}])
    return row["accepted"], [call["arguments"]["a"] for call in row["tool_calls"]]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        (SHORT, {"a": "longer than the text"}, True),
        (SHORT, {}, True),
        (SHORT, "ab", True),
        (SHORT, "{a", False),
        (ENDING, ["a", "bb", "c"], True),
        (ENDING, "ab", True),
        (ENDING, "[b", False),
        (FREE, {"a": "x"}, True),
        (FREE, "[x", True),
    ],
)
def test_an_object_is_no_bounded_text(name: str, schema: Any, value: Any, accepted: bool) -> None:
    assert check(name, schema, value) == (accepted, [value])


def test_what_cannot_be_written_is_not_rendered() -> None:
    format = find_named("qwen3_coder", FORMATS)
    assert format is not None
    tools = read_tools([tool("f", {"a": SHORT})])
    with pytest.raises(RenderError, match="cannot begin like one"):
        render(Turn(calls=(ToolCall("f", {"a": "{a"}),)), format, tools)
