"""Fields that mean the same in OpenAI's Chat Completions, Completions and Responses, and what they
ask for. Those that OpenAI does not have are llama-server's, vLLM's and OpenRouter's."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from constrained.answers import read_response_format, read_target
from constrained.engine.sampling import SEEDS, Sampling
from constrained.model.model import Model
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.schema.subschemas import point_to
from grammars.turn import Answer
from server.errors import HttpError
from server.settings import Settings
from server.turns.fields.common_fields import CacheFields, RepetitionFields
from server.turns.fields.request_lists import Texts, stop_at_first
from server.turns.progress import NO_WISHES, ProgressWishes
from server.turns.reasoning import Effort, EffortField, ReasoningRequest
from server.turns.request_checks import check_size

Json = dict[str, Any]
MAX_TOKEN_DIGITS = 10
MAX_BIASED = 100_000  # characters of all texts whose tokens get a bias: 0.2 s to find these
ANSWERS = (
    "response_format", "json_schema", "grammar", "regex", "choice", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar",
)  # fmt: skip
"""Fields that say what the reply has to be."""
NOTHING: tuple[object, ...] = (None, "", [], {})
"""Values that ask for nothing."""
Biases = Annotated[dict[str, float], BeforeValidator(stop_at_first(float))]


class StreamOptions(BaseModel):
    """Parts of a stream in addition to the reply."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    include_usage: bool | None = None
    """The stream ends with a chunk that has the usage."""


class StructuredOutputs(BaseModel):
    """vLLM's form of an answer that is not any text."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    json_: Json | StrictBool | None = Field(None, alias="json")
    """A JSON schema that the reply has to fit."""
    regex: str | None = None
    """A regular expression that the reply has to match."""
    choice: Texts | None = None
    """Texts, one of which is the reply."""
    grammar: str | None = None
    """A grammar of the reply: Lark, or GBNF."""


class ReasoningOptions(BaseModel):
    """OpenRouter's and Responses' form of the effort."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    effort: EffortField = None
    """How hard to think."""
    max_tokens: int | None = Field(None, ge=0)
    """Tokens of reasoning, at most; goes before the effort."""
    enabled: bool | None = None
    """false: no reasoning."""


class Thinking(BaseModel):
    """The switch of reasoning of several vendors."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    type: str | None = None
    """`enabled` or `disabled`; other values leave it to the model."""
    budget_tokens: int | None = Field(None, ge=0)
    """Tokens of reasoning, at most."""

    @property
    def is_enabled(self) -> bool | None:
        """Whether there is reasoning; None: nothing is said."""
        return {"enabled": True, "disabled": False}.get(self.type or "")


def read_reasoning_request(
    options: ReasoningOptions | None,
    effort: Effort | None = None,
    budgets: Sequence[int | None] = (),
) -> ReasoningRequest:
    """The wishes of a request for reasoning.

    Args:
        options: its `reasoning`.
        effort: its `reasoning_effort`, which counts more.
        budgets: tokens of reasoning, in the fields of several servers; the first counts that is
            given. Negative ones mean "any number".
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


class SamplingFields(BaseModel):
    """Fields that say how tokens are drawn, and where the text ends."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    temperature: float | None = Field(None, ge=0)
    """How much chance there is; 0: the likeliest token each time. By default that of the model."""
    top_p: float | None = Field(None, ge=0, le=1)
    """Draw from the likeliest tokens that have this probability together."""
    top_k: int | None = Field(None, ge=-1)
    """Draw from so many of the likeliest tokens; 0 or -1: from all."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Draw from tokens that have at least this part of the probability of the likeliest."""
    seed: int | None = None
    """The same seed draws the same tokens; -1: any."""
    stop: str | Texts | None = None
    """A text, or several, at which the reply ends; it is not part of the reply."""
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    """Makes tokens less likely that are there already."""
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    """The same, for each time that they are there."""

    def read_sampling(self, default: Sampling) -> Sampling:
        """The sampling; where the request does not say, as by default."""
        seed = None  # any seed, which is also what llama-server's -1 means
        if self.seed is not None and self.seed >= 0:
            seed = self.seed % SEEDS
        return replace_given(
            default,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=0 if self.top_k == -1 else self.top_k,  # vLLM's -1 means all tokens
            min_p=self.min_p,
            seed=seed,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
        )

    def read_stop(self) -> tuple[str, ...]:
        """The stop texts; an empty text in place of a list is none, as for llama-server."""
        if not self.stop:
            return ()
        if isinstance(self.stop, str):
            return (self.stop,)
        return tuple(self.stop)


class GenerationFields(SamplingFields, CacheFields, RepetitionFields):
    """Fields that say how a reply is generated, and what it has to be."""

    model: str | None = ""
    """The name of a model, or one of its aliases; needed where the server has several."""
    response_format: Json | None = None
    """What the reply has to be: `text`, `json_object`, or `json_schema` with a schema."""
    json_schema: Json | None = None
    """llama-server's form: a JSON schema that the reply has to fit."""
    structured_outputs: StructuredOutputs | None = None
    """vLLM's form of what the reply has to be."""
    grammar: str | None = None
    """A grammar of the reply: Lark, or GBNF."""
    regex: str | None = None
    """A regular expression that the reply has to match."""
    choice: Texts | None = None
    """Texts, one of which is the reply."""
    guided_json: Json | None = None
    """vLLM's older name of `structured_outputs.json`."""
    guided_regex: str | None = None
    """vLLM's older name of `structured_outputs.regex`."""
    guided_choice: Texts | None = None
    """vLLM's older name of `structured_outputs.choice`."""
    guided_grammar: str | None = None
    """vLLM's older name of `structured_outputs.grammar`."""
    n_predict: int | None = Field(None, ge=-1)
    """llama-server's name of `max_tokens`; -1: as many as there is room for."""
    n: int | None = Field(None, ge=1)
    """The number of replies."""
    logit_bias: Biases | list[Any] | None = None
    """What is added to the logits of tokens: an object by id or text, or pairs of them; `false` in
    a pair: never."""
    repeat_penalty: float | None = Field(None, gt=0)
    """Makes tokens less likely that came last; 1: does nothing."""
    repetition_penalty: float | None = Field(None, gt=0)
    """vLLM's name of `repeat_penalty`."""
    stream: bool | None = None
    """The reply comes in parts, as server-sent events."""
    stream_options: StreamOptions | None = None
    """What a stream has beside the reply."""
    return_progress: bool | None = None
    """A stream says how much of the prompt is read."""
    timings_per_token: bool | None = None
    """Each part of a stream has the timings so far."""
    ignore_eos: bool | None = None
    """The reply goes on until it has all its tokens."""

    @property
    def shows_usage(self) -> bool:
        """True if a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    @property
    def progress_wishes(self) -> ProgressWishes:
        """What the chunks of a stream say of how far it is."""
        if not self.stream:
            return NO_WISHES
        return ProgressWishes(self.return_progress is True, self.timings_per_token is True)

    def read_sampling_with(self, model: Model) -> Sampling:
        """The sampling; where the request does not say, that of the model.

        Raises:
            HttpError: `logit_bias` names no token.
        """
        return replace_given(
            self.read_sampling(model.sampling),
            repeat_penalty=self.repeat_penalty or self.repetition_penalty,
            logit_bias=_read_biases(self.logit_bias, model.engine.vocabulary),
        )

    def check_answer(self, settings: Settings) -> None:
        """Refuses a schema or a grammar that is too large.

        Raises:
            HttpError: names the field.
        """
        for name in ANSWERS:
            check_size(getattr(self, name), settings, f"/{name}")
        if self.structured_outputs is not None:
            check_size(self.structured_outputs.model_dump(), settings, "/structured_outputs")

    def read_answer(self) -> Answer | None:
        """The constraint on the content: OpenAI's `response_format`, or one of the fields of
        llama-server and vLLM; None: any text.

        Raises:
            HttpError, Error: it is said twice, or cannot be enforced.
        """
        structured = self.structured_outputs or StructuredOutputs.model_construct()
        targets: Json = {
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


def _find_given(*values: Any) -> Any:
    """The first value that is given: `false` is a schema, and an empty choice is a mistake to be
    told."""
    return next((value for value in values if value is not None), None)


def find_ignored(extra: Mapping[str, Any] | None, harmless: Iterable[str]) -> tuple[str, ...]:
    """The names of fields that the server does not know, without those that change nothing, and
    those that are null or empty: many SDKs write every field that there is."""
    given = [name for name, value in (extra or {}).items() if value not in NOTHING]
    return tuple(name for name in given if name not in harmless)


def replace_given(sampling: Sampling, **fields: Any) -> Sampling:
    """The sampling with those of the fields that are not None."""
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(sampling, **given)


def _read_biases(
    given: Mapping[str, float] | Sequence[Any] | None, vocabulary: Vocabulary
) -> list[tuple[int, float]] | None:
    """The biases of tokens, from OpenAI's object (ids, or texts, each token of which is meant) or
    llama-server's list of pairs.

    Raises:
        HttpError: something is no such pair, a text has no tokens, the texts are too long, or an id
            has too many digits.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        pairs: list[tuple[str, int | str, float]] = []
        for key, value in given.items():
            is_id = key.isascii() and key.isdecimal()
            if is_id and len(key) > MAX_TOKEN_DIGITS:
                message = f"{key!r} is not a token id"
                raise HttpError(400, message, "invalid_value", where=point_to(["logit_bias", key]))
            pairs.append((key, int(key) if is_id else key, value))
    else:
        pairs = []
        for number, pair in enumerate(given):
            pairs.append((str(number), *_read_pair(pair, f"/logit_bias/{number}")))
    length = sum(len(token) for _, token, _ in pairs if isinstance(token, str))
    if length > MAX_BIASED:
        message = f"its texts have {length:,} characters, the limit is {MAX_BIASED:,}: name fewer"
        raise HttpError(400, message, "too_large", where="/logit_bias")
    biases: list[tuple[int, float]] = []  # not a map: `Sampling` refuses two biases of a token
    for place, token, value in pairs:
        ids = _find_tokens(token, vocabulary, point_to(["logit_bias", place]))
        biases += [(id, value) for id in dict.fromkeys(ids)]
    return biases


def _read_pair(pair: Any, where: str) -> tuple[int | str, float]:
    match pair:
        case [bool(), _] | [_, True]:
            pass
        case [int() | str() as token, False]:
            return token, -math.inf  # never, says llama-server's false
        case [int() | str() as token, int() | float() as value]:
            return token, value
        case _:
            pass
    message = "it must be a pair: a token (id or text) and a bias (a number, or false to forbid it)"
    raise HttpError(400, message, "invalid_value", where=where)


def _find_tokens(token: int | str, vocabulary: Vocabulary, where: str) -> Sequence[int]:
    if isinstance(token, int):
        return (token,)
    try:
        ids = vocabulary.encode(token)
    except UnicodeEncodeError:
        ids = []
    if not ids:
        message = f"{token!r} is neither a token id nor text"
        raise HttpError(400, message, "invalid_value", where=where)
    return ids
