"""Which forms of messages a chat template accepts, and where it reads the tools if it reads no
variable `tools`; found by rendering probes."""

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from jinja2 import nodes

from constrained.errors import TemplateError
from constrained.prompt.messages import (
    MessageSpelling,
    copy_json,
    is_silent,
    is_text_parts,
    normalise,
    read_reasoning,
)
from constrained.prompt.template.conversation_forms import FOR_REFUSALS, Forms, list_forms, write

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
PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "probe_of_a_tool",
        "description": "A probe",
        "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}},
    },
}
_OF_REQUESTS = frozenset(
    {
        "allowed_tools",
        "function_call",
        "max_tool_calls",
        "parallel_tool_calls",
        "tool_call_id",
        "tool_calls",
        "tool_choice",
    }
)
"""Fields of requests and messages about tools: a template that reads one by its name expects its
value, and no list of tools."""
Message = dict[str, Any]
RenderProbe = Callable[[list[Message], dict[str, Any]], str]
"""Renders messages with variables; "": the template refuses them."""


@dataclass(frozen=True)
class ToolPlace:
    """A variable, or a field of the first system message, in which a template reads tools."""

    name: str
    is_field: bool
    as_text: bool

    def fill(
        self, tools: Sequence[Any], messages: list[Message], variables: dict[str, Any]
    ) -> None:
        """Puts tools into the variables or messages. A field that the client has set stays."""
        given: Any = copy_json(tools)
        if self.as_text:
            # Variables have the layout of llama.cpp; Phi-4-mini's field has one line.
            given = json.dumps(tools, ensure_ascii=False, indent=None if self.is_field else 2)
        if not self.is_field:
            variables[self.name] = given
            return
        if messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": ""})
        messages[0].setdefault(self.name, given)


def find_places(
    tree: nodes.Template, variables: Collection[str], render: RenderProbe
) -> Iterator[ToolPlace]:
    """Yields the places where a template writes the tools that it finds there, in its order: the
    `xml_tools` of SmolLM3, the field `tools` of Phi-4-mini's system message."""
    writes_any = _writes(ToolPlace("probe_of_a_field", is_field=True, as_text=True), render)
    for name, is_field in dict.fromkeys(_list_names(tree, variables)):
        if is_field and writes_any:
            continue
        for as_text in (False, True):
            place = ToolPlace(name, is_field, as_text)
            if _writes(place, render):
                yield place
                break


def _list_names(tree: nodes.Template, variables: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yields names that may be of tools, and whether each is that of a field."""
    for node in tree.find_all((nodes.Name, nodes.Getattr, nodes.Const)):
        match node:
            case nodes.Name(name=name) if name in variables:
                is_field = False
            case nodes.Getattr(attr=name) | nodes.Const(value=str(name)) if name.isidentifier():
                is_field = True
            case _:
                continue
        if ("tool" in name or "function" in name) and name not in _OF_REQUESTS:
            yield name, is_field


def _writes(place: ToolPlace, render: RenderProbe) -> bool:
    """Returns whether the template writes tools in this place, and not as code of Python."""
    messages: list[Message] = [{"role": "user", "content": "Hello"}]
    variables: dict[str, Any] = {}
    place.fill([PROBE_TOOL], messages, variables)
    text = render(messages, variables)
    return PROBE_TOOL["function"]["name"] in text and str([PROBE_TOOL]) not in text


class WriteOneForm(Protocol):
    def __call__(self, messages: list[dict[str, Any]], *, empty: str | None = "") -> str: ...


class AcceptedForms:
    def __init__(
        self, tree: nodes.Template, write_one_form: WriteOneForm, render: Callable[..., str]
    ):
        self._tree = tree
        self._write_one_form = write_one_form
        self._render = render

    def list(
        self, normal: list[dict[str, Any]], offer: list[Any]
    ) -> Iterator[tuple[Any, MessageSpelling]]:
        """Yields tools and spellings to try, the usual one first; the last fields vary first."""
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
        for before, tools, after in itertools.product(
            itertools.product(blank, named), offer, itertools.product(empty, as_text, joined)
        ):
            yield tools, MessageSpelling(*before, *after)

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
        missing, blank = self._write_call(None), self._write_call("")
        is_word = any(missing.replace(word, "", 1) == blank != missing for word in _WORDS_OF_NONE)
        return ("", None) if is_word else (None, "")

    def _write_call(self, empty: str | None) -> str:
        """Renders a question and a call, in one form; "": the template fails."""
        messages = write(normalise([PROBE_USER, _PROBE_CALL]), self._head)
        return self._write_one_form(messages, empty=empty)

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
        is_python = str(_PROBE_ARGUMENTS) in self._write_call(self._empty[0])
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
