"""Chat Completions: the request."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool

from constrained.engine.sampling import Sampling
from constrained.model.loaded_model import LoadedModel
from constrained.prompt.answers import read_response_format, read_target
from constrained.prompt.job import Job, MaxIdentical
from constrained.prompt.messages import find_noted
from constrained.prompt.tools.shapes import read_policy
from grammars.schema.json_values import JsonObject
from grammars.schema.pointers import point_to
from grammars.turn import Answer
from server.dialects.chat.reasoning_parts import (
    find_unread_blocks,
    place_reasoning,
    separate_reasoning,
    take_blocks,
)
from server.errors import refuse
from server.settings import ReasoningField, Settings
from server.turns.fields.common_fields import (
    ConfidenceFields,
    Fields,
    RefusedField,
    RepetitionFields,
    RequestFields,
)
from server.turns.fields.openai_fields import (
    ANSWERS,
    PromptCacheOptions,
    ReasoningOptions,
    SamplingFields,
    Thinking,
    read_reasoning_request,
    read_seed,
    replace_given,
)
from server.turns.fields.request_lists import Objects, Texts, stop_at_first
from server.turns.offered_tools import pack_input, read_offered_tools
from server.turns.reasoning import EffortField
from server.turns.request_checks import check_size, find_left_out, read_noted_parts, read_text_parts
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

HARMLESS = frozenset(
    "user metadata store service_tier safety_identifier prompt_cache_key id_slot "
    "verbosity prediction prompt_cache_retention stream_options.include_obfuscation "
    "reasoning.summary".split()
)
USE_TOOLS = RefusedField("this is the form of 2023: send tools, tool_choice and tool_calls")
REFUSED = {"functions": USE_TOOLS, "function_call": USE_TOOLS}
REASONING_PLACES = {
    "none": ReasoningField.INLINE,
    "deepseek": ReasoningField.REASONING_CONTENT,
    "deepseek-legacy": ReasoningField.REASONING_CONTENT,
}
"""llama-server's values of `reasoning_format`."""
CONTINUED = ("prefix", "partial")
"""Fields of the last message if the reply continues it: in the APIs of DeepSeek and Mistral, and in
those of Kimi and Qwen."""
MAX_TOKEN_DIGITS = 10
Biases = Annotated[dict[str, float], BeforeValidator(stop_at_first(float))]


class StreamOptions(Fields):
    """Parts of a stream in addition to the reply."""

    include_usage: bool | None = None
    """The stream ends with a chunk that has the usage."""


class StructuredOutputs(Fields):
    """vLLM's form of constraints on the answer."""

    json_: JsonObject | StrictBool | None = Field(None, alias="json")
    """A JSON schema that the reply has to fit."""
    regex: str | None = None
    """A regular expression that the reply has to match."""
    choice: Texts | None = None
    """Texts, one of which is the reply."""
    grammar: str | None = None
    """A grammar of the reply: Lark, or GBNF."""


class ChatRequest(SamplingFields, RequestFields, RepetitionFields, ConfidenceFields):
    """A request to /v1/chat/completions, and to the path that only counts the tokens of one."""

    messages: Objects = Field(min_length=1)
    """The conversation, in order."""
    tools: Objects | None = None
    """The tools that the model may call: functions, with a JSON schema of their arguments, and
    custom tools."""
    tool_choice: str | JsonObject | None = None
    """`auto`, `none`, `required`, or the tool to call."""
    parallel_tool_calls: bool | None = None
    """false: at most one call."""
    max_calls: int | None = Field(None, ge=1)
    """The maximum number of calls in one reply."""
    max_identical_calls: int | None = Field(None, ge=1)
    """The maximum number of calls of the same tool with the same arguments in one reply; null: no
    limit. Default: 1, and no limit for tools with `repeatable: true`."""
    max_tokens: int | None = Field(None, ge=-1)
    """The maximum number of tokens of the reply; -1: as many as fit into the context."""
    max_completion_tokens: int | None = Field(None, ge=-1)
    """OpenAI's newer name of `max_tokens`."""
    logprobs: bool | None = None
    """The reply has the log probability of each token."""
    top_logprobs: int | None = Field(None, ge=0, le=20)
    """The number of likely alternatives for each token."""
    reasoning_effort: EffortField = None
    """The effort of reasoning."""
    reasoning: ReasoningOptions | None = None
    """OpenRouter's form of the effort."""
    thinking: Thinking | None = None
    """The switch of the APIs of DeepSeek, GLM and Kimi."""
    enable_thinking: bool | None = None
    """Qwen's switch of reasoning; false: no reasoning."""
    reasoning_budget: int | None = Field(None, ge=-1)
    """The maximum number of reasoning tokens; -1: no limit."""
    thinking_budget: int | None = Field(None, ge=-1)
    """Another name of `reasoning_budget`."""
    thinking_token_budget: int | None = Field(None, ge=-1)
    """vLLM's name of `reasoning_budget`."""
    thinking_budget_tokens: int | None = Field(None, ge=-1)
    """llama-server's name of `reasoning_budget`."""
    reasoning_format: Literal["none", "auto", "deepseek", "deepseek-legacy"] | None = None
    """The place of the reasoning: `none` leaves it in the content."""
    chat_template_kwargs: JsonObject | None = None
    """Variables of the chat template, such as `enable_thinking`."""
    continue_final_message: bool | None = None
    """The reply continues the last message, which must be one of the assistant."""
    add_generation_prompt: bool | None = None
    """Has no effect: the prompt ends with the beginning of the assistant's turn, unless the reply
    continues the last message."""
    modalities: Annotated[list[Literal["text"]], Field(fail_fast=True)] | None = None
    """The kinds of output: only text."""
    prompt_cache_options: PromptCacheOptions | None = None
    """Has no effect: the cached part of the prompt is always reused."""
    trace: bool | None = None
    """The reply has a trace, with the reasons for each of its tokens. Not with several choices."""

    response_format: JsonObject | None = None
    """The form of the reply: `text`, `json_object`, or `json_schema` with a schema."""
    json_schema: JsonObject | None = None
    """llama-server's form: a JSON schema that the reply has to fit."""
    structured_outputs: StructuredOutputs | None = None
    """vLLM's constraints on the answer."""
    grammar: str | None = None
    """A grammar of the reply: Lark, or GBNF."""
    regex: str | None = None
    """A regular expression that the reply has to match."""
    choice: Texts | None = None
    """Texts, one of which is the reply."""
    guided_json: JsonObject | None = None
    """vLLM's older name of `structured_outputs.json`."""
    guided_regex: str | None = None
    """vLLM's older name of `structured_outputs.regex`."""
    guided_choice: Texts | None = None
    """vLLM's older name of `structured_outputs.choice`."""
    guided_grammar: str | None = None
    """vLLM's older name of `structured_outputs.grammar`."""
    n_predict: int | None = Field(None, ge=-1)
    """llama-server's name of `max_tokens`; -1: as many as fit into the context."""
    n: int | None = Field(None, ge=1)
    """The number of replies."""
    random_seed: int | None = None
    """Mistral's name of `seed`."""
    logit_bias: Biases | None = None
    """Biases that are added to logits, by token id."""
    repeat_penalty: float | None = Field(None, gt=0)
    """Lowers the probability of recent tokens; 1: no effect."""
    repetition_penalty: float | None = Field(None, gt=0)
    """vLLM's name of `repeat_penalty`."""
    stream: bool | None = None
    """The reply comes in parts, as server-sent events."""
    stream_options: StreamOptions | None = None
    """Parts of a stream in addition to the reply."""
    ignore_eos: bool | None = None
    """The reply continues until its tokens run out."""

    harmless = HARMLESS
    refused = REFUSED

    def read(self, service: Service) -> TurnRequest:
        self._check(service)
        tools = read_offered_tools(self.tools or (), service.settings)
        choice = tools.translate_choice(self.tool_choice)
        read_policy(choice)  # reports errors in the choice before those in the tools
        noted = find_noted([message.get("role") for message in self.messages])
        messages = [_read_message(one, i, i in noted) for i, one in enumerate(self.messages)]
        max_identical: MaxIdentical = "auto"
        if "max_identical_calls" in self.model_fields_set:
            max_identical = self.max_identical_calls  # null: no limit
        job = Job(
            messages=messages,
            tools=tools.functions,
            tool_choice=choice,
            parallel=self.parallel_tool_calls is not False,
            max_calls=self.max_calls,
            max_identical_calls=max_identical,
            max_repetition=self.read_max_repetition(service.settings),
            template_kwargs=self.chat_template_kwargs or {},
            answer=self.read_answer(),
            prefill=bool(self.continuation_field),
            prefill_name=self.continuation_field,
        )
        generation = GenerationOptions(
            max_tokens=find_token_limit(
                self.max_completion_tokens, self.max_tokens, self.n_predict
            ),
            sampling=self.read_sampling_with(service.model),
            stop=self.read_stop(),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            choices=self.n or 1,
            ignore_eos=self.ignore_eos is True,
            trace=self.trace is True,
            confidence_policy=self.read_confidence_policy(choices=self.n or 1),
        )
        budgets = (
            self.reasoning_budget,
            self.thinking_budget,
            self.thinking_token_budget,
            self.thinking_budget_tokens,
        )
        turn_request = TurnRequest(
            job,
            generation,
            reasoning=read_reasoning_request(self._read_switch(), self.reasoning_effort, budgets),
            tools=tools,
        )
        return self.complete(service, turn_request)

    @property
    def shows_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage is True

    def read_sampling_with(self, model: LoadedModel) -> Sampling:
        return replace_given(
            self.read_sampling(model.sampling),
            repeat_penalty=self.repeat_penalty or self.repetition_penalty,
            seed=read_seed(self.random_seed) if self.seed is None else None,
            logit_bias=_read_biases(self.logit_bias),
        )

    def check_answer(self, settings: Settings) -> None:
        for name in ANSWERS:
            check_size(getattr(self, name), settings, f"/{name}")
        if self.structured_outputs is not None:
            check_size(self.structured_outputs.model_dump(), settings, "/structured_outputs")

    def read_answer(self) -> Answer | None:
        """Returns the constraint on the content: OpenAI's `response_format`, or one of the fields
        of llama-server and vLLM; None: any text."""
        structured = self.structured_outputs or StructuredOutputs.model_construct()
        targets: JsonObject = {
            "schema": _find_given(structured.json_, self.json_schema, self.guided_json),
            "regex": _find_given(structured.regex, self.regex, self.guided_regex),
            "choice": _find_given(structured.choice, self.choice, self.guided_choice),
            "grammar": _find_given(structured.grammar, self.grammar, self.guided_grammar),
        }
        given = {name: value for name, value in targets.items() if value not in (None, "")}
        answer = read_response_format(self.response_format)
        if not given:
            return answer
        if answer is not None:
            name = next(iter(given))
            message = f"response_format and {name} both define the answer"
            raise refuse(message, f"/{name}")
        return read_target(**given).answer

    def _check(self, service: Service) -> None:
        settings = service.settings
        if (self.n or 1) > settings.max_choices:
            message = f"n is {self.n}, the limit is {settings.max_choices}: raise --max-choices"
            raise refuse(message, "/n")
        if self.top_logprobs and not self.logprobs:
            raise refuse("top_logprobs needs logprobs: true", "/top_logprobs")
        if self.trace and (self.n or 1) > 1:
            raise refuse("a trace covers one reply: leave n out", "/trace")
        field = self._find_continued()
        if field and self.continue_final_message is False:
            message = f"it is false, and the last message has {field}: true: leave one out"
            raise refuse(message, "/continue_final_message")
        if self.continuation_field and self.add_generation_prompt:
            message = f"{self.continuation_field} and add_generation_prompt cannot be combined"
            raise refuse(message, "/add_generation_prompt")
        self.check_answer(settings)

    @property
    def continuation_field(self) -> str:
        """The name of the field because of which the reply continues the last message; "": it does
        not."""
        if self.continue_final_message is None:
            return self._find_continued()
        return "continue_final_message" if self.continue_final_message else ""

    def _find_continued(self) -> str:
        """Returns the field of the last message that says that the reply continues it; "": none."""
        for field in CONTINUED:
            if self.messages[-1].get(field) is True:
                return field
        return ""

    def _read_switch(self) -> ReasoningOptions:
        if self.reasoning is not None:
            return self.reasoning
        thinking = self.thinking or Thinking.model_construct()
        is_enabled = self.enable_thinking
        if thinking.is_enabled is not None:
            is_enabled = thinking.is_enabled
        return ReasoningOptions(enabled=is_enabled, max_tokens=thinking.budget_tokens)

    def find_ignored(self) -> tuple[str, ...]:
        ignored = [*super().find_ignored()]
        noted = find_noted([message.get("role") for message in self.messages])
        for number, message in enumerate(self.messages):
            if message.get("audio"):
                ignored.append(f"messages/{number}/audio")
            ignored += find_unread_blocks(message, f"messages/{number}")
            if number in noted:
                ignored += find_left_out(message.get("content"), f"messages/{number}/content")
        if self.add_generation_prompt is False and not self.continuation_field:
            ignored.append("add_generation_prompt")  # a turn begins with the generation prompt
        return tuple(ignored)


def _read_message(message: JsonObject, number: int, is_noted: bool) -> JsonObject:
    """Converts a message: its content becomes text, its reasoning a separate field, its calls calls
    of functions. If it `is_noted`, a note takes the place of each part that is not text."""
    if message.get("role") == "function" or message.get("function_call"):
        field = "function_call" if message.get("function_call") else "role"
        where = f"/messages/{number}/{field}"
        raise refuse(USE_TOOLS.message, where, USE_TOOLS.code)
    for field in CONTINUED:
        if not isinstance(message.get(field), bool | None):
            raise refuse(f"{field} must be true or false", f"/messages/{number}/{field}")
    read = {key: value for key, value in message.items() if key not in CONTINUED}
    content = message.get("content")
    if not content and isinstance(message.get("refusal"), str):
        content = message["refusal"]
    where = f"/messages/{number}/content"
    if message.get("role") == "assistant" and isinstance(content, list):
        read["content"], reasoning = separate_reasoning(content, where)
        if reasoning:
            place_reasoning(read, reasoning, f"/messages/{number}")
    elif is_noted:
        read["content"] = read_noted_parts(content, where)
    else:
        read["content"] = read_text_parts(content, where)
    take_blocks(read)
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        read["tool_calls"] = [_read_call(call) for call in calls]
    return read


def _read_call(call: Any) -> Any:
    match call:
        case {"type": "custom", "custom": {"name": str(name), "input": str(text)}, **rest}:
            arguments = json.dumps(pack_input(text), ensure_ascii=False)
            function = {"name": name, "arguments": arguments}
            return {**rest, "type": "function", "function": function}
        case _:
            return call


def find_token_limit(*given: int | None) -> int | None:
    """Returns the maximum number of tokens of a reply: that of the first field that is given. None:
    no field is given, or the first one is -1, llama-server's value for no limit."""
    for limit in given:
        if limit is not None:
            return None if limit == -1 else limit
    return None


def _find_given(*values: Any) -> Any:
    """Returns the first value that is given; `false` counts, since it is a schema, and so does an
    empty choice, since it is an error to report."""
    return next((value for value in values if value is not None), None)


def _read_biases(given: Mapping[str, float] | None) -> list[tuple[int, float]] | None:
    if given is None:
        return None
    biases: list[tuple[int, float]] = []  # not a map: `Sampling` refuses two biases of a token
    for key, bias in given.items():
        if not (key.isascii() and key.isdecimal() and len(key) <= MAX_TOKEN_DIGITS):
            where = point_to(["logit_bias", key])
            raise refuse(f"{key!r} is not a token id", where)
        biases.append((int(key), bias))
    return biases
