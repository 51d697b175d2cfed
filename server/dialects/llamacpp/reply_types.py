"""llama-server's paths: the types of their replies, for the OpenAPI document."""

from typing import Literal, NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict

from server.dialects.chat.reply_types import PromptProgress, TokenLogprob
from server.http.model_routes import FileFacts
from server.turns.progress import ReplyTimings
from server.turns.reply_notes import ReplyNotes


class NativeSampling(TypedDict):
    """How tokens are sampled."""

    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float


class NativeSettings(NativeSampling):
    """How a completion is generated."""

    n_ctx: int
    n_predict: int
    """-1: no limit."""
    max_tokens: int
    stop: list[str]
    stream: bool
    n_probs: int
    ignore_eos: bool
    timings_per_token: bool


class LikelyToken(TokenLogprob):
    """A likely token."""

    id: int


class ProbableToken(LikelyToken):
    """A sampled token with its likely alternatives."""

    top_logprobs: list[LikelyToken]


class NativeCompletion(TypedDict):
    """A completion, or a part of it. Only the last part has the fields about the whole; with
    `response_fields`, there are only those fields, and inner fields have their own names."""

    # pydantic's way to configure a TypedDict, whose classes may have no assignments.
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    index: NotRequired[int]
    content: NotRequired[str]
    tokens: NotRequired[list[int]]
    stop: NotRequired[bool]
    """True for a whole completion, and for the last part."""
    id_slot: NotRequired[int]
    tokens_predicted: NotRequired[int]
    tokens_evaluated: NotRequired[int]
    tokens_cached: NotRequired[int]
    completion_probabilities: NotRequired[list[ProbableToken]]
    prompt_progress: NotRequired[PromptProgress]
    timings: NotRequired[ReplyTimings]
    model: NotRequired[str]
    generation_settings: NotRequired[NativeSettings]
    prompt: NotRequired[str]
    has_new_line: NotRequired[bool]
    truncated: NotRequired[bool]
    stop_type: NotRequired[Literal["eos", "limit", "word"]]
    stopping_word: NotRequired[str]
    constrained: NotRequired[ReplyNotes]


class TokenPiece(TypedDict):
    """A token with its text."""

    id: int
    piece: str | list[int]
    """A list of bytes, if the token is part of a character."""


class TokenIds(TypedDict):
    """The tokens of a text."""

    tokens: list[int | TokenPiece]


class TokenText(TypedDict):
    """The text of tokens."""

    content: str


class RenderedPrompt(TypedDict):
    """The prompt of a conversation."""

    prompt: str


class GenerationDefaults(TypedDict):
    """The default options of requests."""

    n_ctx: int
    params: NativeSampling


class Modalities(TypedDict):
    """The kinds of input besides text."""

    vision: bool
    audio: bool


class ModelProperties(TypedDict):
    """A model, and the options that it runs with."""

    default_generation_settings: GenerationDefaults
    total_slots: int
    """The number of simultaneous requests."""
    model_alias: str
    model_path: str
    meta: FileFacts
    chat_template: str
    bos_token: str
    eos_token: str
    modalities: Modalities
    tool_format: str
    """The format of its calls."""
    build_info: str
    is_sleeping: bool


class SlotState(TypedDict):
    """A sequence."""

    id: int
    n_ctx: int
    is_processing: bool


Completions = NativeCompletion | list[NativeCompletion]
"""A list, if there are several prompts."""
