"""Names that every format can write, and results that lose nothing."""

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import types

from constrained.agent.mcp.results import McpResult
from constrained.agent.mcp.servers import MAX_NAME_LENGTH, name_tools
from constrained.prompt.tools.execution import format_result
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS

TOOLS = st.tuples(st.none() | st.text(max_size=40), st.text(max_size=80))


@given(st.lists(TOOLS, max_size=8))
@example([(None, "a.b"), (None, "a/b"), (None, "a b"), (None, "1")])
@example([(None, "a"), (None, "all")])
@example([("a", "b__c"), ("a__b", "c"), ("x" * 70, "y"), ("x" * 70, "z")])
def test_names(tools: list[tuple[str | None, str]]) -> None:
    names = name_tools(tools)
    assert len(set(names)) == len(tools)
    for name in names:
        assert re.fullmatch(rf"[A-Za-z_]\w{{0,{MAX_NAME_LENGTH - 1}}}", name, re.ASCII)
        for format in FORMATS:
            if not begins_content(format, name):
                find_kind(format).check_name(name)


def begins_content(format: Format, name: str) -> bool:
    """Functionary v3.2 writes `all` before content, in the place of a name. A tool of such a name
    is refused, with its name."""
    return format.name == "functionary_v32" and "all".startswith(name)


def text_of(*blocks: Any, structured: Any = None) -> str:
    return format_result(McpResult(blocks, structured))


def test_results() -> None:
    text = types.TextContent(text="Hello.")
    assert text_of(text) == "Hello."
    assert text_of(structured={"a": [1, "ä"]}) == '{"a": [1, "ä"]}'
    assert text_of(structured={"found": []}) == '{"found": []}'
    assert text_of(text, structured={"found": {}}) == 'Hello.\n{"found": {}}'
    assert text_of(text, structured={"said": "Hello."}) == "Hello."
    assert text_of(text, structured={"said": "Bye."}) == 'Hello.\n{"said": "Bye."}'
    quoted = types.TextContent(text='{"a": "x\\ny", "b": true}')
    assert text_of(quoted, structured={"a": "x\ny", "b": True}) == quoted.text
    link = types.ResourceLink(uri="file:///a", name="a", description="An a.")
    assert text_of(link) == "[resource file:///a (a): An a.]"
    inner = types.TextResourceContents(uri="file:///b", text="B")
    assert text_of(types.EmbeddedResource(resource=inner)) == "[file:///b]\nB"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_no_result(number: float) -> None:
    text = types.TextContent(text=f"{number}")
    with pytest.raises(ValueError, match="JSON"):
        McpResult([text], {"degrees": [number]})


@given(st.lists(st.binary(max_size=9), max_size=3))
def test_media(files: list[bytes]) -> None:
    blocks: list[Any] = []
    for data in files:
        encoded = base64.b64encode(data).decode()
        contents = types.BlobResourceContents(uri="file:///c", blob=encoded, mime_type="x/y")
        blocks.append(types.EmbeddedResource(resource=contents))
    read = McpResult(blocks)
    assert [one.data for one in read.media] == files
    assert read.text.count("[file, x/y, ") == len(files)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(JSON_VALUES)
def test_what_a_server_says_twice_is_read_once(value: Any) -> None:
    """A server should send a structured value as text, too."""
    if value is None:
        return
    for ascii in (False, True):
        text = json.dumps(value, ensure_ascii=ascii)
        assert text_of(types.TextContent(text=text), structured=value) == text
