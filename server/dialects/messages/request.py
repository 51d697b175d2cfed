"""Messages: the request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constrained.errors import Error, ReplyError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.answers import read_response_format
from constrained.prompt.job import Job
from grammars.schema.json_values import JsonObject
from grammars.turn import Answer
from server.dialects.messages.conversation import Conversation, is_marked, read_conversation
from server.dialects.messages.documents import has_citations
from server.errors import refuse
from server.settings import Settings
from server.turns.fields.common_fields import (
    ConfidenceFields,
    Fields,
    RefusedField,
    RepetitionFields,
    RequestFields,
    find_ignored_of_tools,
)
from server.turns.fields.openai_fields import replace_given
from server.turns.fields.request_lists import Objects, Texts
from server.turns.offered_tools import (
    NO_MCP,
    OfferedTools,
    find_function_name,
    read_offered_tools,
)
from server.turns.reasoning import Effort, ReasoningRequest
from server.turns.request_checks import check_size, renaming_place
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

HARMLESS = frozenset(
    "metadata service_tier inference_geo speed user_profile_id workspace_id diagnostics".split()
)
"""Fields that have no effect here, but that the reply does not name as ignored."""
TOOL_FIELDS = ("name", "description", "input_schema", "strict", "repeatable")
"""Fields of a tool that are in the prompt."""
OTHER_TOOL_FIELDS = ("type", "cache_control", "defer_loading", "eager_input_streaming")
"""Other fields of a tool that are supported, or that need no effect."""
OWN_TOOLS = (None, "custom")  # the types of tools that the client defines itself
# With this code, the SDK sends the whole conversation.
NO_THREADS = RefusedField(
    "this server keeps no threads: send the whole conversation", "thread_unsupported_request"
)
REFUSED = {"thread": NO_THREADS, "mcp_servers": RefusedField(NO_MCP)}
NO_COMPACTION = RefusedField(
    "this server does not compact conversations: leave the field out, and ask for a summary in the "
    "last message"
)
REFUSED_BESIDES = {**REFUSED, "compaction": NO_COMPACTION}  # of a message, and not of a count
RENAMED = {"/reasoning_budget": "/thinking/budget_tokens", "/stop": "/stop_sequences"}
"""The library's names of fields, replaced by the dialect's names in errors."""


class ThinkingOptions(Fields):
    """Whether to think, and how much."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    """Whether to think."""
    budget_tokens: int | None = Field(None, ge=1)
    """The maximum number of thinking tokens."""
    display: Literal["summarized", "omitted", "updates"] | None = None
    """`omitted`: thinking blocks have no text. Otherwise they have the whole text."""


class OutputOptions(Fields):
    """The reasoning effort, and the format of the answer."""

    effort: Effort | None = None
    """The reasoning effort."""
    format: JsonObject | None = None
    """The format of the reply: `json_schema` with a schema."""


class ToolChoice(Fields):
    """Which tools the model may or must call."""

    type: Literal["auto", "any", "tool", "none"]
    """`any`: a call is required; `tool`: a call of the tool `name` is required."""
    name: str | None = None
    """The tool that must be called."""
    disable_parallel_tool_use: bool | None = None
    """At most one call."""


class CountRequest(RequestFields, RepetitionFields, ConfidenceFields):
    """A request to /v1/messages/count_tokens. Unlike /v1/messages, it needs no `max_tokens`."""

    messages: Objects = Field(min_length=1)
    """The conversation, oldest message first. If the last message is the assistant's, the model
    continues it."""
    max_tokens: int | None = Field(None, ge=1)
    """The maximum number of tokens in the reply."""
    system: str | Objects | None = None
    """The system prompt: a text, or blocks of text."""
    tools: Objects | None = None
    """The tools that the model may call, with the JSON schemas of their inputs. The prompt has all
    of them, also those with `defer_loading`."""
    tool_choice: ToolChoice | None = None
    """Whether and which tool the model has to call."""
    stop_sequences: Texts | None = None
    """Texts at which the reply ends; they are not part of it."""
    temperature: float | None = Field(None, ge=0)
    """The randomness of sampling; 0: always the likeliest token. Default: the model's own."""
    top_p: float | None = Field(None, ge=0, le=1)
    """Sample from the likeliest tokens with this total probability."""
    top_k: int | None = Field(None, ge=0)
    """Sample from this number of likeliest tokens; 0: from all."""
    thinking: ThinkingOptions | None = None
    """Whether to think, and how much."""
    output_config: OutputOptions | None = None
    """The reasoning effort, and the format of the reply."""
    output_format: JsonObject | None = None
    """The former name of the `format` of `output_config`."""
    cache_control: JsonObject | None = None
    """Sets a cache breakpoint after the conversation."""
    stream: bool | None = None
    """Send the reply in parts, as server-sent events."""

    harmless = HARMLESS
    refused = REFUSED

    def read(self, service: Service) -> "DecodedRequest":
        tools = _read_tools(self.tools or (), service.settings)
        conversation = read_conversation(self.system, self.messages)
        breakpoints = self._find_breakpoints(conversation)
        self._check_choice(tools)
        job = Job(
            messages=conversation.messages,
            tools=tools.functions,
            tool_choice=self._read_choice(),
            max_repetition=self.read_max_repetition(service.settings),
            answer=self._read_answer(service),
            prefill=conversation.prefill,
            prefill_name="",
            # A breakpoint after system messages changes nothing: every prompt has one there.
            breakpoints=tuple(mark for mark in breakpoints if mark > conversation.leading),
        )
        generation = GenerationOptions(
            max_tokens=self.max_tokens,
            sampling=replace_given(
                service.model.sampling,
                temperature=self.temperature,
                top_p=self.top_p,
                top_k=self.top_k,
            ),
            stop=tuple(self.stop_sequences or ()),
            reports_cached=self.stream is True,
            confidence_policy=self.read_confidence_policy(),
        )
        turn_request = TurnRequest(
            job,
            generation,
            reasoning=self._read_reasoning(conversation.prefill),
            ignored_fields=conversation.unread,
            tools=tools,
        )
        shows_thinking = self.thinking is None or self.thinking.display != "omitted"
        return DecodedRequest(
            self.complete(service, turn_request),
            conversation,
            breakpoints,
            shows_thinking=shows_thinking,
        )

    def find_ignored(self) -> tuple[str, ...]:
        ignored = [*super().find_ignored()]
        if has_citations(self.messages):
            ignored.append("citations")
        known = (*TOOL_FIELDS, *OTHER_TOOL_FIELDS)
        ignored += find_ignored_of_tools(self.tools or (), known, OWN_TOOLS)
        return tuple(ignored)

    def _find_breakpoints(self, conversation: Conversation) -> tuple[int, ...]:
        """Returns how many messages are before each cache breakpoint, in increasing order. A
        message that the model continues has no breakpoint after it."""
        count = len(conversation.messages)
        marks = list(conversation.marks)
        if self.cache_control is not None:
            marks.append(count)
        if any(map(is_marked, self.tools or ())):
            marks.append(conversation.leading)
        message_count = count - conversation.prefill
        return tuple(sorted({min(mark, message_count) for mark in marks}))

    def _check_choice(self, offered: OfferedTools) -> None:
        """Refuses the choice of a tool that is left out, unless another one has its name."""
        choice = self.tool_choice
        if choice is None or choice.type != "tool":
            return
        if not choice.name:
            raise refuse("it names no tool", "/tool_choice/name")
        if choice.name in map(find_function_name, offered.functions):
            return
        for tool in self.tools or ():
            kind = tool.get("type")
            if tool.get("name") == choice.name and offered.skips(kind):
                message = f"it asks for {choice.name!r} of type {kind!r}, which this server lacks"
                raise refuse(message, "/tool_choice/name", "unsupported_tool")

    def _read_choice(self) -> JsonObject | None:
        choice = self.tool_choice
        if choice is None:
            return None
        given: JsonObject = {"type": choice.type}
        if choice.type == "tool":
            given["name"] = choice.name
        if choice.disable_parallel_tool_use:
            given["disable_parallel_tool_use"] = True
        return given

    def _read_answer(self, service: Service) -> Answer | None:
        where, given = "/output_format", self.output_format  # the field's name in the beta
        if self.output_config is not None and self.output_config.format is not None:
            where, given = "/output_config/format", self.output_config.format
        with renaming_place("/response_format", where):
            check_size(given, service.settings, "/response_format")
            return read_response_format(given)

    def _read_reasoning(self, prefill: bool) -> ReasoningRequest:
        effort = self.output_config.effort if self.output_config else None
        match self.thinking:
            case None if effort is not None:
                return ReasoningRequest(Effort.NONE)  # thinking is off; the effort is the answer's
            case None:
                return ReasoningRequest()
            case ThinkingOptions(type="disabled"):
                return ReasoningRequest(Effort.NONE)
            case ThinkingOptions(type="enabled", budget_tokens=budget):
                # a prefilled turn starts with its content, after any thinking
                return ReasoningRequest(effort or Effort.HIGH, budget, must=not prefill)
            case _:
                return ReasoningRequest(effort or Effort.HIGH)


class MessagesRequest(CountRequest):
    """A request to /v1/messages."""

    # Optional for a count of tokens, required for a message.
    max_tokens: int = Field(ge=1)  # pyright: ignore[reportIncompatibleVariableOverride]
    """The maximum number of tokens in the reply."""

    refused = REFUSED_BESIDES


@dataclass(frozen=True)
class DecodedRequest:
    """A request after it has been read; and how many messages are before each cache breakpoint."""

    turn_request: TurnRequest
    conversation: Conversation
    breakpoints: tuple[int, ...] = ()
    shows_thinking: bool = True

    def count_breakpoint_tokens(self, turn: CompiledTurn) -> int:
        """Returns the number of prompt tokens before the last breakpoint; 0: there is none."""
        if not self.breakpoints:
            return 0
        if self.breakpoints[-1] <= self.conversation.leading:
            return turn.prompt.breakpoints.shared
        return max(turn.prompt.breakpoints.places, default=0)

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Converts the JSON pointers of errors raised inside to pointers into the client's
        request."""
        try:
            yield
        except Error as error:
            self.locate_error(error)
            raise

    def locate_error(self, error: Exception) -> None:
        if not isinstance(error, Error) or isinstance(error, ReplyError):
            return  # the pointer of a ReplyError is into the reply
        where = error.where or ""
        match where.split("/"):
            case ["", "messages", number, "tool_calls", call, *_]:
                error.where = self.conversation.find(int(number), int(call))
            case ["", "messages", number, *_] if number.isdecimal():
                error.where = self.conversation.find(int(number))
            case _:
                error.where = RENAMED.get(where, error.where)


def _read_tools(tools: Sequence[JsonObject], settings: Settings) -> OfferedTools:
    """Returns the tools, without those that only Anthropic's own service supports. Tools that it
    runs itself, such as its web search, and tools whose schema only its own models know are left
    out and named."""
    known: list[JsonObject] = []
    for number, tool in enumerate(tools):
        if tool.get("type") not in (None, "custom"):
            known.append(tool)
            continue
        if not isinstance(tool.get("input_schema"), dict):
            message = 'a tool has no input_schema: write {"type": "object", "properties": {...}}'
            where = f"/tools/{number}/input_schema"
            raise refuse(message, where)
        known.append({name: tool[name] for name in TOOL_FIELDS if tool.get(name) is not None})
    return read_offered_tools(known, settings)
