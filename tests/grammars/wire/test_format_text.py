"""Formats as text: what is dumped is loaded again, and what is no format is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import FormatError
from grammars.wire.format import (
    CallId,
    CallIndex,
    Content,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    Reasoning,
    Several,
    TaggedArguments,
)
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import FORMATS, HERMES, MISTRAL

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SPELLINGS = st.lists(TEXTS, min_size=1, max_size=2).map(tuple)
STYLES = st.builds(
    JsonStyle, item=TEXTS, ascii=st.booleans(), indent=st.integers(0, 8), true=SPELLINGS
)
LITERALS, MARKERS = st.builds(Literal, TEXTS), st.builds(Marker, TEXTS)
IDS = st.builds(CallId, st.sampled_from(["[a-z]{9}", "[0-9]+"])) | st.builds(
    CallIndex, st.integers(0, 3), TEXTS
)
HOLES = (
    st.builds(JsonCall, name_key=TEXTS, style=STYLES, id=st.none() | IDS, id_first=st.booleans())
    | st.builds(JsonArguments, STYLES)
    | st.builds(
        TaggedArguments,
        *[TEXTS] * 4,
        true=SPELLINGS,
        style=STYLES,
        empty=st.none() | TEXTS,
        kinds=st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    )
)
NODES = st.lists(LITERALS | MARKERS | IDS | st.just(Name()), max_size=3)
FORMATS_OF_ANY_KIND = st.builds(
    Format,
    name=TEXTS,
    opening=st.tuples(MARKERS, LITERALS) | st.tuples(MARKERS),
    call=st.tuples(NODES, HOLES).map(lambda parts: (*parts[0], parts[1])),
    closing=st.lists(LITERALS | MARKERS, max_size=2).map(tuple),
    reasoning=st.none() | st.builds(Reasoning, MARKERS, MARKERS, TEXTS),
    contents=st.lists(st.builds(Content, TEXTS, TEXTS, st.booleans()), max_size=2).map(tuple),
    between=TEXTS,
    ends=st.lists(TEXTS, max_size=2).map(tuple),
    single=st.booleans(),
)


@given(FORMATS_OF_ANY_KIND)
@settings(max_examples=100)
def test_what_is_dumped_is_loaded_again(format: Format) -> None:
    text = dump_format(format)
    assert load_format(text) == format
    assert dump_format(load_format(text)) == text


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_the_registered_formats(format: Format) -> None:
    assert load_format(dump_format(format)) == format


def test_how_several_calls_are_written() -> None:
    several = Several((Marker("<calls>"), Literal("[")), (Literal("]"),), between=", ")
    format = Format("f", (Marker("<call>"), JsonCall()), several=several)
    assert load_format(dump_format(format)) == format
    for other in (replace(several, opening=()), replace(several, opening=several.opening[1:])):
        with pytest.raises(TypeError, match="a marker opens several calls"):
            replace(format, several=other)
    with pytest.raises(TypeError, match="differ only between markers"):
        replace(format, single=True)


def test_the_text_is_short_and_has_a_node_a_line() -> None:
    assert dump_format(MISTRAL) == (
        "{\n"
        '  "node": "Format",\n'
        '  "name": "mistral",\n'
        '  "call": [\n'
        '    {"node": "Marker", "text": "[TOOL_CALLS]"},\n'
        '    {"node": "Name"},\n'
        '    {"node": "Marker", "text": "[ARGS]"},\n'
        '    {"node": "JsonArguments"}\n'
        "  ],\n"
        '  "reasoning": {"node": "Reasoning", "opener": {"node": "Marker", "text": "[THINK]"}, '
        '"closer": {"node": "Marker", "text": "[/THINK]"}},\n'
        '  "ends": ["</s>"]\n'
        "}\n"
    )


def changed(**members: Any) -> str:
    return json.dumps({**json.loads(dump_format(HERMES)), **members})


ARGUMENTS = {"node": "JsonArguments"}
TAG = {"node": "Marker", "text": "<a>"}
TAGGED = {"node": "TaggedArguments", "open": "", "after_key": "", "close": "", "end": ""}


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("{", "", "not JSON"),
        ("[]", "", "is not an object"),
        (changed(node="Name"), "/node", "'Name' is not Format"),
        (changed(call={}), "/call", "is not a list"),
        (changed(call=[TAG]), "/call", "no place for arguments"),
        (changed(call=[{"node": "Literal", "text": "a"}, ARGUMENTS]), "", "open with a marker"),
        (changed(call=[{"node": "Literal"}]), "/call/0", "no 'text'"),
        (changed(call=[TAG, {"node": "Content"}]), "/call/1/node", "'Content' is not"),
        (changed(call=[TAG, {"node": "CallId", "pattern": "["}]), "/call/1", "unterminated"),
        (changed(call=[TAG, 3]), "/call/1", "3 is not"),
        (changed(before=1), "/before", "1 is not a text"),
        (
            changed(content_places=["under"]),
            "/content_places/0",
            "'under' is not before or after or inside",
        ),
        (changed(content_places=[]), "", "no place for content"),
        (changed(single=1), "/single", "not true or false"),
        (changed(ends=["a", None]), "/ends/1", "None is not a text"),
        (changed(reasoning="<a>"), "/reasoning", "'<a>' is not Reasoning or null"),
        (changed(**{"a/b": 1}), "/a~1b", "not a field"),
        (changed(call=[{**TAG, "x": 1}]), "/call/0/x", "not a field"),
        (changed(before={}), "/before", "{} is not a text"),
        (changed(call=[{**TAGGED, "empty": {}}]), "/call/0/empty", "{} is not a text or null"),
        (
            changed(call=[{**ARGUMENTS, "style": {"node": "JsonStyle", "indent": True}}]),
            "/call/0/style/indent",
            "True is not an integer",
        ),
        (
            changed(
                call=[
                    {"node": "TaggedArguments", "open": "", "after_key": "", "close": "", "end": ""}
                    | {"kinds": [["string"]]}
                ]
            ),
            "/call/0/kinds/0",
            "1 items instead of 2",
        ),
    ],
)
def test_what_is_no_format_is_refused(text: str, where: str, message: str) -> None:
    with pytest.raises(FormatError) as info:
        load_format(text)
    assert info.value.where == where
    assert message in info.value.message
