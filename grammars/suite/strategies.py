"""Hypothesis strategies for tools, calls and turns, and for damage to the text of a turn."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, cast

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from grammars.errors import Error
from grammars.parse.render import render
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.suite.reading import KEYS, WORDS
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import CallId, Format, JsonCall

NAMES = ("get_weather", "write", "f", "set-light", "name")
_PIECES = (
    *WORDS,
    *" |\n|\"|\\|<|>|{|}|é|日本|🙂|</|<b>|&|'|:|,|\t|0|true|null|[]|```|$".split("|"),
)
_INTEGERS = st.integers(-20, 20) | st.integers(-(10**15), 10**15)
# Eighths have the same digits in every language.
_NUMBERS = _INTEGERS | st.integers(-800, 800).map(lambda n: n / 8)

TEXTS: SearchStrategy[str] = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(_PIECES), max_size=8
).map("".join)
"""Text with words that no format writes, and characters that are easily misread."""

_PLAIN = TEXTS.map(str.strip).filter(bool)
_PROPERTIES: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": ["string", "null"]},
    {"type": "string", "enum": ["zorn", "kvelp <woxam>", "5"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "object", "properties": {"note": {"type": "string"}, "days": {"type": "integer"}}},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
)


def make_tool(name: str, schema: Json) -> Tool:
    return _make_tool(name, json.dumps(schema))


@lru_cache(maxsize=4096)
def _make_tool(name: str, schema: str) -> Tool:
    return Tool(name, lower(json.loads(schema)))


@st.composite
def tools(draw: DrawFn) -> tuple[Tool, ...]:
    """Draws one to three tools with a few arguments of common types, mostly text."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return tuple(make_tool(name, draw(_tool_schemas())) for name in names)


@st.composite
def _tool_schemas(draw: DrawFn) -> dict[str, Any]:
    fewest = draw(st.sampled_from([0, 1, 1]))
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=fewest, max_size=3, unique=True))
    properties: dict[str, Any] = {}
    for key in keys:
        properties[key] = draw(st.just(_PROPERTIES[0]) | st.sampled_from(_PROPERTIES))
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in keys if draw(st.booleans())],
        "additionalProperties": False,
    }


def values(schema: Any, texts: SearchStrategy[str] = TEXTS) -> SearchStrategy[Any]:
    """Draws values of a schema of plain types, `enum`, `const` and `anyOf`. Other keywords are
    ignored: filter by `Schema.admits` if there are any."""
    if not isinstance(schema, dict) or not schema:
        return texts | _INTEGERS
    members = cast(dict[str, Any], schema)
    if "const" in members:
        return st.just(members["const"])
    if "enum" in members:
        return st.sampled_from(members["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in members:
            return st.one_of([values(branch, texts) for branch in members[keyword]])
    default = "object" if "properties" in members else "string"
    types: Any = members.get("type", default)
    if isinstance(types, str):
        types = [types]
    return st.one_of([_of_type(type, members, texts) for type in types])


def _of_type(type: str, schema: dict[str, Any], texts: SearchStrategy[str]) -> SearchStrategy[Any]:
    match type:
        case "object":
            return _objects(schema, texts)
        case "array":
            return st.lists(values(schema.get("items", {}), texts), max_size=3)
        case "integer":
            return _INTEGERS
        case "number":
            return _NUMBERS.filter(math.isfinite)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case _:
            return texts


def _objects(schema: dict[str, Any], texts: SearchStrategy[str]) -> SearchStrategy[Any]:
    required: dict[str, SearchStrategy[Any]] = {}
    optional: dict[str, SearchStrategy[Any]] = {}
    for key, member in schema.get("properties", {}).items():
        members = required if key in schema.get("required", ()) else optional
        members[key] = values(member, texts)
    return st.fixed_dictionaries(required, optional=optional)


def calls(tools: Sequence[Tool], texts: SearchStrategy[str] = TEXTS) -> SearchStrategy[ToolCall]:
    """Draws a valid call of one of these tools; its strings come from `texts`."""
    return st.one_of([_calls_of(tool, texts) for tool in tools])


def _calls_of(tool: Tool, texts: SearchStrategy[str]) -> SearchStrategy[ToolCall]:
    fitting = values(tool.schema.source, texts).filter(
        lambda value: isinstance(value, dict) and tool.schema.admits(value)
    )
    return fitting.map(lambda arguments: ToolCall(tool.name, arguments))


@st.composite
def turns(
    draw: DrawFn,
    format: Format,
    tools: Sequence[Tool],
    *,
    tags: bool = True,
    reasoning: bool = True,
) -> Turn:
    """Draws a turn of up to three calls, without white space around content and reasoning. `tags`:
    those of the format may be in arguments."""
    called: list[ToolCall] = []
    if tools:
        texts = TEXTS
        if tags:
            parts = st.lists(st.sampled_from((*WORDS, *format.texts)), min_size=1, max_size=3)
            texts = TEXTS | parts.map("".join)
        one = calls(tools, texts)
        fewest = draw(st.sampled_from([0, 1, 1]))
        called = draw(st.lists(one, min_size=fewest, max_size=1 if format.single else 3))
    reserved = (*format.reserved, *format.markers)
    texts = st.just("") | _PLAIN.filter(lambda text: not any(part in text for part in reserved))
    mixed = format.bare is None and any(content.calls for content in format.contents)
    content = thought = ""
    if mixed or not called:
        content = draw(texts)
    if format.reasoning and reasoning:
        thought = draw(texts)
    pattern = find_id_pattern(format)
    ids = st.none() if pattern is None else st.from_regex(pattern, fullmatch=True)
    return Turn(content, thought, tuple(replace(call, id=draw(ids)) for call in called))


def find_id_pattern(format: Format) -> str | None:
    """Returns the pattern of ids, if the model makes them up in this format; otherwise None."""
    for node in format.call:
        id = node.id if isinstance(node, JsonCall) else node
        if isinstance(id, CallId):
            return id.pattern
    return None


@dataclass(frozen=True)
class Written:
    turn: Turn
    text: str
    tools: tuple[Tool, ...]


def write(turn: Turn, format: Format, tools: Sequence[Tool]) -> Written | None:
    """Writes a turn as a model does; None: the format cannot write it without ambiguity."""
    try:
        return Written(turn, render(turn, format, tools), tuple(tools))
    except Error:
        return None


@dataclass(frozen=True)
class Example:
    """A text that a parser has to read."""

    written: Written
    pieces: tuple[str, ...]  # As given to the parser: the text of the turn, cut short or damaged.

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def with_pieces(self, pieces: Sequence[str]) -> "Example":
        return replace(self, pieces=tuple(pieces))


@st.composite
def wire_texts(
    draw: DrawFn,
    format: Format,
    tools: Sequence[Tool] | None = None,
    *,
    tags: bool = True,
    reasoning: bool = True,
) -> Written:
    """Draws a turn with its text. Its calls are of `tools`, or of tools that the suite draws."""
    offered = tuple(draw(_tools()) if tools is None else tools)
    turn = draw(turns(format, offered, tags=tags, reasoning=reasoning))
    return write(turn, format, offered) or reject()


_tools = tools


def chunkings(text: str) -> SearchStrategy[list[str]]:
    """Cuts the text into pieces, some of them empty, or into single characters."""
    offsets = st.lists(st.integers(0, len(text)), max_size=6).map(sorted)
    return st.just(list(text)) | offsets.map(partial(cut, text))


def cut(text: str, offsets: Sequence[int]) -> list[str]:
    """Returns the pieces of a text that is cut at these offsets, which are in order."""
    return [text[start:end] for start, end in pairwise([0, *offsets, len(text)])]


def truncations(text: str) -> SearchStrategy[str]:
    # Counted from the end, so that Hypothesis can shrink the part before the cut.
    return st.integers(0, len(text)).map(lambda count: text[: len(text) - count])


@st.composite
def mutations(draw: DrawFn, text: str, pieces: Sequence[str] = ()) -> str:
    """Makes one to three edits of the text: leaves out, repeats or inserts a part, one of these
    pieces."""
    added = [*pieces, *' \n"\\{}[]<>/=,:0a', "</", "<|", "null"]
    for _ in range(draw(st.integers(1, 3))):
        start = len(text) - draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["drop", "repeat", "add"])):
            case "drop":
                text = text[:start] + text[end:]
            case "repeat":
                text = text[:end] + text[start:end] + text[end:]
            case _:
                text = text[:start] + draw(st.sampled_from(added)) + text[start:]
    return text


_HABITS = (
    (r"(?s)\A(.*)\Z", r"```json\n\1\n```"),  # a fence of Markdown around everything
    (r"(?s)(\{.*\})", r"```json\n\1\n```"),  # and around the JSON alone
    (r"(?s)(\{.*\})", r"[\1]"),
    (r'"', "'"),
    (r"\}", ",}"),
    (r"\]", ",]"),
    (r"\btrue\b", "True"),
    (r"\bnull\b", "None"),
    (r'"(\w+)": ', r"\1: "),
    (r'\{"', r'{"id": "call_1", "'),
    (r'\{"', r'{"id": {"zorn": 1}, "'),
    (r'\{"', r'{"type": "function", "index": 0, "'),
    (r'\{"', r'{"type": "zorn", "'),
    (r'\{"', r'{"reason": "kvelp", "'),
    (r'\{"', r'{ /* kvelp */ "'),
    (r'"arguments"', '"parameters"'),
    (r'"(arguments|parameters)"', r'"args": {"note": "zorn"}, "\1"'),
    (r'("arguments": ?)\{', r'\1"kvelp", "others": {'),
    (r"\n", ""),
    (r"\n", "\n\n    "),
    (r"\n", "\r\n"),
    (r" ", "\u00a0"),
    (r"(?s)\A(.*)\Z", r"kvelp \1 jinqa"),
    (r"(?s)\A(.*)\Z", r"<think>\nkvelp \1\n</think>\njinqa"),
    (r"(?s)\A(.*)\Z", r"\1<|im_end|>"),
    (r"(?s).\Z", "\ufffd"),  # half a character at the end
)


def list_habits(tags: Sequence[str]) -> list[tuple[str, str]]:
    """Returns what models without a mask make of a call, as pairs of an expression and what they
    write instead of it. They also leave out a tag, or write it twice."""
    habits = list(_HABITS)
    for written in ("", r"\g<0>\g<0>"):
        habits += [(re.escape(tag), written) for tag in tags]
    return habits


@st.composite
def habits(draw: DrawFn, text: str, tags: Sequence[str] = ()) -> str:
    """Writes the text with one or two habits of models without a mask, in one place or in all."""
    for _ in range(draw(st.integers(1, 2))):
        pattern, written = draw(st.sampled_from(list_habits(tags)))
        text = re.sub(pattern, written, text, count=draw(st.sampled_from([0, 1])))
    return text
