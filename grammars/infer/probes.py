"""Conversations that differ in one thing, rendered with a chat template."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from grammars.errors import DetectError, Error, RenderError, ToolError
from grammars.infer.text import common_prefix, common_suffix, match_opener, skip_words
from grammars.parse.render import render
from grammars.schema.json_values import Json
from grammars.turn import State, ToolCall, Turn
from grammars.wire.format import Format, Reasoning, count_common

NAMES = ("probe_alpha", "probe_beta", "probe_gamma")
KEYS = ("first_key", "second_key", "third_key")  # in the order of `dictsort`
VALUES = ("one-value", "two-value", "three-value")
USER, AGAIN, TEXT = "PROBE-USER", "PROBE-AGAIN", "PROBE-TEXT"
THOUGHT = "PROBE-THOUGHT"
QUESTION: dict[str, Json] = {"role": "user", "content": USER}
RICH: dict[str, Json] = {
    "second_key": {"b": [1, 'ü"/', True, False, None], "A": {"deep": []}},
    "first_key": 1.5,
}

ARGUMENTS: dict[str, Json] = {
    "a text": "Rome",
    "an empty text": "",
    "a text with quotes": 'it\'s "so" \\ `x`',
    "a text of two lines": "one\ntwo\n\nfour",
    "a text beyond ASCII": "Zürich 東京 🌧",
    "a text with white space around it": " a \n",
    "a text with brackets": "a < b && {c} [d] & 1 > 0",
    "a text that reads as a number": "3",
    "an integer": -40,
    "a large integer": 2**53 + 1,
    "a number": 0.25,
    "a whole number": 3.0,
    "a tiny number": 1e-07,
    "true": True,
    "false": False,
    "null": None,
    "an empty list": [],
    "a list": [1, "a'b", [True, None], {"k": 0.5}],
    "an empty object": {},
    "an object": {"z": 'x"y\n', "a": {"b": [False, "ü", {}]}, "B": None},
}
"""Arguments of all kinds, each with a description."""


@dataclass(frozen=True)
class Probe:
    """A turn that the template and its format write. `name`: what is special about it."""

    name: str
    content: str = ""
    arguments: tuple[dict[str, Json], ...] = ()


_A, _B, _C = KEYS
_MANY: dict[str, Json] = {_A: "x y", _B: [1, {"k": None}], _C: -2}
_LOOK = "I look it up."
COMPARED = (
    Probe("some content", "It is sunny."),
    Probe("content of two lines", "One.\n\nTwo: ü."),
    *(Probe(kind, arguments=({_A: value},)) for kind, value in ARGUMENTS.items()),
    Probe("no argument", "", ({},)),
    Probe("content and no argument", _LOOK, ({},)),
    Probe("three arguments", "", (_MANY,)),
    Probe("content and three arguments", _LOOK, (_MANY,)),
    Probe("two calls, two arguments", "", ({_A: "x"}, {_B: 2, _C: True})),
    Probe("content and two calls, two arguments", _LOOK, ({_A: "x"}, {_B: 2, _C: True})),
    Probe("two calls without arguments", "", ({}, {})),
    Probe("content and two calls without arguments", _LOOK, ({}, {})),
    Probe("three calls", "", (_MANY, {}, {_C: {"k": "v"}})),
    Probe("content and three calls", _LOOK, (_MANY, {}, {_C: {"k": "v"}})),
)
"""What the history has of these turns is compared with what the format writes."""
TRIED = (
    Probe("content", TEXT),
    Probe("one call", "", ({_A: "Rome"},)),
    Probe("two calls", "", ({_A: "Rome"}, {_A: "two words", _B: "Oslo"})),
    Probe("content and a call", TEXT, ({_A: "Rome"},)),
)
"""These turns are written after the generation prompt and read back."""
THOUGHTFUL = (
    Probe("a call", "", ({_A: "x"},)),
    Probe("content", "It is so."),
    Probe("content and a call", "It is so.", ({_A: "x"},)),
)
"""These turns are compared with a thought in front."""

Scheme = Callable[[str, int], str]
"""Makes the id of a call of its name and its number."""


class Render(Protocol):
    """Renders a conversation. Raises an `Error` if the template refuses it."""

    def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str: ...


def remember(render_chat: Render) -> Render:
    """Returns what renders each conversation once: many facts are read off the same one."""
    known: dict[str, str | Error] = {}

    def find(
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        /,
        **kwargs: Any,
    ) -> str:
        # Not as JSON: 1, 1.0 and true differ, and so does the order of keys.
        key = repr((messages, tools is None, kwargs))
        if key not in known:
            try:
                known[key] = render_chat(messages, tools, **kwargs)
            except Error as error:
                known[key] = error
        found = known[key]
        if isinstance(found, Error):
            raise found
        return found

    return find


def plain_id(name: str, index: int) -> str:
    """Returns an id that every template accepts: nine letters and digits."""
    return f"abcdefgh{index + 1}"


def distinct_id(name: str, index: int) -> str:
    """Returns an id made of the name and the number, for templates that write nothing else."""
    return f"functions.{name}:{index}"


def long_id(name: str, index: int) -> str:
    """Returns an id in the form that servers use. Templates that want nine characters refuse it."""
    return f"call_probe-12345678{index}"


def make_parameters(properties: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the schema of arguments, the first of which is required."""
    required: Json = [next(iter(properties))]
    return {"type": "object", "properties": dict(properties), "required": required}


def make_tool(name: str, description: str, properties: Mapping[str, Json]) -> dict[str, Json]:
    """Returns a tool in OpenAI's shape. Its first parameter is required."""
    parameters: Json = make_parameters(properties)
    function: Json = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def show_call(call: ToolCall) -> dict[str, Json]:
    """Returns a call in OpenAI's shape, with its arguments as an object."""
    function: Json = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


_PROPERTIES: dict[str, Json] = {key: {"type": "string", "description": key} for key in KEYS}
PARAMETERS = make_parameters(_PROPERTIES)
"""The schema of the arguments of every probed tool."""
_TOOLS = [make_tool(name, "Probe", _PROPERTIES) for name in NAMES]


@dataclass(frozen=True)
class ProbedTemplate:
    render_chat: Render
    reasoning: Reasoning | None
    scheme: Scheme = plain_id  # makes the ids of the calls
    lead: str = ""  # what the generation prompt has written already of a call or of content
    # The header of a turn may have other white space than the generation prompt, because the source
    # of the template is indented.
    spaced: bool = False

    @property
    def call(self) -> ToolCall:
        return self.calls({KEYS[0]: VALUES[0]})[0]

    def calls(self, *arguments: Mapping[str, Json]) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for i, given in enumerate(arguments):
            calls.append(ToolCall(NAMES[i], dict(given), id=self.scheme(NAMES[i], i)))
        return tuple(calls)

    def render(
        self, *messages: Any, with_tools: bool = True, opening: bool = False, **kwargs: Any
    ) -> str:
        """Returns the prompt of a question and these messages; "" if the template refuses them."""
        tools = _TOOLS if with_tools else None
        try:
            return self.render_chat(
                [QUESTION, *messages], tools, add_generation_prompt=opening, **kwargs
            )
        except Error:
            return ""

    def ask(self, *messages: Any, opening: bool = False) -> str | None:
        """Returns the text after the user's text; None if the template refuses the conversation."""
        text = self.render(*messages, opening=opening)
        if not text:
            return None
        _, found, after = text.rpartition(USER)
        return after if found else ""

    @cached_property
    def header(self) -> str:
        """The text that opens every assistant turn."""
        with_content = self.answer(Turn(TEXT))
        with_call = self.answer(Turn(calls=(self.call,)))
        turns = list(filter(None, (with_content, with_call)))
        written = common_prefix(*turns)
        prompt = self.ask(opening=True) or ""
        if self.spaced:
            return prompt
        header = common_prefix(written, prompt)
        if turns and all(turn.startswith(prompt) for turn in turns):
            header = prompt  # its last word may run into the text of a turn
        elif turns and all(turn.startswith(prompt.rstrip()) for turn in turns):
            # Some lack the line break of the prompt; the turn begins after it.
            header = max(header, prompt.rstrip(), key=len)
        # Some write instructions in front of the prompt, and not in the history.
        if header not in (written, prompt):
            before, found, _ = written.rpartition(self.prompt or written)
            if common_suffix(written, prompt):
                header = written
            elif found:  # after it, the history has a block of reasoning that is empty
                header = before + found
        return header.removesuffix(self.lead)

    @property
    def prompted(self) -> str:
        """The part of the header that the generation prompt writes; all of it if that is not
        known."""
        prompt = self.prompt
        return prompt if prompt and self.header.endswith(prompt) else self.header

    @property
    def prompt(self) -> str:
        """The generation prompt; "" if it is not known."""
        opened, plain = self.ask(opening=True), self.ask(opening=False)
        return "" if opened is None or plain is None else opened[count_common(opened, plain) :]

    def answer(self, turn: Turn) -> str | None:
        """As `ask`, for this turn."""
        return self.ask(show_message(turn))

    def ask_after_result(self, call: ToolCall, *messages: Any, opening: bool = False) -> str | None:
        result = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": "1"}
        called = show_message(Turn(calls=(call,)))
        return self.ask(called, result, *messages, opening=opening)

    def body(self, turn: Turn) -> str | None:
        """Returns the turn as the template writes it, after the header; None if it refuses it."""
        text = self.answer(turn)
        if text is not None and self.spaced:
            return skip_words(text, self.header)
        if text is None or not text.startswith(self.header):
            return None
        return text[len(self.header) :]

    @property
    def is_spaced(self) -> bool:
        """True if turns begin with the generation prompt, but for white space."""
        turns = (Turn(TEXT), Turn(calls=(self.call,)))
        prompt = self.ask(opening=True) or ""
        for turn in turns:
            text = self.answer(turn) or ""
            if not prompt.strip() or text.startswith(prompt) or skip_words(text, prompt) is None:
                return False
        return True

    def read(self, turn: Turn) -> str:
        """Returns the body without reasoning and leading space; raises a `DetectError` if it is
        refused."""
        body = self.body(turn)
        if body is None:
            raise DetectError("the chat template refuses a plain conversation with a tool call")
        return self.strip(body)

    def find_indent(self, turn: Turn) -> str:
        """Returns the white space in front of the text that `read` returns."""
        body = self.body(turn) or ""
        head = body.removesuffix(self.strip(body))
        return head[len(head.rstrip()) :]

    def strip(self, body: str) -> str:
        """Returns a body without the reasoning block that templates write into the history."""
        block = self.reasoning
        if block:
            body = body.lstrip()
            if opened := match_opener(block.opener.text).match(body):
                thought, closed, rest = body.partition(block.closer.text)
                # One template opens the block in front of content, and never closes it.
                body = rest if closed else thought[opened.end() :]
            elif self.header.rstrip().endswith(block.opener.text):
                thought, closed, rest = body.partition(block.closer.text)
                body = rest if closed else thought
            else:
                body = body.removeprefix(block.closer.text)
        return body.lstrip()


def write(turn: Turn, format: Format, calls: int | None = None) -> str:
    """Returns the text of a turn after so many calls; "" if the format cannot write it."""
    try:
        return render(turn, format, state=State(calls=calls)).strip()
    except (RenderError, ToolError):
        return ""


def show_message(turn: Turn) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "assistant", "content": turn.content}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = list(map(show_call, turn.calls))
    return message
