"""Ollama's API: the types of replies and of the lines of a stream, for the OpenAPI document."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from server.dialects.chat.reply_types import DrawnToken
from server.turns.reply_notes import ReplyNotes


class OllamaErrorReply(TypedDict):
    """The error of a failed request, in Ollama's form."""

    error: str


class OllamaFunction(TypedDict):
    """A function that is called."""

    index: int
    name: str
    arguments: dict[str, Any]


class OllamaCall(TypedDict):
    """A call of a tool."""

    id: str
    function: OllamaFunction


class OllamaMessage(TypedDict):
    """The assistant's message, or a part of it."""

    role: Literal["assistant"]
    content: str
    thinking: NotRequired[str]
    tool_calls: NotRequired[list[OllamaCall]]


class OllamaLine(TypedDict):
    """The common fields of all lines; only the last one has counts and durations."""

    model: str
    created_at: str
    done: bool
    done_reason: NotRequired[Literal["stop", "length", "load", "unload"]]
    total_duration: NotRequired[int]
    """In nanoseconds, like all durations."""
    load_duration: NotRequired[int]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]
    logprobs: NotRequired[list[DrawnToken]]
    constrained: NotRequired[ReplyNotes]


class OllamaChatLine(OllamaLine):
    """A line of /api/chat, or the whole reply."""

    message: OllamaMessage


class OllamaGenerateLine(OllamaLine):
    """A line of /api/generate, or the whole reply."""

    response: str
    thinking: NotRequired[str]


class OllamaVersion(TypedDict):
    """The version of Ollama whose API this is."""

    version: str


class ModelDetails(TypedDict):
    """The metadata of a model file; "" for missing values."""

    format: str
    family: str
    families: list[str] | None
    parent_model: str
    parameter_size: str
    """Such as `7.6B`."""
    quantization_level: str
    context_length: NotRequired[int]
    """In tokens: as served; of a model that is not loaded, as trained."""


class ModelTag(TypedDict):
    """A model."""

    name: str
    model: str
    modified_at: str
    size: int
    """The size of its files in bytes; for a loaded model, in memory."""
    digest: str
    capabilities: list[str]
    """Of a model that is not loaded, those that every model has."""
    details: ModelDetails


class LoadedTag(ModelTag):
    """A model that is loaded."""

    expires_at: str
    context_length: int
    size_vram: int


class ModelTags(TypedDict):
    """The models, loaded or not."""

    models: list[ModelTag]


class LoadedTags(TypedDict):
    """The models that are loaded."""

    models: list[LoadedTag]


class ShownModel(TypedDict):
    """The properties and the capabilities of a model."""

    modelfile: str
    parameters: str
    template: str
    details: ModelDetails
    model_info: dict[str, str | int]
    """By GGUF key: `general.architecture`, `general.name` and `general.basename` (the name that the
    model is served under, if its file has none), and with the architecture as a prefix
    `context_length` (as served), `embedding_length` and `vocab_size`."""
    capabilities: list[str]
    modified_at: str
