"""Which forms of messages a chat template accepts, found by rendering probes."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from jinja2 import nodes

from constrained.errors import TemplateError
from constrained.prompt.messages import is_silent, is_text_parts, normalise, read_reasoning
from constrained.prompt.template.conversation_forms import FOR_REFUSALS, Forms, list_forms, write
from constrained.prompt.template.tool_places import PROBE_TOOL

PROBE = "PROBE-OF-A-TEXT"
PROBE_USER: dict[str, Any] = {"role": "user", "content": PROBE}
_PROBE_ARGUMENTS = {"probe_key": "probe value"}
_PROBE_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "abcdefgh1",
            "type": "function",
            "function": {"name": "probe", "arguments": _PROBE_ARGUMENTS},
        }
    ],
}
_PROBE_CUT = '{"probe_key": "probe'
_WORDS_OF_NONE = ("None", "null", "none")


class TriedForm(NamedTuple):
    blank: str
    named: bool
    tools: Any
    empty: str | None
    as_text: bool
    joined: bool


class WriteOneForm(Protocol):
    def __call__(self, messages: list[dict[str, Any]], *, empty: str | None = "") -> str: ...


class AcceptedForms:
    """The forms of messages that a template accepts."""

    def __init__(
        self, tree: nodes.Template, write_one_form: WriteOneForm, render: Callable[..., str]
    ):
        self._tree = tree
        self._write_one_form = write_one_form
        self._render = render

    def list(self, normal: list[dict[str, Any]], offer: list[Any]) -> Iterator[TriedForm]:
        """Returns the forms to try, the usual one first; the last fields vary first."""
        blank, named, empty = ("",), (False,), ("",)
        as_text, joined = (False,), (False,)
        if any(map(is_silent, normal)):
            # Ministral refuses a turn with neither content nor calls: one that was cut during
            # reasoning.
            blank = ("", " ")
        if any(read_reasoning(message) is not None for message in normal):
            # gpt-oss reads "thinking", but refuses it together with content and a call.
            named = (True, False)
        if any("tool_calls" in message for message in normal):
            # Most templates write arguments with tojson, some put them into the text as they are.
            # Command A reasoning reads the first part of the content, which has to exist.
            empty, as_text = (*self._empty, " "), self._argument_forms
        if any(is_text_parts(message["content"]) for message in normal):
            joined = self._part_forms
        choices = (blank, named, offer, empty, as_text, joined)  # as the fields of `TriedForm`
        return itertools.starmap(TriedForm, itertools.product(*choices))

    @cached_property
    def writes_text_arguments(self) -> bool:
        """Whether arguments that are no object, such as cut ones, are in the prompt: as a string,
        or as they are. Gemma 4 writes them within a second pair of braces."""
        function = {"name": "probe", "arguments": _PROBE_CUT}
        call = {**_PROBE_CALL["tool_calls"][0], "function": function}
        messages = [PROBE_USER, {**_PROBE_CALL, "tool_calls": [call]}]
        try:
            # Nemotron-Nano-v2 leaves a last call out of a prompt that opens a turn.
            text = self._render(messages, [PROBE_TOOL], add_generation_prompt=False)
        except TemplateError:
            return False
        return json.dumps(_PROBE_CUT) in text or (
            _PROBE_CUT in text and "{" + _PROBE_CUT not in text
        )

    @cached_property
    def _part_forms(self) -> tuple[bool, bool]:
        try:
            writes_text = PROBE in self._render([PROBE_USER])
        except TemplateError:
            writes_text = True
        return writes_text, not writes_text

    @cached_property
    def _empty(self) -> tuple[str | None, ...]:
        """The contents to try for a message that only calls tools. With None, OpenAI's form, 15 of
        70 templates fail or write it as a word. With "", the two of DeepSeek-R1-Distill are wrong.
        So None comes first if the template tests for it, unless it writes it as a word, which the
        model would copy before each call."""
        if not _tests_content_for_none(self._tree):
            return ("",)
        missing = self._write_probe([PROBE_USER, _PROBE_CALL], empty=None)
        blank = self._write_probe([PROBE_USER, _PROBE_CALL])
        is_word = any(missing.replace(word, "", 1) == blank != missing for word in _WORDS_OF_NONE)
        return ("", None) if is_word else (None, "")

    def _write_probe(self, messages: Sequence[Mapping[str, Any]], *, empty: str | None = "") -> str:
        """Renders a question and what follows it, in one form; "": the template fails."""
        return self._write_one_form(write(normalise(messages), self._head), empty=empty)

    @cached_property
    def _head(self) -> Forms:
        if PROBE in self._write_one_form([PROBE_USER]):
            return ()
        for forms, written in list_forms([PROBE_USER], FOR_REFUSALS):
            if PROBE in self._write_one_form(written):
                return forms
        return ()

    @cached_property
    def _argument_forms(self) -> tuple[bool, bool]:
        """Whether to pass arguments as JSON text, in the order to try. Objects come first, unless
        the template writes them in Python's syntax, as that of Phi-4-mini does."""
        is_python = str(_PROBE_ARGUMENTS) in self._write_probe(
            [PROBE_USER, _PROBE_CALL], empty=self._empty[0]
        )
        return is_python, not is_python


def _tests_content_for_none(tree: nodes.Template) -> bool:
    for test in tree.find_all(nodes.Test):
        if test.name != "none":
            continue
        match test.node:
            case nodes.Getattr(attr="content") | nodes.Getitem(arg=nodes.Const(value="content")):
                return True
            case _:
                pass
    return False
