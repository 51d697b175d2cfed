"""Prompts put together from the tokens that the model saw, and those of what is new behind them.

The template is not asked what a turn looks like, only where it ends: the conversation is rendered
once more, with one private-use character in the turn and one in the message behind it. The turn
ends at the first marker between the two that ends turns. Which reasoning the template shows is
found in the same way.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constrained.decoded import Decoded, History
from constrained.errors import TemplateError
from constrained.messages import THOUGHTS, copy_json, is_text_parts
from constrained.quoting import Prompt, find_free_characters

Messages = Sequence[Mapping[str, Any]]
Write = Callable[[Messages], Prompt]
MOST_PROBES = 2  # a template whose last turns have no end that can be found has none elsewhere


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


def find_thoughts(history: History, write: Write) -> frozenset[int]:
    """Places of the messages whose reasoning the template writes."""
    if not history.thoughts:
        return frozenset()
    messages = copy_json(history.messages)
    try:
        characters = find_free_characters([messages], len(history.thoughts))
        marked = dict(zip(history.thoughts, characters, strict=True))
        for place, character in marked.items():
            for name in THOUGHTS:
                messages[place].pop(name, None)
            messages[place]["reasoning_content"] = character
        text = write(messages).text
    except TemplateError:  # it takes no other text there
        return frozenset()
    return frozenset(place for place, character in marked.items() if character in text)


def splice(
    history: History,
    prompt: Prompt,
    write: Write,
    recall: Recall,
    ends: Collection[str],
    written: frozenset[int],
) -> Splice | None:
    """The prompt with the last kept turn that may be in it; None where there is none.

    Args:
        history: the conversation.
        prompt: what `write` makes of it.
        recall: whose view of earlier reasoning holds.
        ends: texts that end a turn.
        written: see `find_thoughts`.
    """
    allowed, probes = _allow(history, recall, written), 0
    for place in sorted(history.turns, reverse=True):
        turn = history.turns[place]
        thoughts = turn.thoughts | ({place} if turn.reasoning else set[int]())
        if not thoughts <= allowed:
            continue
        if rest := _find_rest(history, place, prompt, write, ends):
            return Splice(turn, rest, thoughts | {n for n in written if n > place})
        probes += 1
        if probes == MOST_PROBES:
            break
    return None


def _allow(history: History, recall: Recall, written: frozenset[int]) -> frozenset[int]:
    """Places of the messages whose reasoning may be in the prompt."""
    if recall is Recall.KEEP:
        return frozenset(history.thoughts)
    users = [n for n, message in enumerate(history.messages) if message["role"] == "user"]
    if recall is Recall.DROP or not users:
        return written
    return written | {n for n in history.thoughts if n > users[-1]}


def _find_rest(
    history: History, place: int, prompt: Prompt, write: Write, ends: Collection[str]
) -> Prompt | None:
    """What the template writes behind a turn; None where that cannot be told."""
    messages = copy_json(history.messages)
    if place + 1 == len(messages) or messages[place + 1]["role"] == "assistant":
        return None
    try:
        inside, behind = find_free_characters([messages], 2)
        if not (_mark_turn(messages[place], inside) and _mark_text(messages[place + 1], behind)):
            return None
        marked = write(messages)
    except TemplateError:  # it takes no other text there
        return None
    start, stop = marked.text.rfind(inside), marked.text.find(behind)
    end = min((at for text in ends if (at := marked.find(text, start)) >= 0), default=-1)
    if not 0 <= start < end < stop:
        return None
    rest = marked.text[end:].replace(behind, "")
    return prompt.tail(len(rest)) if prompt.text.endswith(rest) else None


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
        part["text"] = _mark(part["text"], character, at_end)
        return True
    if not isinstance(content, str):
        return False
    message["content"] = _mark(content, character, at_end)
    return True


def _mark(text: str, character: str, at_end: bool) -> str:
    """The text with the character inside of the white space around it, which templates trim."""
    place = len(text.rstrip()) if at_end else len(text) - len(text.lstrip())
    return text[:place] + character + text[place:]
