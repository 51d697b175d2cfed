"""Whether all messages of a conversation are in its prompt."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.errors import TemplateError
from constrained.prompt.messages import is_text_parts
from grammars.schema.pointers import point_to

KNOWN_ROLES = frozenset({"system", "user", "assistant", "tool", "function"})
"""Of conversations in the form of `normalise`."""
_HINT = "Leave the message out, write it in another way, or use another chat template"
_ROLE_HINT = 'Use "system", "user", "assistant" or "tool"'
_CANARY = "canary-of-message-{}-"


@dataclass(frozen=True)
class _Text:
    """A text of a conversation.

    Args:
        text: the text.
        index: of its message.
        path: the keys and indexes that lead to it in the message.
    """

    text: str
    index: int
    path: Sequence[str | int]

    @property
    def pointer(self) -> str:
        return point_to(["messages", self.index, *self.path])


def check_arrival(
    messages: Sequence[Mapping[str, Any]], prompt: str, write: Callable[[list[Any]], str]
) -> None:
    """Refuses a conversation with a message that is not in its prompt. Reasoning may be left out,
    which templates do by design.

    A text that is not found in its place, or has a role of its own, is replaced by a word, and the
    prompt is rendered again: it has arrived if the word has. Templates may write it elsewhere, in
    another spelling, or without a part of it.

    Args:
        messages: the conversation (see `normalise`).
        prompt: its rendered prompt.
        write: renders another conversation in the same way.

    Raises:
        TemplateError: a text is missing, with its JSON pointer.
    """
    place = 0
    doubted: list[_Text] = []
    for text in _list_texts(messages):
        found = _find(text.text, prompt, place)
        if found is None or messages[text.index]["role"] not in KNOWN_ROLES:
            doubted.append(text)
        elif text.path[-1] == "content":
            place = found
    if not doubted:
        return
    words = [_CANARY.format(number) for number in range(len(doubted))]
    changed: list[Any] = [*messages]
    for text, word in zip(doubted, words, strict=True):
        changed[text.index] = _replace(changed[text.index], text.path, word)
    try:
        written = write(changed)
    except TemplateError:  # it reads the text: a name, or one that it parses
        return
    for text, word in zip(doubted, words, strict=True):
        if word not in written:
            raise _describe(messages, text)


def _describe(messages: Sequence[Mapping[str, Any]], text: _Text) -> TemplateError:
    role = messages[text.index]["role"]
    if role not in KNOWN_ROLES:
        message = f"the chat template leaves out messages of the role {role!r}"
        return TemplateError(message, where=f"/messages/{text.index}/role", hint=_ROLE_HINT)
    what = "message" if text.path[-1] == "content" else "call"
    message = f"the chat template leaves out this {what} of the role {role!r}"
    return TemplateError(message, where=text.pointer, hint=_HINT)


def _list_texts(messages: Sequence[Mapping[str, Any]]) -> Iterator[_Text]:
    """Yields the texts of content and of the arguments of calls, one of each call."""
    for i, message in enumerate(messages):
        content: Any = message["content"]
        if isinstance(content, str) and content.strip():
            yield _Text(content, i, ["content"])
        elif not isinstance(content, str) and is_text_parts(content):
            for j, part in enumerate(content):
                yield _Text(part["text"], i, ["content", j, "text"])
        for j, call in enumerate(message.get("tool_calls") or ()):
            match call:
                case {"function": {"arguments": dict() as arguments}}:
                    key = _find_text_argument(arguments)
                    if key is not None:
                        path = ["tool_calls", j, "function", "arguments", key]
                        yield _Text(arguments[key], i, path)
                case {"function": {"arguments": str() as arguments}}:
                    yield _Text(arguments, i, ["tool_calls", j, "function", "arguments"])
                case _:
                    pass


def _find_text_argument(arguments: Mapping[str, Any]) -> str | None:
    """Returns the key of an argument that is text; None: there is none."""
    for key, value in arguments.items():
        if isinstance(value, str) and value.strip():
            return key
    return None


def _find(text: str, prompt: str, place: int) -> int | None:
    """Returns where a text ends in a prompt, after a place; None: it is not there in any common
    spelling."""
    bare = text.strip()
    for spelled in (bare, json.dumps(bare, ensure_ascii=False)[1:-1], json.dumps(bare)[1:-1]):
        found = prompt.find(spelled, place)
        if found >= 0:
            return found + len(spelled)
    return None


def _replace(value: Any, path: Sequence[str | int], word: str) -> Any:
    """Returns JSON data with another text at a path."""
    if not path:
        return word
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        return {**value, step: _replace(value[step], rest, word)}
    return [_replace(one, rest, word) if i == step else one for i, one in enumerate(value)]
