"""Which wire format a chat template teaches: rendered on probes, read off the differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from grammars.detect_reasoning import find_reasoning, find_state
from grammars.errors import DetectError, Error
from grammars.formats import NATIVE
from grammars.render import render
from grammars.schema import Json
from grammars.turn import ToolCall, Turn
from grammars.wire import Format, Hole, JsonStyle

__all__ = ["Render", "detect", "find_state"]

_CALLS = (
    ToolCall("get_weather", {"city": "Zürich", "days": 3}),
    ToolCall("get_weather", {"city": "Rome", "days": 1}),
)
_TOOL: dict[str, Json] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City"},
                "days": {"type": "integer", "description": "Days"},
            },
            "required": ["city"],
        },
    },
}
_USER: dict[str, Json] = {"role": "user", "content": "PROBE-USER"}
_TEXT = "PROBE-TEXT"
_STYLES = tuple(
    JsonStyle(item, key, ascii)
    for ascii in (False, True)
    for item, key in ((", ", ": "), (",", ":"))
)


class Render(Protocol):
    """Renders a conversation; raises an `Error` where the template refuses it."""

    def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str: ...


@dataclass(frozen=True)
class _Probes:
    """Renders of the same conversation that differ in one thing; "" where one was refused."""

    call: str
    calls: str
    content: str
    both: str
    opening: str


def detect(render_chat: Render, formats: Sequence[Format] = NATIVE) -> Format:
    """The format that the template teaches, its separators read off the template.

    Raises:
        DetectError: none of `formats` writes calls as this template does.
    """
    probes = _probe(render_chat)
    for candidate in _variants(formats):
        found = _find(candidate, probes)
        if found is not None:
            return replace(found, reasoning=find_reasoning(render_chat))
    known = ", ".join(f.name for f in formats)
    if _CALLS[0].name not in (probes.calls or probes.call).partition(_USER["content"])[2]:
        hint = "Use a template that supports tools; formats known here: " + known
        raise DetectError("the chat template writes no tool calls", hint=hint)
    raise DetectError(
        "the chat template writes tool calls in a format that is not known",
        hint=f"Known formats: {known}",
    )


def _find(candidate: Format, probes: _Probes) -> Format | None:
    """The candidate with the template's separators, if the template writes calls like it."""
    first, second = (_write(call, candidate) for call in _CALLS)
    head, found, rest = probes.calls.partition(first)
    between, again, rest = rest.partition(second)
    single = not (found and again)
    if single:
        head, found, rest = probes.call.partition(first)
        between = candidate.between
    is_turn = candidate.bare is None or head == probes.opening  # any object could stand elsewhere
    if not found or not is_turn:
        return None
    return _complete(replace(candidate, between=between, single=single), rest, first, probes)


def _probe(render_chat: Render) -> _Probes:
    def attempt(*assistant: Json) -> str:
        opening = not assistant
        try:
            return render_chat([_USER, *assistant], [_TOOL], add_generation_prompt=opening)
        except Error:
            return ""

    calls = [
        {"id": f"abcdefgh{i}", "type": "function"}
        | {"function": {"name": c.name, "arguments": c.arguments}}
        for i, c in enumerate(_CALLS)
    ]
    says: dict[str, Json] = {"role": "assistant", "content": _TEXT}
    return _Probes(
        call=attempt({"role": "assistant", "content": "", "tool_calls": calls[:1]}),
        calls=attempt({"role": "assistant", "content": "", "tool_calls": calls}),
        content=attempt(says),
        both=attempt(says | {"tool_calls": calls[:1]}),
        opening=attempt(),
    )


def _variants(formats: Sequence[Format]) -> Iterator[Format]:
    """Each format in each spelling of JSON."""
    for known in formats:
        for style in _STYLES:
            nodes = tuple(replace(n, style=style) if isinstance(n, Hole) else n for n in known.call)
            yield replace(known, call=nodes)


def _write(call: ToolCall, format: Format) -> str:
    return render(Turn(calls=(call,)), format)


def _complete(format: Format, rest: str, first: str, probes: _Probes) -> Format:
    """Fills in what stands around the calls: separators, end of turn."""
    end = probes.content.partition(_TEXT)[2].strip()
    after = rest[: rest.find(end)] if end and end in rest else ""
    _, text, behind = probes.both.partition(_TEXT)
    before = behind.partition(first)[0] if text else format.before
    return replace(
        format,
        before=format.before if before.strip() else before,
        after=after if not after.strip() else "",
        ends=(end,) if end else (),
    )
