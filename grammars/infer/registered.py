"""Formats of the registry, found in what a chat template renders.

For formats that cannot be inferred: a known one is what the template teaches if the template writes
calls exactly as the format does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grammars.errors import DetectError, Error
from grammars.formats import NATIVE
from grammars.infer.probes import Render
from grammars.infer.reasoning import find_reasoning
from grammars.render import render
from grammars.schema.nodes import Json
from grammars.spelling.python import spell_fixed
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format, Hole, JsonStyle, Reasoning

_CALLS = (
    ToolCall("get_weather", {"city": "Zürich", "days": 3}, id="abcdefgh0"),
    ToolCall("get_weather", {"city": "Rome", "days": 1}, id="abcdefgh1"),
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


@dataclass(frozen=True)
class _Probes:
    """Renders of the same conversation that differ in one thing; "" where one was refused."""

    call: str
    calls: str
    content: str
    both: str
    opening: str


def find_registered(render_chat: Render, formats: Sequence[Format] = NATIVE) -> Format:
    """The known format that the template writes, with what stands around the calls there.

    Raises:
        DetectError: none of `formats` writes calls as this template does.
    """
    probes = _probe(render_chat)
    for candidate in _variants(formats):
        if (found := _find(candidate, probes)) is not None:
            block = find_reasoning(render_chat)
            return found if block is None else replace(found, reasoning=_keep(block, found))
    if _CALLS[0].name not in (probes.calls or probes.call).partition(_USER["content"])[2]:
        hint = "Use a template that supports tools"
        raise DetectError("the chat template writes no tool calls", hint=hint)
    raise DetectError(
        "the chat template writes tool calls in a format that is not known",
        hint=f"Known formats: {', '.join(f.name for f in formats)}",
    )


def _keep(block: Reasoning, known: Format) -> Reasoning:
    """The block of the template, and what only the known format tells of it."""
    shut = known.reasoning is not None and known.reasoning.starts_closed
    return replace(block, starts_closed=shut)


def _find(candidate: Format, probes: _Probes) -> Format | None:
    """The candidate, if the template writes one call, and several, as it does."""
    one = render(Turn(calls=_CALLS[:1]), candidate)
    head, found, rest = probes.call.partition(one)
    single = candidate.single or render(Turn(calls=_CALLS), candidate) not in probes.calls
    if not found and not single:  # of a single call, some write no end
        one = one.removesuffix(spell_fixed(candidate.closing))
        head, found, rest = probes.call.partition(one)
    if not found:
        return None
    if candidate.bare is not None and head != probes.opening:
        return None  # any object could stand elsewhere
    if single and probes.calls.count(_CALLS[1].arguments["city"]):
        return None  # it writes a second call, in another way
    return _complete(replace(candidate, single=single), rest, one, probes)


def _probe(render_chat: Render) -> _Probes:
    def attempt(*assistant: Json) -> str:
        opening = not assistant
        try:
            return render_chat([_USER, *assistant], [_TOOL], add_generation_prompt=opening)
        except Error:
            return ""

    calls = [
        {"id": c.id, "type": "function"} | {"function": {"name": c.name, "arguments": c.arguments}}
        for c in _CALLS
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
            nodes = (_restyle(n, style) if isinstance(n, Hole) else n for n in known.call)
            yield replace(known, call=tuple(nodes))


def _restyle(hole: Hole, style: JsonStyle) -> Hole:
    """The hole with separators and escapes of that style."""
    changed = replace(hole.style, item=style.item, key=style.key, ascii=style.ascii)
    return replace(hole, style=changed if hole.style.escapes else hole.style)


def _complete(format: Format, rest: str, first: str, probes: _Probes) -> Format:
    """Fills in what stands around the calls: separators, end of turn."""
    end = probes.content.partition(_TEXT)[2].strip()
    for closer in (*(content.closer for content in format.contents), format.tail):
        end = end.removeprefix(closer)
    ends, after = format.ends, ""
    if end:
        ends = tuple(dict.fromkeys([end, *format.ends]))
        after = rest.partition(end)[0] if end in rest else ""
    _, found, behind = probes.both.partition(_TEXT)
    before = behind.partition(first)[0] if found else format.before
    if before.strip():
        before = format.before
    return replace(format, before=before, after="" if after.strip() else after, ends=ends)
