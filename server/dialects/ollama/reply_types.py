"""Ollama's API: what replies and the lines of a stream are, for the OpenAPI document."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from server.dialects.chat.reply_types import DrawnToken
from server.turns.reply_notes import ReplyNotes


class OllamaErrorReply(TypedDict):
    """A request that was not answered, in Ollama's form."""

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
    """What the assistant says, or a part of it."""

    role: Literal["assistant"]
    content: str
    thinking: NotRequired[str]
    tool_calls: NotRequired[list[OllamaCall]]


class OllamaLine(TypedDict):
    """What every line has; only the last one has counts and durations."""

    model: str
    created_at: str
    done: bool
    done_reason: NotRequired[Literal["stop", "length", "load", "unload"]]
    total_duration: NotRequired[int]
    """Nanoseconds, as all durations."""
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
    """What the file of a model says of it; "" where it says nothing."""

    format: str
    family: str
    families: list[str] | None
    parent_model: str
    parameter_size: str
    """As `7.6B`."""
    quantization_level: str


class ModelTag(TypedDict):
    """A model."""

    name: str
    model: str
    modified_at: str
    size: int
    """Bytes of its files; of a loaded one, of memory."""
    digest: str
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
    """What a model is, and what it can do."""

    modelfile: str
    parameters: str
    template: str
    details: ModelDetails
    model_info: dict[str, str | int]
    """By the keys of GGUF: `general.architecture`, and behind that architecture `context_length`
    (as it is served), `embedding_length` and `vocab_size`."""
    capabilities: list[str]
    modified_at: str
