"""Finds the forms of conversations in which a chat template writes all messages in their order."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Protocol

from constrained.errors import TemplateError
from constrained.prompt.template.conversation_forms import (
    Canaries,
    ConversationForm,
    Forms,
    Message,
    Shape,
    find_between,
    find_shape,
    list_forms,
    write,
    write_canaries,
)
from constrained.prompt.template.rendering import TemplateLimitError

MAX_SHAPES = 500
"""Of conversations, for which the forms are remembered."""
_ANSWER = "PROBE-OF-AN-ANSWER"
_QUESTION: Message = {"role": "user", "content": "PROBE-OF-A-QUESTION"}

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


class RenderAsIs(Protocol):
    """Renders messages in normal form; `opened`: with the generation prompt."""

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
    """Finds the forms for one template, and remembers them by the shape of the conversation.

    Args:
        render: renders messages as they are.
    """

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
        there are none, those in which it writes most of it.

        A conversation of the same shape is rendered, whose texts are words of their own.

        Args:
            messages: in normal form.
            tools, kwargs: as in `ChatTemplate.render`.

        Raises:
            TemplateLimitError: rendering takes too many steps.
        """
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
        """Returns whether each answer that follows a closed one has a header: Gemma 4 leaves that
        of a call after content out."""
        for before, message in itertools.pairwise(messages):
            if before["role"] == message["role"] == "assistant" and self._closer:
                between = find_between(before, message, prompt)
                _, closer, rest = between.partition(self._closer)
                if closer and self._header_word not in rest:
                    return False
        return True

    @cached_property
    def _closer(self) -> str:
        """What the template writes after an answer, without the white space around it; "": nothing,
        or what also begins a turn."""
        closed = self._write_question({"role": "assistant", "content": _ANSWER})
        closer = closed.rpartition(_ANSWER)[2].strip()
        opened = self._write_question(opened=True)
        return "" if opened.rstrip().endswith(closer) else closer

    @cached_property
    def _header_word(self) -> str:
        """The first word of what the template writes where the turn of the model begins."""
        return "".join(self._find_header({}).split()[:1])

    def _find_header(self, kwargs: Mapping[str, Any]) -> str:
        """Returns what the template writes where the turn of the model begins."""
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
