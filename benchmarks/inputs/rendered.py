"""Turns as chat templates write them, after their own prompts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.prompt.format_selection.selection import SelectedFormat
from grammars.errors import Error
from grammars.infer.reasoning import find_opener, find_state
from grammars.turn import Start, State
from grammars.wire.format import Reasoning, count_common

Message = dict[str, Any]
USER: list[Message] = [{"role": "user", "content": "What is the weather?"}]
CONTENT = "It is sunny."
TOOLS: list[dict[str, Any]] = [
    {
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
                "additionalProperties": False,
            },
        },
    }
]
_MAX_HEAD = 20  # characters by which the end of a prompt is found
_CALLS = [
    {
        "id": f"abcdefgh{i}",
        "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": city, "days": i + 1}},
    }
    for i, city in enumerate(("Zürich", "Rome"))
]
TURNS: dict[str, Message] = {
    "content": {"role": "assistant", "content": CONTENT},
    "one call": {"role": "assistant", "content": "", "tool_calls": _CALLS[:1]},
    "two calls": {"role": "assistant", "content": "", "tool_calls": _CALLS},
    "content and a call": {"role": "assistant", "content": CONTENT, "tool_calls": _CALLS[:1]},
}
SWITCHES: dict[str, dict[str, Any]] = {
    "on": {"enable_thinking": True, "thinking": True},
    "off": {"enable_thinking": False, "thinking": False},
    "unset": {},
}


@dataclass(frozen=True)
class Rendered:
    """A turn that a template has written.

    Args:
        kind: what is in it.
        message: the turn.
        text: what stands after the prompt, without the end of turn.
        lost: what of the turn is not in it.
    """

    kind: str
    message: Message
    text: str
    lost: str


def find_start(teaching: SelectedFormat, **kwargs: Any) -> State | None:
    """Returns where the prompt leaves the turn; None if the template refuses it."""
    try:
        prompt, plain = (
            teaching.template.render(USER, TOOLS, add_generation_prompt=on, **kwargs)
            for on in (True, False)
        )
    except Error:
        return None
    return find_state(prompt, plain, teaching.format)


def render_turns(teaching: SelectedFormat) -> Iterator[Rendered]:
    """Yields the turns as this template writes them; without what it refuses."""
    teaching = replace(teaching, template=teaching.template.without_forms())
    state, end = find_start(teaching), find_end(teaching)
    for kind, message in TURNS.items():
        if state is None or (kind == "two calls" and teaching.format.single):
            continue
        text = _render(teaching, state, message)
        if text is not None:
            lost, closing = _find_lost(message, text), teaching.format.closes(_open(teaching))
            if "tool_calls" in message and not lost and any(n.text not in text for n in closing):
                text, lost = text + "".join(n.text for n in closing), "end of the calls"
            is_after = -1 < text.rfind("get_weather") < text.rfind(CONTENT)
            if "tool_calls" in message and is_after and not teaching.format.has_content_after_calls:
                text, lost = text[: text.rfind(CONTENT)], "content in front of the call"
            if not teaching.format.ends:
                text = (text[: text.rfind(end)] if end and end in text else text).rstrip()
            yield Rendered(kind, message, text, lost)


def _open(teaching: SelectedFormat) -> str:
    return teaching.format.opener.text if teaching.format.opener else ""


def _render(teaching: SelectedFormat, state: State, message: Message) -> str | None:
    """Returns what stands after the prompt. Many templates open a thought in the prompt, and leave
    it out of the history; the model ends one first."""
    template, block = teaching.template, teaching.format.reasoning
    try:
        prompt = template.render(USER, TOOLS)
        whole = template.render([*USER, message], TOOLS, add_generation_prompt=False)
    except Error:
        return None
    plain = template.render(USER, TOOLS, add_generation_prompt=False)
    after = find_after(teaching, USER, TOOLS, plain)
    opened = block if state.start is not Start.PLAIN else None
    text = align(whole, prompt, opened, after=after)
    if block is None or state.start is not Start.OPEN or block.closer.text in text:
        return text
    return f"ok{block.closer.text}{text}"


def find_after(
    teaching: SelectedFormat,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    plain: str,
    **kwargs: Any,
) -> str:
    """Returns what a template writes at the end of every history, whatever it ends with: after an
    answer, since calls may end as the tools do that a question shows.

    Args:
        teaching: its format.
        messages: a conversation.
        tools: what may be called.
        plain: that conversation, without a generation prompt.
        kwargs: the template's own.
    """
    answered = [*messages, TURNS["content"]]
    try:
        whole = teaching.template.render(answered, tools, add_generation_prompt=False, **kwargs)
    except Error:
        return ""
    common = count_common(whole[::-1], plain[::-1])
    return whole[len(whole) - common :]


def align(
    whole: str,
    prompt: str,
    block: Reasoning | None,
    *,
    after: str,
    question: str = USER[0]["content"],
) -> str:
    """Returns the turn in a history, without the block that the prompt opens where the history
    writes another head than the prompt.

    Args:
        whole: the conversation with the turn.
        prompt: the conversation with the generation prompt.
        block: the reasoning block, if the prompt has opened or closed it.
        after: what stands at the end of every history.
        question: the text of the last message in front of the turn.
    """
    if whole.startswith(prompt):
        return whole.removeprefix(prompt)
    if block is None and whole.startswith(prompt.rstrip()):
        return whole.removeprefix(prompt.rstrip())  # a line break that only the prompt has
    tags = (find_opener(prompt, block).text, block.closer.text) if block else ()
    opened = (prompt.find(tag, prompt.rfind(question)) for tag in tags)
    head = prompt[: min((at for at in opened if at >= 0), default=len(prompt))]
    head = head.rstrip() if tags else head
    if whole.startswith(head):
        text = whole.removeprefix(head)
    else:  # some write instructions in front of the prompt, and after the history
        end = count_common(whole[::-1], after[::-1])
        text = _cut_head(whole[: len(whole) - end].rpartition(question)[2], head)
    for tag in tags:
        text = text.lstrip().removeprefix(tag)
    return text


def _cut_head(text: str, head: str) -> str:
    """Returns what stands after the end of the prompt, as much of it as the history writes, too.
    The white space at the end of a prompt may be longer or shorter than in the history."""
    shown = head.rstrip()
    for length in range(min(_MAX_HEAD, len(shown)), 0, -1):
        _, found, after = text.partition(shown[-length:])
        if found:
            return after[count_common(after, head[len(shown) :]) :]
    return text


def find_end(teaching: SelectedFormat) -> str:
    """Returns what the template writes after content."""
    try:
        whole = teaching.template.render(
            [*USER, TURNS["content"]], TOOLS, add_generation_prompt=False
        )
    except Error:
        return ""
    return whole.rpartition(CONTENT)[2].strip()


def _find_lost(message: Message, text: str) -> str:
    """Returns what the template has left out."""
    calls = [c["function"]["arguments"]["city"] for c in message.get("tool_calls", ())]
    missing = [city for city in calls if city not in text and json.dumps(city)[1:-1] not in text]
    lost = ["content"] if message["content"] not in text else []
    lost += ["call"] if missing else []
    return " and ".join(lost)
