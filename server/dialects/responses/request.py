"""Responses: the request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from grammars.errors import Error
from server.dialects.chat.request import ChatRequest, ReasoningOptions
from server.errors import HttpError
from server.turns.openai_fields import SamplingFields
from server.turns.turn_request import Asked, Service

Json = dict[str, Any]
HARMLESS = frozenset(
    "user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options "
    "service_tier stream_options background conversation prompt context_management".split()
)
"""Fields that change nothing here, and are no reason to say so."""
PLACES = (("/messages", "/input", False), ("/response_format", "/text/format", True))
"""What a Chat Completion calls a field, its name here, and whether places in it are the same."""
LOGPROBS = "message.output_text.logprobs"
SEALED = "reasoning.encrypted_content"
ECHOED = ("instructions", "previous_response_id", "max_output_tokens", "max_tool_calls")
ECHOED_IF_GIVEN = ("user", "safety_identifier", "prompt_cache_key")
SHARED = (
    *SamplingFields.model_fields,
    *("tool_choice", "parallel_tool_calls", "reasoning", "chat_template_kwargs"),
)
"""Fields that mean the same in Chat Completions."""
TOOL_FIELDS = ("type", "name", "description", "parameters", "strict")


class TextOptions(BaseModel):
    """What the text of a message has to be."""

    model_config = ConfigDict(extra="allow")

    format: Json | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ResponsesRequest(SamplingFields):
    """A request to /v1/responses."""

    input: str | list[Json] = ""
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = Field(None, ge=0)
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    top_logprobs: int | None = Field(None, ge=0, le=20)
    include: list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    metadata: dict[str, str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    chat_template_kwargs: Json | None = None

    @property
    def shows_logprobs(self) -> bool:
        """Does a message say how likely its tokens were?"""
        return LOGPROBS in (self.include or ()) or bool(self.top_logprobs)

    @property
    def seals(self) -> bool:
        """Does reasoning come in its opaque form as well?"""
        return SEALED in (self.include or ())

    @property
    def _extra(self) -> Json:
        return self.model_extra or {}

    def read(self, service: Service, messages: Sequence[Json]) -> Asked:
        """What it asks.

        Args:
            messages: the conversation, in OpenAI's chat form.

        Raises:
            HttpError, Error: something in it cannot be; says where.
        """
        self._check(messages)
        with naming_places():
            chat = ChatRequest(
                messages=[*messages],
                tools=[_read_tool(tool, i) for i, tool in enumerate(self.tools or ())],
                response_format=self.text.format if self.text else None,
                max_completion_tokens=self.max_output_tokens,
                logprobs=self.shows_logprobs,
                top_logprobs=(self.top_logprobs or 0) if self.shows_logprobs else None,
                **{name: getattr(self, name) for name in SHARED},
            )
            asked = chat.read(service)
        return replace(asked, ignored=self._find_ignored())

    def _check(self, messages: Sequence[Json]) -> None:
        refused = {
            "background": "responses are not made in the background here: leave it out, or stream",
            "conversation": "conversations are not kept here: use previous_response_id",
            "prompt": "prompts are not kept here: write instructions and input",
        }
        for name, message in refused.items():
            if self._extra.get(name):
                raise HttpError(400, message, "unsupported_field", f"/{name}")
        if not messages:
            raise HttpError(400, "there is no input", "invalid_value", "/input")

    def _find_ignored(self) -> tuple[str, ...]:
        ignored = tuple(name for name in self._extra if name not in HARMLESS)
        return (*ignored, "truncation") if self.truncation == "auto" else ignored

    def describe(self, asked: Asked) -> Json:
        """What a response says of its request."""
        text = self.text or TextOptions()
        reasoning = self.reasoning or ReasoningOptions.model_construct(effort=None)
        summary = (reasoning.model_extra or {}).get("summary")
        return {
            **{name: getattr(self, name) for name in ECHOED},
            **{name: self._extra[name] for name in ECHOED_IF_GIVEN if name in self._extra},
            "background": False,
            "metadata": self.metadata or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "reasoning": {"effort": reasoning.effort, "summary": summary},
            "service_tier": "default",
            "store": self.store is not False,
            "temperature": asked.sampling.temperature,
            "text": {
                "format": text.format or {"type": "text"},
                "verbosity": text.verbosity or "medium",
            },
            "tool_choice": self.tool_choice or "auto",
            "tools": self.tools or [],
            "top_logprobs": self.top_logprobs or 0,
            "top_p": asked.sampling.top_p,
            "truncation": "disabled",
        }


def _read_tool(tool: Json, place: int) -> Json:
    """A function, without what only OpenAI's own service reads.

    Raises:
        HttpError: a tool that OpenAI runs itself.
    """
    if (kind := tool.get("type", "function")) != "function":
        message = f"the tool {kind!r} is run by nobody here: offer a function in its place"
        raise HttpError(400, message, "unsupported_tool", f"/tools/{place}")
    if "function" in tool:  # the form of Chat Completions, which many send
        return tool
    return {name: tool[name] for name in TOOL_FIELDS if name in tool}


@contextmanager
def naming_places() -> Iterator[None]:
    """Errors inside say where in this request the fault is, not where in a Chat Completion."""
    try:
        yield
    except Error as error:
        for chat, here, is_exact in PLACES:
            if error.where is not None and error.where.startswith(chat):
                error.where = here + (error.where.removeprefix(chat) if is_exact else "")
        raise
