"""Chat Completions: the request.

The fields are those of OpenAI's reference, of llama-server and of vLLM; what nobody knows is
ignored, and said.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from constrained.answers import read_response_format, read_target
from constrained.engine.sampling import SEEDS, Sampling
from constrained.job import Job
from constrained.tools.shapes import read_policy
from grammars.turn import Answer
from server.errors import HttpError
from server.settings import ReasoningField
from server.turns.openai_fields import GenerationFields, StructuredOutputs
from server.turns.reasoning import Effort, Reasoning
from server.turns.request_checks import check_size, check_sizes, read_text_parts
from server.turns.stable_prompts import settle_messages
from server.turns.turn_request import Asked, Service

Json = dict[str, Any]
LONGEST_ID = 10  # digits of a token
HARMLESS = frozenset(
    "user metadata store service_tier safety_identifier prompt_cache_key cache_prompt id_slot "
    "verbosity prediction modalities audio web_search_options timings_per_token "
    "prompt_cache_retention".split()
)
"""Fields that change nothing here, and are no reason to say so."""
FORMATS = {
    "none": ReasoningField.INLINE,
    "deepseek": ReasoningField.REASONING_CONTENT,
    "deepseek-legacy": ReasoningField.REASONING_CONTENT,
}
"""llama-server's names."""


class ReasoningOptions(BaseModel):
    """OpenRouter's and Responses' form of the effort."""

    model_config = ConfigDict(extra="allow")

    effort: Effort | None = None
    max_tokens: int | None = Field(None, ge=0)
    enabled: bool | None = None


class ChatRequest(GenerationFields):
    """A request to /v1/chat/completions."""

    messages: list[Json] = Field(min_length=1)
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = Field(None, ge=-1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    reasoning_effort: Effort | None = None
    reasoning: ReasoningOptions | None = None
    reasoning_budget: int | None = Field(None, ge=-1)
    thinking_budget: int | None = Field(None, ge=-1)
    thinking_token_budget: int | None = Field(None, ge=-1)
    thinking_budget_tokens: int | None = Field(None, ge=-1)
    reasoning_format: Literal["none", "auto", "deepseek", "deepseek-legacy"] | None = None
    chat_template_kwargs: Json | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None

    def read_reasoning_field(self, default: ReasoningField) -> ReasoningField:
        """Where the reasoning goes."""
        return FORMATS.get(self.reasoning_format or "auto", default)

    def read(self, service: Service) -> Asked:
        """What it asks.

        Raises:
            HttpError, Error: something in it cannot be; says where.
        """
        self._check(service)
        read_policy(self.tool_choice)  # a mistake in it is told before one in the tools
        messages = [read_message(message, i) for i, message in enumerate(self.messages)]
        messages, normalised = settle_messages(messages, keep=service.settings.keep_volatile)
        job = Job(
            messages,
            self.tools or (),
            self.tool_choice,
            self.parallel_tool_calls is not False,
            template_kwargs=self.chat_template_kwargs or {},
            answer=self._read_answer(),
            prefill=self.continue_final_message is True,
        )
        return Asked(
            job,
            self._read_max_tokens(),
            self._read_sampling(service.model.sampling),
            (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            (self.top_logprobs or 0) if self.logprobs else None,
            self.n or 1,
            self._read_reasoning(),
            tuple(name for name in self.model_extra or () if name not in HARMLESS),
            normalised,
        )

    def _check(self, service: Service) -> None:
        settings = service.settings
        if (self.n or 1) > settings.max_choices:
            message = f"n is {self.n}, this server gives {settings.max_choices} choices at most"
            raise HttpError(400, message, "invalid_value", "/n")
        if self.top_logprobs and not self.logprobs:
            raise HttpError(
                400, "top_logprobs needs logprobs: true", "invalid_value", "/top_logprobs"
            )
        if legacy := [name for name in ("functions", "function_call") if name in self._extra]:
            message = f"{legacy[0]} is the form of 2023: use tools and tool_choice"
            raise HttpError(400, message, "unsupported_field", f"/{legacy[0]}")
        if self.continue_final_message and self.add_generation_prompt:
            message = "continue_final_message and add_generation_prompt exclude each other"
            raise HttpError(400, message, "invalid_value", "/add_generation_prompt")
        check_sizes(self.tools or (), self.response_format, settings)
        for name in ("json_schema", "grammar", "regex", "choice"):
            check_size(getattr(self, name), settings, f"/{name}")
        if self.structured_outputs is not None:
            check_size(self.structured_outputs.model_dump(), settings, "/structured_outputs")

    @property
    def _extra(self) -> Mapping[str, Any]:
        return self.model_extra or {}

    def _read_answer(self) -> Answer | None:
        structured = self.structured_outputs or StructuredOutputs.model_construct()
        given: Json = {
            "schema": self.json_schema if structured.json_ is None else structured.json_,
            "regex": structured.regex or self.regex,
            "choice": structured.choice or self.choice,
            "grammar": structured.grammar or self.grammar,
        }
        given = {name: value for name, value in given.items() if value not in (None, "")}
        answer = read_response_format(self.response_format)
        if not given:
            return answer
        if answer is not None:
            message = f"response_format and {next(iter(given))} both say what the answer has to be"
            raise HttpError(400, message, "invalid_value", f"/{next(iter(given))}")
        return read_target(**given).answer

    def _read_max_tokens(self) -> int | None:
        given = (self.max_completion_tokens, self.max_tokens, self.n_predict)
        most = next((tokens for tokens in given if tokens is not None), None)
        return None if most == -1 else most  # llama-server's word for "any number"

    def _read_sampling(self, base: Sampling) -> Sampling:
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": 0 if self.top_k == -1 else self.top_k,  # vLLM's word for "all"
            "min_p": self.min_p,
            "seed": None if self.seed is None or self.seed < 0 else self.seed % SEEDS,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "repeat_penalty": self.repeat_penalty or self.repetition_penalty,
            "logit_bias": _read_bias(self.logit_bias),
        }
        return replace(base, **{name: value for name, value in given.items() if value is not None})

    def _read_reasoning(self) -> Reasoning:
        options = self.reasoning or ReasoningOptions.model_construct(effort=None)
        effort = self.reasoning_effort or options.effort
        if effort is None and options.enabled is not None:
            effort = Effort.MEDIUM if options.enabled else Effort.NONE
        budgets = (self.reasoning_budget, self.thinking_budget, self.thinking_token_budget)
        budgets += (self.thinking_budget_tokens, options.max_tokens)
        budget = next((budget for budget in budgets if budget is not None and budget >= 0), None)
        return Reasoning(effort, budget)


def read_message(message: Json, place: int) -> Json:
    """A message whose content is text.

    Raises:
        HttpError: a part of it is not.
    """
    content = read_text_parts(message.get("content"), f"/messages/{place}/content")
    return {**message, "content": content}


def _read_bias(given: Mapping[str, float] | None) -> dict[int, float] | None:
    if given is None:
        return None
    if wrong := [
        key for key in given if not (key.isascii() and key.isdecimal()) or len(key) > LONGEST_ID
    ]:
        message = f"{wrong[0]!r} is no id of a token"
        raise HttpError(400, message, "invalid_value", f"/logit_bias/{wrong[0]}")
    return {int(key): value for key, value in given.items()}
