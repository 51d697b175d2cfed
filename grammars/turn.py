"""An assistant turn: tools, calls, the parsed events of a turn, its start state after the prompt,
and the policy of a request."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from grammars.errors import PolicyError
from grammars.schema.json_values import Json
from grammars.schema.members import KeyOrder as KeyOrder
from grammars.schema.nodes import Schema, Violation
from grammars.spelling.names import check_names
from grammars.wire.format import Reasoning

THINKING_TAGS = ("<thinking>", "</thinking>")
"""The tags around the reasoning of models whose template has no reasoning block."""


@dataclass(frozen=True)
class Tool:
    """A tool that the model may call. If it is not strict, calls that fail a check after generation
    are delivered nevertheless, with `errors`."""

    name: str
    schema: Schema
    description: str = ""
    strict: bool = True


def decode_arguments(arguments: object) -> object:
    """Returns arguments as a value. They may be JSON text, as in OpenAI's API; text that is not
    JSON, or nests too deeply to be read, stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (RecursionError, ValueError):
        return arguments


@dataclass(frozen=True)
class CallConfidence:
    """How sure the model was of a call, from 0 to 1.

    Each number is the lowest probability of a choice, among the tokens that the mask allowed.

    Args:
        lowest: in the whole call.
        name: in the start of the call and its name: that there is a call, and of this tool.
        arguments: in each argument.
    """

    lowest: float
    name: float
    arguments: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class ToolCall:
    """A tool call of an assistant turn.

    Args:
        name: the name that the model wrote, even if no such tool was offered.
        arguments: the arguments by name. A value that fits no type of the schema is a string.
        errors: why the call is not valid, each with a JSON pointer into the call (`/name`,
            `/arguments/...`). Empty if the call is valid.
        id: the id of the call; None if it has none.
        truncated: True if the tokens ran out inside the call. The call was then closed in the
            shortest way that the schema allows: the arguments are valid, but may be incomplete.
        confidence: how sure the model was, with the option `trace`; otherwise None. Ignored by
            `==`.
    """

    name: str
    arguments: dict[str, Json]
    errors: tuple[Violation, ...] = ()
    id: str | None = None
    truncated: bool = False
    confidence: CallConfidence | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        parts = [repr(self.name), repr(self.arguments)]
        for name in ("errors", "id", "truncated"):
            part = getattr(self, name)
            if part:
                parts.append(f"{name}={part!r}")
        return f"ToolCall({', '.join(parts)})"

    @property
    def valid(self) -> bool:
        """True if the tool was offered and the arguments fit its schema."""
        return not self.errors


@dataclass(frozen=True)
class Turn:
    """An assistant turn; `unfinished` is the text of a call that was cut off."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    unfinished: str = ""


@dataclass(frozen=True)
class ReasoningDelta:
    """Event: the reasoning continues.

    Args:
        text: the new piece of text.
    """

    text: str


@dataclass(frozen=True)
class ContentDelta:
    """Event: the content continues.

    Args:
        text: the new piece of text.
    """

    text: str


@dataclass(frozen=True)
class CallOpened:
    """Event: a tool call begins.

    Args:
        index: the number of the call in this turn, from 0.
        name: the name of the tool.
    """

    index: int
    name: str


@dataclass(frozen=True)
class ArgumentStart:
    """The value of an argument begins; part of `ArgumentsDelta.boundaries`.

    Args:
        key: the name of the argument.
    """

    key: str


@dataclass(frozen=True)
class ArgumentEnd:
    """The value of an argument is complete; part of `ArgumentsDelta.boundaries`.

    Args:
        key: the name of the argument.
        value: its value.
    """

    key: str
    value: Json


Boundary: TypeAlias = ArgumentStart | ArgumentEnd


@dataclass(frozen=True)
class ArgumentsDelta:
    """Event: the arguments of a call continue.

    The texts of all deltas of a call, joined, are one JSON object, whatever the wire format of the
    model is.

    Args:
        index: the number of the call in this turn, from 0.
        text: the new piece of JSON.
        boundaries: which arguments begin and end in this piece, in order.
    """

    index: int
    text: str
    boundaries: tuple[Boundary, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class CallRead:
    """Event: a tool call is complete.

    Args:
        index: the number of the call in this turn, from 0.
        call: the call with all of its arguments.
    """

    index: int
    call: ToolCall


@dataclass(frozen=True)
class CallCut:
    """Event: the turn ended inside a call, which is therefore not delivered.

    Args:
        text: the text of the call so far, as the model wrote it.
    """

    text: str


Event: TypeAlias = ReasoningDelta | ContentDelta | CallOpened | ArgumentsDelta | CallRead | CallCut


def collect(events: Sequence[Event]) -> Turn:
    """Returns the turn that the events add up to."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    unfinished = ""
    for event in events:
        match event:
            case ContentDelta(text):
                content.append(text)
            case ReasoningDelta(text):
                reasoning.append(text)
            case CallRead(_, call):
                calls.append(call)
            case CallCut(text):
                unfinished += text
            case CallOpened() | ArgumentsDelta():
                pass
    return Turn("".join(content), "".join(reasoning), tuple(calls), unfinished=unfinished)


class Start(StrEnum):
    """Where the rendered prompt leaves the model: before, inside or after its reasoning block."""

    PLAIN = "plain"
    OPEN = "open"
    CLOSED = "closed"

    @property
    def words(self) -> str:
        """Where the turn begins, for users."""
        places = {"plain": "before any", "open": "inside its", "closed": "after its"}
        return f"{places[self.value]} reasoning"


@dataclass(frozen=True)
class State:
    """The start of a turn.

    Args:
        start: where the reasoning block is.
        pad: the white space of an opened or closed block that the prompt has left for the model.
        lead: the beginning of the content or the call that comes next, if the prompt has it.
        calls: how many calls the conversation has so far; None: not known, any number may follow.
        header: the header of the turn, if the prompt lacks it. The turn may begin with it.
    """

    start: Start = Start.PLAIN
    pad: str = ""
    lead: str = ""
    calls: int | None = None
    header: str = ""


class Choice(StrEnum):
    """Whether the turn calls a tool; the values are those of OpenAI's `tool_choice`."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class Think(StrEnum):
    """Whether the model reasons before it answers; all but `OPTIONAL` is enforced by the mask."""

    OPTIONAL = "optional"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True)
class ReasoningStart:
    """What a turn may begin with, as to its reasoning block.

    Args:
        is_open: the prompt has opened the block, its text comes next.
        closes_at_once: its closer comes next, without any text.
        instead: the texts that may come instead of a block. Some models write the closer once more
            after a prompt that has closed the block, or a lone closer or an empty block.
    """

    is_open: bool = False
    closes_at_once: bool = False
    may_open: bool = False
    must_open: bool = False
    instead: tuple[str, ...] = ()


def find_reasoning_start(
    block: Reasoning | None,
    state: State,
    think: Think = Think.OPTIONAL,
    *,
    has_answer: bool = False,
) -> ReasoningStart:
    """Returns what a turn may begin with after a prompt.

    | prompt | think     | begins with                                       |
    | ------ | --------- | ------------------------------------------------- |
    | open   | forbidden | the closer                                        |
    | open   | others    | the text of the block                             |
    | closed | any       | perhaps the closer once more                      |
    | plain  | forbidden | perhaps what is `skipped`: a closer or a block    |
    | plain  | optional  | perhaps the opener, or that                       |
    | plain  | required  | the opener                                        |

    Neither comes where the prompt has begun what follows (`lead`), and no lone closer in front of
    an answer of a given form.
    """
    if state.start is Start.OPEN:
        return ReasoningStart(is_open=True, closes_at_once=think is Think.FORBIDDEN)
    if block is None or state.lead:
        return ReasoningStart()
    if state.start is Start.CLOSED:
        return ReasoningStart(instead=() if has_answer else (block.closer.text,))
    is_required = think is Think.REQUIRED
    return ReasoningStart(
        may_open=think is not Think.FORBIDDEN,
        must_open=is_required,
        instead=() if has_answer or is_required else block.skipped,
    )


@dataclass(frozen=True)
class JsonAnswer:
    """Content that is one JSON value which fits a schema."""

    schema: Schema


@dataclass(frozen=True)
class RegexAnswer:
    """Content that a regular expression matches from its first character to its last."""

    regex: str


@dataclass(frozen=True)
class ChoiceAnswer:
    """Content that is one of these texts."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class GrammarAnswer:
    """Content that a grammar in llguidance's Lark dialect describes, from its rule `start`."""

    lark: str


Answer: TypeAlias = JsonAnswer | RegexAnswer | ChoiceAnswer | GrammarAnswer


@dataclass(frozen=True)
class Policy:
    """The turns that a request allows.

    Args:
        names: the tools that may be called; None means all that are offered.
        answer: the form of the content; None: any text. With tools, the turn is either calls or
            such an answer.
        excluded: texts that content and reasoning cannot contain, besides the markers of the
            format: those around results in the prompt, which models copy.
    """

    choice: Choice = Choice.AUTO
    names: tuple[str, ...] | None = None
    parallel: bool = True
    think: Think = Think.OPTIONAL
    answer: Answer | None = None
    key_order: KeyOrder = KeyOrder.ANY
    excluded: tuple[str, ...] = ()

    @property
    def requires_output(self) -> bool:
        """True if a call or an answer has to be there, even if the tokens run out first. No content
        comes before it."""
        return self.choice is Choice.REQUIRED or self.answer is not None

    @classmethod
    def named(cls, name: str, think: Think = Think.OPTIONAL) -> "Policy":
        """Returns the policy for exactly one call of exactly this tool."""
        return cls(Choice.REQUIRED, (name,), parallel=False, think=think)

    def select(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Returns the tools that may be called, in the order of the offer. Raises ToolError for two
        of one name, PolicyError for an unknown name, or a call required without any tool."""
        offered = [tool.name for tool in tools]
        check_names(offered)
        for name in self.names or ():
            if name not in offered:
                hint = f"Offered: {', '.join(offered) or 'none'}"
                message = f"tool_choice names the unknown tool {name!r}"
                raise PolicyError(message, where="/tool_choice", hint=hint)
        selected = tuple(tools)
        if self.names is not None:
            selected = tuple(tool for tool in tools if tool.name in self.names)
        if self.choice is Choice.REQUIRED and not selected:
            hint = 'Offer one, or use tool_choice "auto"'
            message = "a call is required, but no tool is offered"
            raise PolicyError(message, where="/tool_choice", hint=hint)
        if self.choice is Choice.NONE:
            return ()
        return selected
