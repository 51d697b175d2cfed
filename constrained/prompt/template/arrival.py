"""Whether all messages of a conversation arrive in a prompt. It is rendered with words of its own
in place of its texts: a message has arrived if its word has, since templates may write a text
elsewhere, in another spelling, or in part. A conversation of which a message is missing is
refused."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from constrained.errors import TemplateError
from constrained.prompt.messages import is_text_parts
from constrained.prompt.template.conversation_forms import (
    ConversationForm,
    Forms,
    Message,
    Messages,
    is_text,
    list_forms,
    write,
)
from constrained.prompt.template.rendering import TemplateLimitError
from constrained.prompt.template.result_calls import match_results
from grammars.schema.pointers import point_to

KNOWN_ROLES = frozenset({"system", "user", "assistant", "tool", "function"})
"""Of conversations in normal form."""
MAX_SHAPES = 500
"""Of conversations, for which the forms are remembered."""
_ANSWER = "PROBE-OF-AN-ANSWER"
_QUESTION: Message = {"role": "user", "content": "PROBE-OF-A-QUESTION"}
_HINT = "Leave the message out, write it in another way, or use another chat template"
_ROLE_HINT = 'Use "system", "user", "assistant" or "tool"'
_SHORT_ID = re.compile("[a-zA-Z0-9]{9}")
_WORD = re.compile("canary[0-9]{4,}x")

_noted: ContextVar[set[ConversationForm] | None] = ContextVar("noted", default=None)


@contextmanager
def note_forms() -> Iterator[set[ConversationForm]]:
    """Collects the forms of the conversations that templates render inside of the block."""
    forms = set[ConversationForm]()
    token = _noted.set(forms)
    try:
        yield forms
    finally:
        _noted.reset(token)


Shape = frozenset[tuple[tuple[str, str], bool]]


def find_shape(messages: Messages) -> Shape:
    """Returns what a template can tell of a conversation without its texts: which kinds of messages
    follow each other, each pair with whether it comes more than once."""
    kinds = ["", *map(_find_kind, messages, match_results(messages)), ""]
    counts = Counter(itertools.pairwise(kinds))
    return frozenset((pair, count > 1) for pair, count in counts.items())


def _find_kind(message: Message, call: int | None) -> str:
    calls = message.get("tool_calls") or ()
    has_content = "content" if message["content"] else ""
    ids = [message.get("tool_call_id")]
    ids += [call.get("id") if isinstance(call, Mapping) else None for call in calls]
    words = [message["role"], has_content, min(len(calls), 2), is_text(message), call is None]
    return " ".join(map(str, [*words, *sorted({*map(_find_id_kind, ids)})]))


def _find_id_kind(id: Any) -> str:
    if not isinstance(id, str):
        return type(id).__name__
    return "short" if _SHORT_ID.fullmatch(id) else "text"


@dataclass(frozen=True)
class _Text:
    """A text of a conversation: content, a part of it, or the arguments of a call, of which it is
    the first argument that is text ("": there is none), under `key`."""

    text: str
    index: int
    path: Sequence[str | int]
    key: Sequence[str] = ()


def _list_texts(messages: Messages) -> Iterator[_Text]:
    for i, message in enumerate(messages):
        content: Any = message["content"]
        parts: list[Any] = content if is_text_parts(content) else []
        if content and isinstance(content, str):
            yield _Text(content, i, ["content"])
        for j, part in enumerate(parts):
            if part["text"]:
                yield _Text(part["text"], i, ["content", j, "text"])
        for j, call in enumerate(message.get("tool_calls") or ()):
            path = ["tool_calls", j, "function", "arguments"]
            match call:
                case {"function": {"arguments": dict() as arguments}}:
                    texts = [key for key, value in arguments.items() if _is_word(value)]
                    yield _Text(arguments[texts[0]] if texts else "", i, path, texts[:1])
                case {"function": {"arguments": str() as arguments}}:
                    yield _Text(arguments, i, path)
                case _:
                    pass


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


@dataclass(frozen=True)
class Canaries:
    """A conversation of the same shape whose texts are words of their own."""

    messages: list[Message]
    words: Sequence[str]

    def find_lost(self, prompt: str) -> Sequence[str]:
        return [word for word in self.words if word not in prompt]

    def are_in_order(self, prompt: str, forms: Forms) -> bool:
        """Returns whether a prompt has the words in the order of the conversation in these forms:
        results may stand behind their calls."""
        places = [prompt.find(word) for word in _list_words(write(self.messages, forms))]
        return places == sorted(places)


def find_between(before: Mapping[str, Any], message: Mapping[str, Any], prompt: str) -> str:
    last, first = _list_words(before)[-1:], _list_words(message)[:1]
    if not last or not first:
        return ""
    start = prompt.find(last[0]) + len(last[0])
    return prompt[start : prompt.find(first[0], start)]


def _list_words(data: Any) -> Sequence[str]:
    return _WORD.findall(json.dumps(data))


def write_canaries(messages: Messages) -> Canaries:
    return _write_words(messages, [*_list_texts(messages)])


def _write_words(messages: Messages, texts: Sequence[_Text]) -> Canaries:
    written = [*messages]
    words = [f"canary{number:04}x" for number in range(len(texts))]
    for text, word in zip(texts, words, strict=True):
        is_call = text.path[0] == "tool_calls"
        new = {"word": word} if is_call else word
        written[text.index] = _replace(written[text.index], text.path, new)
    return Canaries(written, words)


def _replace(value: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    changed: Any = {**value} if isinstance(value, Mapping) else [*value]
    changed[path[0]] = _replace(value[path[0]], path[1:], new)
    return changed


def check_arrival(messages: Messages, prompt: str, write: Callable[[list[Any]], str]) -> None:
    """Refuses a conversation with a message that is not in its prompt (TemplateError, with its JSON
    pointer). Reasoning may be left out, which templates do by design. A text that is not found in
    its place, or has a role of its own, is replaced by a word, and the prompt is rendered again
    (`write`)."""
    place = 0
    doubted: list[_Text] = []
    for text in _list_texts(messages):
        if not text.text.strip():
            continue
        found = _find(text.text, prompt, place)
        if found is None or messages[text.index]["role"] not in KNOWN_ROLES:
            doubted.append(text)
        elif text.path[-1] == "content":
            place = found
    if not doubted:
        return
    canaries = _write_words(messages, doubted)
    try:
        lost = canaries.find_lost(write(canaries.messages))
    except TemplateError:  # it reads the text: a name, or one that it parses
        return
    if lost:
        raise _refuse(messages, doubted[canaries.words.index(lost[0])])


def _find(text: str, prompt: str, place: int) -> int | None:
    """Returns where a text ends in a prompt, after a place; None: it is not there."""
    bare = text.strip()
    for spelled in (bare, json.dumps(bare, ensure_ascii=False)[1:-1], json.dumps(bare)[1:-1]):
        found = prompt.find(spelled, place)
        if found >= 0:
            return found + len(spelled)
    return None


def _refuse(messages: Messages, text: _Text) -> TemplateError:
    role = messages[text.index]["role"]
    if role not in KNOWN_ROLES:
        message = f"the chat template leaves out messages of the role {role!r}"
        return TemplateError(message, where=f"/messages/{text.index}/role", hint=_ROLE_HINT)
    what = "message" if text.path[0] == "content" else "call"
    message = f"the chat template leaves out this {what} of the role {role!r}"
    where = point_to(["messages", text.index, *text.path, *text.key])
    return TemplateError(message, where=where, hint=_HINT)


class RenderAsIs(Protocol):
    def __call__(
        self,
        messages: list[Message],
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
        opened: bool,
    ) -> str: ...


class FormFinder:
    """Finds the forms for one template, and remembers them by the shape of the conversation."""

    def __init__(self, render: RenderAsIs):
        self._render = render
        self._known: dict[tuple[Shape, bool], Forms] = {}

    def find(
        self,
        messages: list[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
    ) -> Forms:
        """Returns the forms in which the template writes all of a conversation, in its order. If
        there are none, those in which it writes most of it."""
        key = find_shape(messages), bool(tools)
        if key not in self._known:
            if len(self._known) >= MAX_SHAPES:
                self._known.clear()
            self._known[key] = self._try_forms(write_canaries(messages), tools, kwargs)
        noted = _noted.get()
        if noted is not None:
            noted.update(self._known[key])
        return self._known[key]

    def open_turn(self, prompt: str, kwargs: Mapping[str, Any]) -> str:
        """Returns a prompt whose turn of the model has begun. Gemma 4 forgets its header after the
        result of a call that has content beside it."""
        if self._closer and prompt.rstrip().endswith(self._closer):
            return prompt + self._find_header(kwargs)
        return prompt

    def _try_forms(
        self,
        canaries: Canaries,
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
    ) -> Forms:
        best: Forms = ()
        fewest = len(canaries.words) + 1  # lost words
        as_they_are: tuple[Forms, list[Message]] = (), canaries.messages
        for forms, written in itertools.chain([as_they_are], list_forms(canaries.messages)):
            try:
                prompt = self._render(written, tools=tools, kwargs=kwargs, opened=True)
            except TemplateLimitError:  # another form would need as many steps
                raise
            except TemplateError:
                continue
            lost = len(canaries.find_lost(prompt))
            is_in_order = not lost and canaries.are_in_order(prompt, forms)
            if is_in_order and self._begins_turns(written, prompt):
                return forms
            if lost < fewest:
                best, fewest = forms, lost
        return best

    def _begins_turns(self, messages: Sequence[Message], prompt: str) -> bool:
        """Returns whether each answer after a closed one has a header, which Gemma 4 leaves out."""
        for before, message in itertools.pairwise(messages):
            if before["role"] == message["role"] == "assistant" and self._closer:
                between = find_between(before, message, prompt)
                _, closer, rest = between.partition(self._closer)
                if closer and self._header_word not in rest:
                    return False
        return True

    @cached_property
    def _closer(self) -> str:
        """What the template writes after an answer; "": nothing, or what also begins a turn."""
        closed = self._write_question({"role": "assistant", "content": _ANSWER})
        closer = closed.rpartition(_ANSWER)[2].strip()
        opened = self._write_question(opened=True)
        return "" if opened.rstrip().endswith(closer) else closer

    @cached_property
    def _header_word(self) -> str:
        return "".join(self._find_header({}).split()[:1])

    def _find_header(self, kwargs: Mapping[str, Any]) -> str:
        opened = self._write_question(kwargs=kwargs, opened=True)
        return opened.removeprefix(self._write_question(kwargs=kwargs))

    def _write_question(
        self, *after: Message, kwargs: Mapping[str, Any] | None = None, opened: bool = False
    ) -> str:
        """Renders a question, and what follows it; "": the template refuses that."""
        forms = self.find([_QUESTION], None, kwargs or {})
        messages = write([_QUESTION, *after], forms)
        try:
            return self._render(messages, tools=None, kwargs=kwargs or {}, opened=opened)
        except TemplateError:
            return ""
