"""How a chat template writes reasoning, and where its generation prompt leaves the model.

Found by probing, whatever format the calls are in: what stands around the thought of an assistant
message is the block. Where a template never writes a thought, its prompts tell.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from grammars.errors import Error
from grammars.infer.probes import Render
from grammars.schema.nodes import Json
from grammars.turn import Start, State
from grammars.wire.format import Format, Marker, Reasoning, count_common

_USER, _TEXT, _THOUGHT = "PROBE-USER", "PROBE-TEXT", "PROBE-THOUGHT"
_ASKS: dict[str, Json] = {"role": "user", "content": _USER}
_CALL: dict[str, Json] = {
    "id": "abcdefgh1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Rome"}},
}
_PARAMETERS: dict[str, Json] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "City"}},
    "required": ["city"],
}
_TOOL: dict[str, Json] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather", "parameters": _PARAMETERS},
}
# What templates call the switch. Only to see both prompts: a request sets what it likes.
_ON: dict[str, Json] = {
    "enable_thinking": True,
    "thinking": True,
    "thinking_mode": "enabled",
    "reasoning_effort": "high",
}
_OFF: dict[str, Json] = {"enable_thinking": False, "thinking": False}

# Blocks of templates that drop every thought: they prefill the block, describe it in the system
# message or take it out of the history. Qwen's QwQ has written `<think>` with these pads first;
# DeepSeek's `<think>` has none. Apriel 1.6 opens its block in words.
_KNOWN = (
    Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    Reasoning(
        Marker("Here are my reasoning steps:"), Marker("[BEGIN FINAL RESPONSE]"), "\n", "\n", "\n"
    ),
)

_TAG = r"(?:<[^<>\s]+>|\[/?[A-Z_]+\])"
_TAGS_AND_WORD = rf"{_TAG}(?P<word>\w+){_TAG}"  # Kimi K3: <|open|>think<|sep|>
_TAG_AND_WORD = rf"{_TAG}\w+"  # Gemma 4: <|channel>thought


def _field(name: str) -> Callable[[str], Json]:
    return lambda text: {"content": text, name: _THOUGHT}


# How clients and templates pass a thought: in a field, in parts (Mistral), in blocks (Apertus).
_SHAPES: tuple[Callable[[str], Any], ...] = (
    *map(_field, ("reasoning_content", "reasoning", "thinking")),
    lambda text: {
        "content": [{"type": "thinking", "thinking": _THOUGHT}, {"type": "text", "text": text}]
    },
    lambda text: {
        "content": {
            "blocks": [{"type": "thoughts", "text": _THOUGHT}, {"type": "response", "text": text}]
        }
    },
)


def find_reasoning(render_chat: Render) -> Reasoning | None:
    """The reasoning block that a template writes or prefills; None if it knows none.

    Markers carry no white space at their ends; the white space goes to the pads. None is also the
    answer where a thought is a message of its own, with a header like that of any other (harmony,
    Muse): such a turn is no block followed by an answer.
    """
    template = _Template(render_chat)
    written = (_read_block(around) for around in template.thoughts())
    return next((block for block in written if block), None) or template.find_known()


@dataclass(frozen=True)
class _Around:
    """What stands before and behind a thought, and what else stands directly before a text."""

    head: str
    tail: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class _Template:
    """A template under probes; a render is "" where it was refused."""

    render_chat: Render

    def render(self, *messages: Any, opening: bool = False, **kwargs: Any) -> str:
        try:
            return self.render_chat(
                [_ASKS, *messages], [_TOOL], add_generation_prompt=opening, **kwargs
            )
        except Error:
            return ""

    def thoughts(self) -> Iterator[_Around]:
        """What stands around a thought, for every way to pass one that the template reads."""
        for kwargs in (_ON, {}):
            plain = self.render({"role": "assistant", "content": _TEXT}, **kwargs)
            others = tuple(plain.partition(text)[0].rstrip() for text in (_USER, _TEXT))
            for shape in _SHAPES:
                for text, calls in ((_TEXT, [_CALL]), (_TEXT, []), ("", [_CALL])):
                    message = {"role": "assistant"} | shape(text)
                    message |= {"tool_calls": calls} if calls else {}
                    head, thought, tail = self.render(message, **kwargs).partition(_THOUGHT)
                    if thought:
                        yield _Around(head, tail, others)

    def find_known(self) -> Reasoning | None:
        """The block of a template that never writes a thought."""
        prompts = [self.render(opening=True, **kwargs) for kwargs in (_ON, {}, _OFF)]
        with suppress(Error):  # Granite 3.3 describes the block only where there are no tools
            prompts.append(self.render_chat([_ASKS], None, **_ON))
        for block in _KNOWN:
            told = any(
                block.opener.text in prompt or prompt.rstrip().endswith(block.closer.text)
                for prompt in prompts
            )
            if told or self._removes(block):
                return _read_pads(block, prompts)
        return None

    def _removes(self, block: Reasoning) -> bool:
        """Is the block taken out of the history?"""
        content = f"{block.opener.text}{_THOUGHT}{block.closer.text}{_TEXT}"
        says: Json = {"role": "assistant", "content": content}
        # LFM2.5 keeps the last thought of a conversation.
        text = self.render(says, _ASKS, {"role": "assistant", "content": "Yes"}, _ASKS)
        return _TEXT in text and _THOUGHT not in text


def _read_block(around: _Around) -> Reasoning | None:
    """The block around a thought; None if what stands there is no block."""
    head, tail = around.head.rstrip(), around.tail.lstrip()
    pad_open, pad_close = around.head[len(head) :], around.tail[: -len(tail) or None]
    opening = re.search(f"{_TAGS_AND_WORD}$", head)
    closing = re.match(_TAGS_AND_WORD, tail)
    if not (opening and closing and opening["word"] == closing["word"]):
        opening = re.search(f"(?:{_TAG}|{_TAG_AND_WORD})$", head)
        closing = re.match(_TAG, tail)
    if not (opening and closing) or any(o.endswith(opening[0]) for o in around.others):
        return None
    rest = tail[closing.end() :]
    after = rest[: len(rest) - len(rest.lstrip())]
    return Reasoning(Marker(opening[0]), Marker(closing[0]), pad_open, pad_close, after)


def _read_pads(block: Reasoning, prompts: list[str]) -> Reasoning:
    """The block with the pads that the prompts write."""
    for prompt in prompts:
        if opened := re.search(rf"{re.escape(block.opener.text)}(\s*)$", prompt):
            if not opened[1]:  # it writes the block without pads
                return replace(block, pad_open="", pad_close="", after="")
            block = replace(block, pad_open=opened[1])
        if closed := re.search(rf"{re.escape(block.closer.text)}(\s+)$", prompt):
            block = replace(block, after=closed[1])
    return block


def find_state(
    with_prompt: str, without_prompt: str, format: Format, calls: int | None = None
) -> State:
    """Where the generation prompt leaves the turn.

    Args:
        with_prompt: the conversation rendered with the generation prompt.
        without_prompt: the same without it; what the two share is conversation, not prompt.
        format: the format that the template teaches.
        calls: how many calls the conversation has, if that is known.
    """
    block = format.reasoning
    prompt = with_prompt[count_common(with_prompt, without_prompt) :]
    if block is not None:
        state = _find_block(prompt or _find_end(with_prompt, block), block)
        if state.start is Start.OPEN:
            return replace(state, calls=calls)
    else:
        state = State()
    return replace(state, lead=_find_lead(prompt, format), calls=calls)


def _find_end(prompt: str, block: Reasoning) -> str:
    """The marker at the end of a template that opens the turn whether it is asked to or not."""
    tail = prompt.rstrip()
    marker = next((m for m in (block.opener.text, block.closer.text) if tail.endswith(m)), "")
    return prompt[len(tail) - len(marker) :] if marker else ""


def _find_block(prompt: str, block: Reasoning) -> State:
    opened, closed = prompt.rfind(block.opener.text), prompt.rfind(block.closer.text)
    if opened > closed:
        written = prompt[opened + len(block.opener.text) :]
        return State(Start.OPEN, _rest(block.pad_open, written))
    if closed >= 0:
        written = prompt[closed + len(block.closer.text) :]
        return State(Start.CLOSED, _rest(block.after, written))
    return State()


def _find_lead(prompt: str, format: Format) -> str:
    """What the prompt has written of content or of a call: `>>>`, where `>>>all` opens content."""
    openers = [c.opener for c in format.contents if c.opener]
    leads = (o[:n] for o in openers for n in range(len(o), 0, -1) if prompt.endswith(o[:n]))
    return next((lead for lead in leads if len(lead) > 1), "")


def _rest(pad: str, written: str) -> str:
    return pad[len(written) :] if pad.startswith(written) else ""


def count_calls(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many tool calls a conversation has."""
    return sum(len(message.get("tool_calls") or ()) for message in messages)
