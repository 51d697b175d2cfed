"""Fields with the same meaning in OpenAI's Chat Completions and Responses. Those that OpenAI does
not have come from llama-server, vLLM and OpenRouter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool

from constrained.engine.sampling import SEEDS, Sampling
from constrained.model.loaded_model import LoadedModel
from constrained.prompt.answers import read_response_format, read_target
from grammars.schema.json_values import JsonObject
from grammars.schema.pointers import point_to
from grammars.turn import Answer
from server.errors import HttpError
from server.settings import Settings
from server.turns.fields.common_fields import Fields, RepetitionFields, RequestFields
from server.turns.fields.request_lists import Texts, stop_at_first
from server.turns.reasoning import Effort, EffortField, ReasoningRequest
from server.turns.request_checks import check_size

MAX_TOKEN_DIGITS = 10
ANSWERS = (
    "response_format", "json_schema", "grammar", "regex", "choice", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar",
)  # fmt: skip
"""Fields that define the form of the reply."""
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


class PromptCacheOptions(Fields):
    """OpenAI's options of its cache. They have no effect: the cached part of a prompt is always
    reused."""

    mode: str | None = None
    """Has no effect."""
    ttl: str | None = None
    """Has no effect."""


class ReasoningOptions(Fields):
    """OpenRouter's and Responses' form of the effort."""

    effort: EffortField = None
    """The effort of reasoning."""
    max_tokens: int | None = Field(None, ge=0)
    """The maximum number of reasoning tokens; takes precedence over the effort."""
    enabled: bool | None = None
    """false: no reasoning."""


class Thinking(Fields):
    """The switch of reasoning of several vendors."""

    type: str | None = None
    """`enabled` or `disabled`; other values leave it to the model."""
    budget_tokens: int | None = Field(None, ge=0)
    """The maximum number of reasoning tokens."""

    @property
    def is_enabled(self) -> bool | None:
        """Whether there is reasoning; None: the request does not say."""
        return {"enabled": True, "disabled": False}.get(self.type or "")


def read_reasoning_request(
    options: ReasoningOptions | None,
    effort: Effort | None = None,
    budgets: Sequence[int | None] = (),
) -> ReasoningRequest:
    """Reads the reasoning that a request asks for.

    Args:
        options: its `reasoning`.
        effort: its `reasoning_effort`, which takes precedence.
        budgets: the maximum number of reasoning tokens in the fields of several servers; the first
            given one counts. Negative: no limit.
    """
    if options is not None:
        effort = effort or options.effort
        budgets = (*budgets, options.max_tokens)
        if effort is None and options.enabled is not None:
            effort = Effort.MEDIUM if options.enabled else Effort.NONE
    for budget in budgets:
        if budget is not None and budget >= 0:
            return ReasoningRequest(effort, budget)
    return ReasoningRequest(effort)


class SamplingFields(Fields):
    """Fields for the sampling of tokens, and for the end of the text."""

    temperature: float | None = Field(None, ge=0)
    """The randomness of sampling; 0: always the likeliest token. Default: that of the model."""
    top_p: float | None = Field(None, ge=0, le=1)
    """Sample from the likeliest tokens with this total probability."""
    top_k: int | None = Field(None, ge=-1)
    """Sample from this number of the likeliest tokens; 0 or -1: from all."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Sample from tokens with at least this fraction of the likeliest token's probability."""
    seed: int | None = None
    """The same seed samples the same tokens; -1: a random seed."""
    stop: str | Texts | None = None
    """One or more texts at which the reply ends; they are not part of the reply."""
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    """Lowers the probability of tokens that have occurred already."""
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    """Lowers the probability of tokens for each time that they have occurred."""

    def read_sampling(self, default: Sampling) -> Sampling:
        return replace_given(
            default,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=0 if self.top_k == -1 else self.top_k,  # vLLM's -1 means all tokens
            min_p=self.min_p,
            seed=_read_seed(self.seed),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
        )

    def read_stop(self) -> tuple[str, ...]:
        """Returns the stop texts; an empty text instead of a list means none, as in
        llama-server."""
        if not self.stop:
            return ()
        if isinstance(self.stop, str):
            return (self.stop,)
        return tuple(self.stop)


class GenerationFields(SamplingFields, RequestFields, RepetitionFields):
    """Fields for the generation and the form of a reply."""

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

    @property
    def shows_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage is True

    def read_sampling_with(self, model: LoadedModel) -> Sampling:
        return replace_given(
            self.read_sampling(model.sampling),
            repeat_penalty=self.repeat_penalty or self.repetition_penalty,
            seed=_read_seed(self.random_seed) if self.seed is None else None,
            logit_bias=_read_biases(self.logit_bias),
        )

    def check_answer(self, settings: Settings) -> None:
        """Refuses a schema or a grammar that is too large."""
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
            raise HttpError(400, message, "invalid_value", where=f"/{name}")
        return read_target(**given).answer


def find_token_limit(*given: int | None) -> int | None:
    """Returns the maximum number of tokens of a reply: that of the first field that is given. None:
    no field is given, or the first one is -1, llama-server's value for no limit."""
    for limit in given:
        if limit is not None:
            return None if limit == -1 else limit
    return None


def _read_seed(given: int | None) -> int | None:
    """Returns the seed; None: any, which is also what llama-server's -1 means."""
    return given % SEEDS if given is not None and given >= 0 else None


def _find_given(*values: Any) -> Any:
    """Returns the first value that is given; `false` counts, since it is a schema, and so does an
    empty choice, since it is an error to report."""
    return next((value for value in values if value is not None), None)


def replace_given(sampling: Sampling, **fields: Any) -> Sampling:
    """Returns the sampling with those of the fields that are not None."""
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(sampling, **given)


def _read_biases(given: Mapping[str, float] | None) -> list[tuple[int, float]] | None:
    if given is None:
        return None
    biases: list[tuple[int, float]] = []  # not a map: `Sampling` refuses two biases of a token
    for key, bias in given.items():
        if not (key.isascii() and key.isdecimal() and len(key) <= MAX_TOKEN_DIGITS):
            where = point_to(["logit_bias", key])
            raise HttpError(400, f"{key!r} is not a token id", "invalid_value", where=where)
        biases.append((int(key), bias))
    return biases
