"""Messages: the request.

The fields are those of Anthropic's reference; what nobody knows is ignored, and said.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from constrained.answers import read_response_format
from constrained.compile.compiled_turn import CompiledTurn
from constrained.engine.protocol import Sampling
from constrained.errors import ReplyError
from constrained.job import Job
from grammars.errors import Error
from grammars.turn import Answer
from server.dialects.messages.conversation import Conversation, is_marked, read_conversation
from server.errors import HttpError
from server.turns.content_parts import check_sizes
from server.turns.reasoning import Effort, Reasoning
from server.turns.turn_request import Asked, Service
from server.turns.volatile import settle_messages

Json = dict[str, Any]
HARMLESS = frozenset(
    "metadata service_tier inference_geo speed user_profile_id workspace_id diagnostics".split()
)
"""Fields that change nothing here, and are no reason to say so."""
TOOL_FIELDS = ("name", "description", "input_schema", "strict")
"""What the model is told of a tool."""
RENAMED = {"/reasoning_budget": "/thinking/budget_tokens", "/stop": "/stop_sequences"}
"""What the library calls fields, and what the dialect does."""


class ThinkingOptions(BaseModel):
    """Whether to think, and how much."""

    model_config = ConfigDict(extra="allow")

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


class OutputOptions(BaseModel):
    """How hard to think, and what the answer has to be."""

    model_config = ConfigDict(extra="allow")

    effort: Effort | None = None
    format: Json | None = None


class ToolChoice(BaseModel):
    """Whether tools are called, and which."""

    model_config = ConfigDict(extra="allow")

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class CountRequest(BaseModel):
    """A request to /v1/messages/count_tokens: one to /v1/messages that need not say how long the
    reply may be."""

    model_config = ConfigDict(extra="allow")

    messages: list[Json] = Field(min_length=1)
    model: str = ""
    max_tokens: int | None = Field(None, ge=1)
    system: str | list[Json] | None = None
    tools: list[Json] | None = None
    tool_choice: ToolChoice | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0)
    thinking: ThinkingOptions | None = None
    output_config: OutputOptions | None = None
    output_format: Json | None = None
    cache_control: Json | None = None
    stream: bool | None = None

    def read(self, service: Service) -> "MessagesJob":
        """What it asks.

        Raises:
            HttpError, Error: something in it cannot be; says where.
        """
        check_sizes(self.tools or (), None, service.settings)
        tools = [_read_tool(tool, f"/tools/{i}") for i, tool in enumerate(self.tools or ())]
        conversation = read_conversation(self.system, self.messages)
        keep = service.settings.keep_volatile
        messages, normalised = settle_messages(conversation.messages, keep=keep)
        marks = self._find_marks(conversation)
        job = Job(
            messages,
            tools,
            self._read_choice(),
            answer=self._read_answer(service),
            prefill=conversation.prefill,
            breakpoints=tuple(mark for mark in marks if mark > conversation.leading),
        )
        asked = Asked(
            job,
            self.max_tokens,
            self._read_sampling(service.model.sampling),
            tuple(self.stop_sequences or ()),
            reasoning=self._read_reasoning(conversation.prefill),
            ignored=self._find_ignored(),
            normalised=normalised,
        )
        return MessagesJob(asked, conversation, marks, self._shows_thinking)

    def _find_ignored(self) -> tuple[str, ...]:
        given = {
            name: value for name, value in (self.model_extra or {}).items() if value is not None
        }
        if "thread" in given:  # the SDK sends the whole conversation when it reads this code
            message = "this server keeps no threads: send the whole conversation"
            raise HttpError(400, message, "thread_unsupported_request", "/thread")
        return tuple(name for name in given if name not in HARMLESS)

    @property
    def _shows_thinking(self) -> bool:
        return self.thinking is None or self.thinking.display != "omitted"

    def _find_marks(self, conversation: Conversation) -> tuple[int, ...]:
        """Numbers of first messages behind which there is a breakpoint, the smallest first. A
        message that is to go on is not over, and has none behind it."""
        count = len(conversation.messages)
        marks = [*conversation.marks, *([count] if self.cache_control is not None else [])]
        if any(map(is_marked, self.tools or ())):
            marks.append(conversation.leading)
        most = count - conversation.prefill
        return tuple(sorted({min(mark, most) for mark in marks}))

    def _read_choice(self) -> Json | None:
        choice = self.tool_choice
        if choice is None:
            return None
        if choice.type == "tool" and not choice.name:
            raise HttpError(400, "it names no tool", "invalid_value", "/tool_choice/name")
        given: Json = {"type": choice.type}
        if choice.type == "tool":
            given["name"] = choice.name
        if choice.disable_parallel_tool_use:
            given["disable_parallel_tool_use"] = True
        return given

    def _read_answer(self, service: Service) -> Answer | None:
        output = self.output_config.format if self.output_config else None
        where, given = "/output_config/format", output
        if given is None:
            where, given = "/output_format", self.output_format
        try:
            check_sizes((), given, service.settings)
            return read_response_format(given)
        except Error as error:
            error.where = (error.where or "").replace("/response_format", where, 1)
            raise

    def _read_sampling(self, base: Sampling) -> Sampling:
        given = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        return replace(base, **{name: value for name, value in given.items() if value is not None})

    def _read_reasoning(self, prefill: bool) -> Reasoning:
        effort = self.output_config.effort if self.output_config else None
        match self.thinking:
            case None:
                return Reasoning(effort)
            case ThinkingOptions(type="disabled"):
                return Reasoning(Effort.NONE)
            case ThinkingOptions(type="enabled", budget_tokens=budget):
                # a turn that has begun with its content is past thinking
                return Reasoning(effort or Effort.HIGH, budget, must=not prefill)
            case _:
                return Reasoning(effort or Effort.HIGH)


class MessagesRequest(CountRequest):
    """A request to /v1/messages."""

    max_tokens: int = Field(ge=1)  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True)
class MessagesJob:
    """A request that was read.

    Args:
        asked: what it comes to.
        conversation: what the model is told, and where that comes from.
        marks: numbers of first messages behind which there is a breakpoint.
        shows_thinking: the reply has the text of what was thought.
    """

    asked: Asked
    conversation: Conversation
    marks: tuple[int, ...] = ()
    shows_thinking: bool = True

    def count_pinned(self, turn: CompiledTurn) -> int:
        """How many tokens of the prompt stand before its last breakpoint; 0: it has none."""
        if not self.marks:
            return 0
        if self.marks[-1] <= self.conversation.leading:
            return turn.prompt.breakpoints.shared
        return max(turn.prompt.breakpoints.places, default=0)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Errors that are raised inside say where in the client's own request they belong."""
        try:
            yield
        except ReplyError:  # that place is in the reply
            raise
        except Error as error:
            error.where = self._locate(error.where)
            raise

    def _locate(self, where: str | None) -> str | None:
        steps = (where or "").split("/")
        if steps[1:2] == ["messages"] and len(steps) > 2 and steps[2].isdecimal():
            return self.conversation.find(int(steps[2]))
        return RENAMED.get(where or "", where)


def _read_tool(tool: Json, where: str) -> Json:
    """What the model is told of a tool.

    Raises:
        HttpError: it is none that the client carries out.
    """
    kind = tool.get("type")
    if kind not in (None, "custom"):
        message = (
            f"a tool of type {kind!r} cannot be used: this server has no tools of its own. "
            "Describe it with name, description and input_schema"
        )
        raise HttpError(400, message, "unsupported_tool", f"{where}/type")
    if not isinstance(tool.get("input_schema"), dict):
        message = 'a tool has no input_schema: write {"type": "object", "properties": {...}}'
        raise HttpError(400, message, "invalid_value", f"{where}/input_schema")
    return {name: tool[name] for name in TOOL_FIELDS if tool.get(name) is not None}
