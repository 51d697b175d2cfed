"""Responses: the request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from constrained.errors import Error
from constrained.prompt.answers import read_response_format
from constrained.prompt.job import Job
from constrained.prompt.messages import read_arguments
from constrained.prompt.tools.shapes import read_policy
from grammars.schema.json_values import JsonObject
from server.dialects.responses.client_tools import describe_client_tools, list_client_forms
from server.dialects.responses.conversation import write_messages
from server.dialects.responses.items import find_unread_items
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
from server.turns.fields.openai_fields import (
    PromptCacheOptions,
    ReasoningOptions,
    SamplingFields,
    read_reasoning_request,
)
from server.turns.fields.request_lists import Objects, Texts, stop_at_first
from server.turns.offered_tools import OfferedTools, read_offered_tools
from server.turns.request_checks import check_echoed, check_size
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

HARMLESS = frozenset(
    "user safety_identifier prompt_cache_key prompt_cache_retention service_tier stream_options "
    "client_metadata reasoning.summary reasoning.generate_summary background".split()
)
"""Fields without an effect here, which the reply does not list as ignored."""
REFUSED = {
    "background": RefusedField("background responses are not supported: leave it out, or stream"),
    "conversation": RefusedField("conversations are not kept here: use previous_response_id"),
    "prompt": RefusedField("prompts are not kept here: write instructions and input"),
}
LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"
ECHOED = ("instructions", "previous_response_id", "max_output_tokens", "max_tool_calls")
ECHOED_OR_NULL = ("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
"""Fields that the server does not use, but every response has."""
TOOL_FIELDS = ("type", "name", "description", "parameters", "strict", "repeatable")
OTHER_TOOL_FIELDS = ("function", "custom", "format", "defer_loading", "cache_control")
"""Fields of a tool that have an effect, or that change nothing, but are not in the prompt."""
SEARCH = "tool_search"
OWN_TOOLS = (None, "function", "custom")  # the types of the tools that the client describes


class TextOptions(Fields):
    """The form of the text of a message."""

    format: JsonObject | None = None
    """The form of the text: `text`, `json_object`, or `json_schema` with a schema."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """Returned unchanged; it has no other effect."""


class ResponsesRequest(SamplingFields, RequestFields, RepetitionFields, ConfidenceFields):
    """A request to /v1/responses."""

    input: str | Objects | None = None
    """A user's text, or the items of a conversation."""
    instructions: str | None = None
    """The text before the conversation; it is not stored with it."""
    previous_response_id: str | None = None
    """The response that this one continues."""
    tools: Objects | None = None
    """The tools that the model may call: functions, with a JSON schema of their arguments, and
    custom tools. The prompt has all of them, also those with `defer_loading`."""
    tool_choice: str | JsonObject | None = None
    """`auto`, `none`, `required`, or the tool to call."""
    parallel_tool_calls: bool | None = None
    """false: at most one call."""
    max_tool_calls: int | None = Field(None, ge=0)
    """Returned unchanged: this server executes no calls."""
    text: TextOptions | None = None
    """The form of the text."""
    reasoning: ReasoningOptions | None = None
    """The effort of reasoning."""
    max_output_tokens: int | None = Field(None, ge=1)
    """The maximum number of tokens of the response."""
    top_logprobs: int | None = Field(None, ge=0, le=20)
    """The number of likely alternatives for each token."""
    include: Texts | None = None
    """Additional parts of responses: `message.output_text.logprobs`,
    `reasoning.encrypted_content`."""
    store: bool | None = None
    """false: the response is not stored."""
    stream: bool | None = None
    """The response comes in parts, as server-sent events."""
    metadata: Annotated[dict[str, str], BeforeValidator(stop_at_first(str))] | None = None
    """Returned unchanged."""
    prompt_cache_options: PromptCacheOptions | None = None
    """Has no effect: the cached part of the prompt is always reused."""
    truncation: Literal["auto", "disabled"] | None = None
    """`auto`: the oldest items are left out of a prompt that would be too long for the context."""
    chat_template_kwargs: JsonObject | None = None
    """Variables of the chat template, such as `enable_thinking`."""

    harmless = HARMLESS
    refused = REFUSED

    @property
    def shows_logprobs(self) -> bool:
        return LOGPROBS in (self.include or ()) or bool(self.top_logprobs)

    @property
    def seals(self) -> bool:
        """True if reasoning is also sent sealed, for clients that send it back."""
        return ENCRYPTED in (self.include or ())

    @property
    def _echoed(self) -> JsonObject:
        extra = self.model_extra or {}
        return {name: extra.get(name) for name in ECHOED_OR_NULL}

    def read(self, service: Service, items: Sequence[JsonObject] = ()) -> TurnRequest:
        """Reads the request to continue the conversation of these items."""
        messages = write_messages(items, self.instructions)
        settings = service.settings
        if not messages:
            raise refuse("there is no input", "/input")
        check_echoed({"metadata": self.metadata, **self._echoed}, settings)
        text = self.text or TextOptions()
        with locating_errors():
            tools = _read_tools(self.tools or (), settings)
            check_size(text.format, settings, "/response_format")
            choice = tools.translate_choice(self.tool_choice)
            read_policy(choice)  # reports errors in the choice before those in the tools
            job = Job(
                messages=messages,
                tools=[_drop_foreign(tool) for tool in tools.functions],
                tool_choice=choice,
                parallel=self.parallel_tool_calls is not False,
                max_repetition=self.read_max_repetition(settings),
                template_kwargs=self.chat_template_kwargs or {},
                answer=read_response_format(text.format),
            )
        generation = GenerationOptions(
            max_tokens=self.max_output_tokens,
            sampling=self.read_sampling(service.model.sampling),
            stop=self.read_stop(),
            logprobs=(self.top_logprobs or 0) if self.shows_logprobs else None,
            confidence_policy=self.read_confidence_policy(),
        )
        turn_request = TurnRequest(
            job,
            generation,
            reasoning=read_reasoning_request(self.reasoning),
            tools=tools,
        )
        return self.complete(service, turn_request)

    def find_ignored(self) -> tuple[str, ...]:
        tools = [*_list_tools(self.tools or ())]
        known = (*TOOL_FIELDS, *OTHER_TOOL_FIELDS)
        ignored = (*super().find_ignored(), *find_ignored_of_tools(tools, known, OWN_TOOLS))
        if isinstance(self.input, list):
            return (*ignored, *find_unread_items(self.input))
        return ignored

    def describe(self, request: TurnRequest) -> JsonObject:
        """The fields of a response that repeat its request."""
        text = self.text or TextOptions()
        reasoning = self.reasoning or ReasoningOptions.model_construct(effort=None)
        summary = (reasoning.model_extra or {}).get("summary")
        sampling = request.generation.sampling
        return {
            **{name: getattr(self, name) for name in ECHOED},
            **self._echoed,
            "background": False,
            "conversation": None,
            "prompt": None,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "metadata": self.metadata or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "reasoning": {"effort": reasoning.effort, "summary": summary},
            "service_tier": "default",
            "store": self.store is not False,
            "temperature": sampling.temperature,
            "text": {
                "format": _show_format(text.format),
                "verbosity": text.verbosity or "medium",
            },
            "tool_choice": _show_tool_choice(self.tool_choice),
            "tools": [_show_tool(tool) for tool in self.tools or ()],
            "top_logprobs": self.top_logprobs or 0,
            "top_p": sampling.top_p,
            "truncation": self.truncation or "disabled",
        }


def _read_tools(tools: Sequence[JsonObject], settings: Settings) -> OfferedTools:
    """Reads the tools of a request. A search for tools is left out, since the prompt has them
    all."""
    kept = [{"type": SEARCH} if tool.get("type") == SEARCH else tool for tool in tools]
    offered = read_offered_tools(describe_client_tools(kept), settings)
    return replace(offered, forms={**offered.forms, **list_client_forms(kept)})


def _list_tools(tools: Sequence[JsonObject]) -> Iterator[Any]:
    for tool in tools:
        yield tool
        members = tool.get("tools")
        if tool.get("type") == "namespace" and isinstance(members, list):
            yield from members


def _drop_foreign(tool: JsonObject) -> JsonObject:
    if "function" in tool:  # the form of Chat Completions, which many send
        return {name: part for name, part in tool.items() if name != "defer_loading"}
    return {name: tool[name] for name in TOOL_FIELDS if name in tool}


def _show_tool(tool: JsonObject) -> JsonObject:
    """Returns a tool in the form that responses repeat: functions have all their fields."""
    if tool.get("type", "function") != "function":
        return tool
    inner = tool.get("function")
    given = tool if inner is None else inner
    return {"type": "function", "description": None, "parameters": None, "strict": None, **given}


def _show_tool_choice(choice: str | JsonObject | None) -> str | JsonObject:
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {"mode": "auto", **choice}
    return choice or "auto"


def _show_format(format: JsonObject | None) -> JsonObject:
    if format is None:
        return {"type": "text"}
    if format.get("type") == "json_schema":
        return {"description": None, "strict": False, **format}
    return format


def _find_cut_call(items: Sequence[Any]) -> str:
    """Returns the JSON pointer of the first arguments of a call that are no object; if there are
    none, another response has them."""
    for number, item in enumerate(items):
        match item:
            case {"arguments": str(text)} if not isinstance(read_arguments(text), dict):
                return f"/input/{number}/arguments"
            case _:
                pass
    return "/input"


@contextmanager
def locating_errors(items: Any = ()) -> Iterator[None]:
    """Makes errors that are raised inside point to this request, whose `input` has these items."""
    try:
        yield
    except Error as error:
        where = error.where or ""
        if where.startswith("/messages"):  # an item is not a message: their indexes differ
            error.where = _find_cut_call(items) if where.endswith("/arguments") else "/input"
        elif where.startswith("/response_format"):
            error.where = where.replace("/response_format", "/text/format", 1)
        raise
