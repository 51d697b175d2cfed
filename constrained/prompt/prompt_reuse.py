"""Finds which cached turn a prompt can reuse, and the text after it. For that, the end of the turn
in the prompt has to be known: the conversation is rendered again, with a private-use character in
the turn and one in the next message. The turn ends at the first end marker between them, or after
the last text of the format. Which reasoning the template writes is found in the same way. A turn is
not reused if the template now writes another text before it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.errors import TemplateError
from constrained.prompt.job import Recall
from constrained.prompt.messages import REASONING_NAMES, copy_json, is_text_parts
from constrained.prompt.template.special_tokens import Prompt, find_free_characters
from constrained.prompt.turn_boundaries import TurnBoundaries
from constrained.prompt.turn_cache import CachedTurn, History

Messages = Sequence[Mapping[str, Any]]
Write = Callable[[Messages], Prompt]
_NO_TEXT = Prompt(())
MAX_PROBES = 2  # if the ends of the last turns are not found, the ends of others are not, either


@dataclass(frozen=True)
class Reuse:
    """The last cached turn whose tokens begin a prompt, their number, and the text after them.
    `reasoning`: the messages whose reasoning is in the prompt."""

    turn: CachedTurn | None = None
    tokens: int = 0
    reasoning: frozenset[int] = frozenset()
    rest: Prompt = _NO_TEXT


@dataclass(frozen=True)
class RenderedHistory:
    history: History
    prompt: Prompt
    write: Write
    boundaries: TurnBoundaries

    def find_reasoning(self) -> frozenset[int]:
        """Indexes of the messages whose reasoning the template writes."""
        reasoning = self.history.reasoning
        if not reasoning:
            return frozenset()
        messages = copy_json(self.history.messages)
        try:
            characters = find_free_characters([messages], len(reasoning))
            marked = dict(zip(reasoning, characters, strict=True))
            for index, character in marked.items():
                _drop_reasoning(messages[index])
                messages[index]["reasoning_content"] = character
            text = self.write(messages).text
        except TemplateError:  # it accepts no other text there
            return frozenset()
        return frozenset(index for index, character in marked.items() if character in text)

    def find_reusable(self, recall: Recall, reasoning: frozenset[int]) -> Reuse:
        """`reasoning`: indexes of the messages whose reasoning the template writes."""
        allowed = _allow_reasoning(self.history, recall, reasoning)
        probes = 0
        for index in sorted(self.history.turns, reverse=True):
            turn = self.history.turns[index]
            needed = turn.shown_reasoning
            if turn.reasoning:
                needed |= {index}
            if not needed <= allowed:
                continue
            rest = self._find_rest(index)
            if rest is not None:
                later = {other for other in reasoning if other > index}
                count = len(turn.all_tokens)
                return Reuse(turn, count, reasoning=needed | later, rest=rest)
            probes += 1
            if probes == MAX_PROBES:
                break
        return Reuse(reasoning=reasoning)

    def _find_rest(self, index: int) -> Prompt | None:
        """Returns the prompt after a turn; None: the end of the turn is not found, or the template
        changes what stands around it."""
        messages = copy_json(self.history.messages)
        if index + 1 == len(messages) or messages[index + 1]["role"] == "assistant":
            return None
        for message in messages[: index + 1]:  # the text of a message may depend on later ones
            _drop_reasoning(message)
        turn = messages[index]
        try:
            inside, after = find_free_characters([messages], 2)
            if not (_mark_turn(turn, inside) and _mark_text(messages[index + 1], after)):
                return None
            marked, opened = self.write(messages), self.write(messages[:index])
        except TemplateError:
            return None
        end = self.boundaries.find_end(marked, turn, inside=inside, after=after)
        if end is None or not self.boundaries.is_front_kept(opened.text, marked.text):
            return None
        rest = marked.text[end:].replace(after, "")
        return self.prompt.tail(len(rest)) if self.prompt.text.endswith(rest) else None


def _drop_reasoning(message: dict[str, Any]) -> None:
    for name in REASONING_NAMES:
        message.pop(name, None)


def _allow_reasoning(history: History, recall: Recall, written: frozenset[int]) -> frozenset[int]:
    if recall is Recall.KEEP:
        return frozenset(history.reasoning)
    users = [i for i, message in enumerate(history.messages) if message["role"] == "user"]
    if recall is Recall.DROP or not users:
        return written
    return written | {i for i in history.reasoning if i > users[-1]}


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
        part = content[0]
        if at_end:
            part = content[-1]
        part["text"] = _mark(part["text"], character, at_end)
        return True
    if not isinstance(content, str):
        return False
    message["content"] = _mark(content, character, at_end)
    return True


def _mark(text: str, character: str, at_end: bool) -> str:
    """Adds a character at the start or end of a text, inside the white space around it: templates
    may trim that white space, and at the end of a turn it belongs to the turn."""
    if at_end:
        return text.rstrip() + character
    start = len(text) - len(text.lstrip())
    return text[:start] + character + text[start:]
