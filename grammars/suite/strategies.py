"""Strategies of Hypothesis for tools, calls, turns, and for what happens to the text of a turn."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from grammars.errors import RenderError
from grammars.lowering.lower import lower
from grammars.render import render
from grammars.suite.reading import KEYS, WORDS
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import CallId, Format, JsonCall

NAMES = ("get_weather", "write", "f", "set-light", "name")
_PIECES = (
    *WORDS,
    *" |\n|\"|\\|<|>|{|}|é|日本|🙂|</|<b>|&|'|:|,|\t|0|true|null|[]|```|$".split("|"),
)
_INTEGERS = st.integers(-20, 20) | st.integers(-(10**15), 10**15)
_NUMBERS = _INTEGERS | st.integers(-800, 800).map(lambda n: n / 8)

TEXTS: SearchStrategy[str] = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(_PIECES), max_size=8
).map("".join)
"""Text with words that no format writes, and characters that are easily got wrong."""

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


@lru_cache(maxsize=4096)
def _make_tool(name: str, schema: str) -> Tool:
    return Tool(name, lower(json.loads(schema)))


@st.composite
def tools(draw: DrawFn) -> tuple[Tool, ...]:
    """One to three tools with a few arguments of ordinary types; text most of all."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    found: list[Tool] = []
    for name in names:
        fewest = draw(st.sampled_from([0, 1, 1]))
        keys = draw(st.lists(st.sampled_from(KEYS), min_size=fewest, max_size=3, unique=True))
        kinds = [draw(st.just(_PROPERTIES[0]) | st.sampled_from(_PROPERTIES)) for _ in keys]
        schema = {
            "type": "object",
            "properties": dict(zip(keys, kinds, strict=True)),
            "required": [key for key in keys if draw(st.booleans())],
            "additionalProperties": False,
        }
        found.append(_make_tool(name, json.dumps(schema)))
    return tuple(found)


def values(schema: Any, texts: SearchStrategy[str] = TEXTS) -> SearchStrategy[Any]:
    """Values of a schema of plain types, `enum`, `const` and `anyOf`; other keywords are not read:
    filter by `Schema.admits` where there are some."""
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
    kind: Any = members.get("type", "object" if "properties" in members else "string")
    kinds = cast(list[str], kind if isinstance(kind, list) else [kind])
    return st.one_of([_of_type(one, members, texts) for one in kinds])


def _of_type(kind: str, schema: dict[str, Any], texts: SearchStrategy[str]) -> SearchStrategy[Any]:
    match kind:
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
    members = {key: values(member, texts) for key, member in schema.get("properties", {}).items()}
    required = {key: members[key] for key in members if key in schema.get("required", ())}
    optional = {key: members[key] for key in members if key not in required}
    return st.fixed_dictionaries(required, optional=optional)


def calls(tools: Sequence[Tool], texts: SearchStrategy[str] = TEXTS) -> SearchStrategy[ToolCall]:
    """A call of one of these tools, with arguments that fit; strings are drawn from `texts`."""
    if not tools:
        return st.nothing()
    return st.sampled_from(list(tools)).flatmap(
        lambda tool: (
            values(tool.schema.source, texts)
            .filter(lambda value: isinstance(value, dict) and tool.schema.admits(value))
            .map(lambda arguments: ToolCall(tool.name, arguments))
        )
    )


@st.composite
def turns(draw: DrawFn, format: Format, tools: Sequence[Tool]) -> Turn:
    """A turn of up to three calls; no white space around its content and its reasoning."""
    most = (1 if format.single else 3) if tools else 0
    tags = st.lists(st.sampled_from((*WORDS, *format.texts)), min_size=1, max_size=3).map("".join)
    fewest = draw(st.sampled_from([0, 1, 1])) if most else 0
    called = draw(st.lists(calls(tools, TEXTS | tags), min_size=fewest, max_size=most))
    plain = _PLAIN.filter(lambda t: not any(m in t for m in (*format.reserved, *format.markers)))
    mixed = format.bare is None and any(c.calls for c in format.contents)
    content = draw(st.just("") | plain) if not called or mixed else ""
    reasoning = draw(st.just("") | plain) if format.reasoning else ""
    return Turn(content, reasoning, tuple(_identify(draw, call, format) for call in called))


def _identify(draw: DrawFn, call: ToolCall, format: Format) -> ToolCall:
    """The call with an id, where the format writes one that the model makes up."""
    ids = [n for n in format.call if isinstance(n, CallId)]
    ids += [n.id for n in format.call if isinstance(n, JsonCall) and isinstance(n.id, CallId)]
    id = draw(st.from_regex(ids[0].pattern, fullmatch=True)) if ids else None
    return ToolCall(call.name, call.arguments, id=id)


@dataclass(frozen=True)
class Written:
    """A turn, and how a model writes it."""

    turn: Turn
    text: str
    tools: tuple[Tool, ...]


@st.composite
def wire_texts(draw: DrawFn, format: Format, tools: Sequence[Tool] | None = None) -> Written:
    """A turn in this format; of `tools`, or of such as the suite draws itself."""
    offered = tuple(draw(_tools()) if tools is None else tools)
    turn = draw(turns(format, offered))
    try:
        return Written(turn, render(turn, format, offered), offered)
    except RenderError:  # what the format cannot write without being misunderstood
        reject()


_tools = tools


def chunkings(text: str) -> SearchStrategy[list[str]]:
    """The text in pieces, some of them empty; or character by character."""
    places = st.lists(st.integers(0, len(text)), max_size=6).map(sorted)
    cut = places.map(
        lambda at: [text[i:j] for i, j in zip([0, *at], [*at, len(text)], strict=True)]
    )
    return st.just(list(text)) | cut


def truncations(text: str) -> SearchStrategy[str]:
    """The text up to some place."""
    # Counted from the end, so that what stands in front of the cut can be made smaller.
    return st.integers(0, len(text)).map(lambda count: text[: len(text) - count])


@st.composite
def mutations(draw: DrawFn, text: str, pieces: Sequence[str] = ()) -> str:
    """The text after one to three edits: something is left out, written twice or put in.

    Args:
        pieces: what may be put in; without any, characters of the usual syntax.
    """
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
