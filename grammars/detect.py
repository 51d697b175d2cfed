"""Which wire format a chat template teaches: rendered on probes, read off the differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from grammars.errors import DetectError, Error
from grammars.formats import FORMATS
from grammars.render import render
from grammars.schema import Json
from grammars.turn import Start, State, ToolCall, Turn
from grammars.wire import Format, JsonCall, JsonStyle, Reasoning, TaggedArguments, count_common

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
_THOUGHT = "PROBE-THOUGHT"
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

    calls: str
    content: str
    both: str
    thought: str
    openings: tuple[str, ...]


def detect(render_chat: Render, formats: Sequence[Format] = FORMATS) -> Format:
    """The format that the template teaches, its separators read off the template.

    Raises:
        DetectError: none of `formats` writes calls as this template does.
    """
    probes = _probe(render_chat)
    for candidate in _variants(formats):
        first, second = (_write(call, candidate) for call in _CALLS)
        at = probes.calls.find(first)
        behind = at + len(first)
        then = probes.calls.find(second, behind)
        if at >= 0 and then >= 0:
            between = probes.calls[behind:then]
            rest = probes.calls[then + len(second) :]
            return _complete(replace(candidate, between=between), rest, first, probes)
    known = ", ".join(f.name for f in formats)
    if _CALLS[0].name not in probes.calls.partition(_USER["content"])[2]:
        hint = "Use a template that supports tools; formats known here: " + known
        raise DetectError("the chat template writes no tool calls", hint=hint)
    raise DetectError(
        "the chat template writes tool calls in a format that is not known",
        hint=f"Known formats: {known}",
    )


def _probe(render_chat: Render) -> _Probes:
    def attempt(*assistant: Json, opening: bool = False, **kwargs: Any) -> str:
        try:
            messages = [_USER, *assistant]
            return render_chat(messages, [_TOOL], add_generation_prompt=opening, **kwargs)
        except Error:
            return ""

    calls = [
        {"id": f"abcdefgh{i}", "type": "function"}
        | {"function": {"name": c.name, "arguments": c.arguments}}
        for i, c in enumerate(_CALLS)
    ]
    says: dict[str, Json] = {"role": "assistant", "content": _TEXT}
    return _Probes(
        calls=attempt({"role": "assistant", "content": "", "tool_calls": calls}),
        content=attempt(says),
        both=attempt(says | {"tool_calls": calls[:1]}),
        thought=attempt(says | {"reasoning_content": _THOUGHT, "tool_calls": calls[:1]}),
        openings=tuple(attempt(opening=True, enable_thinking=on) for on in (True, False)),
    )


def _variants(formats: Sequence[Format]) -> Iterator[Format]:
    """Each format in each spelling of JSON."""
    for known in formats:
        for style in _STYLES:
            nodes = tuple(
                replace(n, style=style) if isinstance(n, JsonCall | TaggedArguments) else n
                for n in known.call
            )
            yield replace(known, call=nodes)


def _write(call: ToolCall, format: Format) -> str:
    return render(Turn(calls=(call,)), format)


def _complete(format: Format, rest: str, first: str, probes: _Probes) -> Format:
    """Fills in what stands around the calls: separators, end of turn, reasoning."""
    end = probes.content.partition(_TEXT)[2].strip()
    after = rest[: rest.find(end)] if end and end in rest else ""
    _, text, behind = probes.both.partition(_TEXT)
    before = behind.partition(first)[0] if text else format.before
    return replace(
        format,
        before=format.before if before.strip() else before,
        after=after if not after.strip() else "",
        ends=(end,) if end else (),
        reasoning=_reasoning(format.reasoning, probes),
    )


def _reasoning(known: Reasoning | None, probes: _Probes) -> Reasoning | None:
    """The reasoning block as the template writes it; None if it never does."""
    if known is None:
        return None
    opener, closer = known.opener.text, known.closer.text
    head, thought, tail = probes.thought.partition(_THOUGHT)
    if thought and opener in head and closer in tail:
        pad_open = head.rpartition(opener)[2]
        pad_close, _, rest = tail.partition(closer)
        after = rest[: len(rest) - len(rest.lstrip())]
        if not (pad_open + pad_close).strip():
            return Reasoning(known.opener, known.closer, pad_open, pad_close, after)
    if any(opener in opening or closer in opening for opening in probes.openings):
        return known
    return None


def find_state(with_prompt: str, without_prompt: str, format: Format) -> State:
    """Where the generation prompt leaves the reasoning block.

    Args:
        with_prompt: the conversation rendered with the generation prompt.
        without_prompt: the same without it; what the two share is conversation, not prompt.
        format: the format that the template teaches.
    """
    block = format.reasoning
    if block is None:
        return State()
    prompt = with_prompt[count_common(with_prompt, without_prompt) :]
    if not prompt:  # the template opens the turn whether it is asked to or not
        tail = with_prompt.rstrip()
        marker = next((m for m in (block.opener.text, block.closer.text) if tail.endswith(m)), "")
        prompt = with_prompt[len(tail) - len(marker) :] if marker else ""
    opened, closed = prompt.rfind(block.opener.text), prompt.rfind(block.closer.text)
    if opened > closed:
        written = prompt[opened + len(block.opener.text) :]
        return State(Start.OPEN, _rest(block.pad_open, written))
    if closed >= 0:
        written = prompt[closed + len(block.closer.text) :]
        return State(Start.CLOSED, _rest(block.after, written))
    return State()


def _rest(pad: str, written: str) -> str:
    return pad[len(written) :] if pad.startswith(written) else ""
