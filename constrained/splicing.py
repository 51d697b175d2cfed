"""Prompts put together from the tokens that the model saw, and those of what is new behind them.

The template is not asked what a turn looks like, only where it ends: the conversation is rendered
once more, with one private-use character in the turn and one in the message behind it. The turn
ends at the first marker between the two that ends turns.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constrained.decoded import Decoded, History
from constrained.errors import TemplateError
from constrained.messages import copy_json, is_text_parts
from constrained.quoting import Prompt, find_free_characters

Messages = Sequence[Mapping[str, Any]]


class Recall(StrEnum):
    """Whose view of earlier reasoning holds, that of the model (KEEP) or of the template (DROP).

    AUTO keeps it until the next message of the user, and follows the template from then on.
    """

    AUTO = "auto"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True)
class Splice:
    """A prompt that begins with tokens that the model saw.

    Args:
        turn: the last turn that was taken over; all before it is, too.
        rest: what the template writes behind it.
        thoughts: places of the messages whose reasoning is in the prompt.
    """

    turn: Decoded
    rest: Prompt
    thoughts: frozenset[int]


def find_thoughts(history: History, prompt: Prompt, since: int = 0) -> frozenset[int]:
    """Places, from `since` on, of the messages whose reasoning the template writes."""
    told = history.thoughts.items()
    return frozenset(n for n, text in told if n >= since and text in prompt.text)


def splice(
    history: History,
    prompt: Prompt,
    render: Callable[[Messages], Prompt],
    recall: Recall,
    ends: Collection[str],
) -> Splice | None:
    """The prompt with the last kept turn that may be in it; None where there is none.

    Args:
        history: the conversation.
        prompt: what `render` makes of it.
        recall: whose view of earlier reasoning holds.
        ends: texts that end a turn.
    """
    shown = _find_shown(history, prompt, recall)
    for place in sorted(history.turns, reverse=True):
        turn = history.turns[place]
        thoughts = turn.thoughts | ({place} if turn.reasoning else set[int]())
        if thoughts <= shown and (rest := _find_rest(history, place, prompt, render, ends)):
            return Splice(turn, rest, thoughts | find_thoughts(history, prompt, place + 1))
    return None


def _find_shown(history: History, prompt: Prompt, recall: Recall) -> frozenset[int]:
    """Places of the messages whose reasoning may be in the prompt."""
    if recall is Recall.KEEP:
        return frozenset(history.thoughts)
    users = [n for n, message in enumerate(history.messages) if message["role"] == "user"]
    shown = find_thoughts(history, prompt)
    if recall is Recall.AUTO and users:
        shown |= {n for n in history.thoughts if n > users[-1]}
    return shown


def _find_rest(
    history: History,
    place: int,
    prompt: Prompt,
    render: Callable[[Messages], Prompt],
    ends: Collection[str],
) -> Prompt | None:
    """What the template writes behind a turn; None where that cannot be told."""
    messages = copy_json(history.messages)
    if place + 1 == len(messages) or messages[place + 1]["role"] == "assistant":
        return None
    inside, behind = find_free_characters(json.dumps(messages, default=str), 2)
    if not (_mark_turn(messages[place], inside) and _mark_text(messages[place + 1], behind)):
        return None
    try:
        marked = render(messages)
    except TemplateError:  # it takes no other text there
        return None
    start, stop = marked.text.rfind(inside), marked.text.find(behind)
    end = min((at for text in ends if (at := marked.find(text, start)) >= 0), default=-1)
    if not 0 <= start < end < stop:
        return None
    length = len(marked.text) - end - 1  # without the character
    return prompt.tail(length) if prompt.text.endswith(_drop(marked, end, behind)) else None


def _drop(marked: Prompt, start: int, character: str) -> str:
    return marked.text[start:].replace(character, "")


def _mark_turn(message: dict[str, Any], character: str) -> bool:
    """Puts a character into what the turn writes last: its last call, or its content."""
    calls = message.get("tool_calls")
    if not calls:
        return _mark_text(message, character, at_end=True)
    arguments = calls[-1]["function"]["arguments"]
    if isinstance(arguments, dict):
        arguments[character] = character
    return isinstance(arguments, dict)


def _mark_text(message: dict[str, Any], character: str, *, at_end: bool = False) -> bool:
    content = message.get("content")
    if is_text_parts(content) and content:
        part = content[-1 if at_end else 0]
        part["text"] = part["text"] + character if at_end else character + part["text"]
        return True
    if not isinstance(content, str):
        return False
    message["content"] = content + character if at_end else character + content
    return True
