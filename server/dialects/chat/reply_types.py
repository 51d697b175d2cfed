"""Chat Completions: the types of a reply and of the chunks of a stream, for the OpenAPI
document."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from server.turns.progress import ReplyTimings
from server.turns.reply_notes import ReplyNotes

FinishReason = Literal["stop", "length", "tool_calls", "function_call", "content_filter"]


class TokenLogprob(TypedDict):
    """A token and its log probability."""

    token: str
    bytes: list[int]
    """The bytes of the token, which may be part of a character."""
    logprob: float


class DrawnToken(TokenLogprob):
    """A sampled token with its likely alternatives."""

    top_logprobs: list[TokenLogprob]


class ChatLogprobs(TypedDict):
    """The log probabilities of the tokens of a reply."""

    content: list[DrawnToken]


class CalledFunction(TypedDict):
    """A function that is called."""

    name: str
    arguments: str
    """The JSON text of an object that fits the schema of the tool."""


class CustomInput(TypedDict):
    """A custom tool that is called."""

    name: str
    input: str


class ChatToolCall(TypedDict):
    """A call of a tool."""

    id: str
    """The id that the message with the result has as its `tool_call_id`."""
    type: Literal["function", "custom"]
    function: NotRequired[CalledFunction]
    custom: NotRequired[CustomInput]


class ChatMessage(TypedDict):
    """The assistant's message."""

    role: Literal["assistant"]
    content: str | None
    """null, if there are only calls."""
    reasoning_content: NotRequired[str]
    """The reasoning, unless the server has another field for it (`--reasoning-field`)."""
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[ChatToolCall]]
    function_call: NotRequired[CalledFunction]
    """The call, if the request has `functions`."""


class ChatChoice(TypedDict):
    """One of the choices."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    timings: NotRequired[ReplyTimings]


class PromptTokensDetails(TypedDict):
    """The prompt tokens in detail."""

    cached_tokens: int
    """Tokens that were not computed again."""


class CompletionTokensDetails(TypedDict):
    """The tokens of the replies, by kind."""

    reasoning_tokens: int
    accepted_prediction_tokens: int
    """Drafted tokens that the model has accepted."""
    rejected_prediction_tokens: int


class ChatUsage(TypedDict):
    """The tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class ChatHead(TypedDict):
    """The common fields of chunks and whole replies."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    system_fingerprint: str
    """The name of the format of calls."""


class ChatCompletion(ChatHead):
    """A whole reply."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: ChatUsage
    timings: ReplyTimings
    trace: NotRequired[dict[str, Any]]
    """The trace, which has the reasons for each token, if `trace` asks for it."""
    constrained: NotRequired[ReplyNotes]


class FunctionDelta(TypedDict):
    """A part of a call of a function."""

    name: NotRequired[str]
    arguments: str
    """More of the JSON text."""


class CustomDelta(TypedDict):
    """A part of a call of a custom tool."""

    name: NotRequired[str]
    input: str


class ToolCallDelta(TypedDict):
    """A part of a call; the first one has its id."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function", "custom"]]
    function: NotRequired[FunctionDelta]
    custom: NotRequired[CustomDelta]


class ChatDelta(TypedDict):
    """A part of the assistant's message."""

    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str]
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallDelta]]
    function_call: NotRequired[FunctionDelta]
    """A part of the call, if the request has `functions`."""


class ChatChunkChoice(TypedDict):
    """A part of one of the choices."""

    index: int
    delta: ChatDelta
    logprobs: NotRequired[ChatLogprobs]
    finish_reason: FinishReason | None
    """null, except in the last part."""


class PromptProgress(TypedDict):
    """The progress of reading the prompt."""

    total: int
    cache: int
    processed: int
    time_ms: float


class ChatChunk(ChatHead):
    """A part of a stream; the part with the usage has no choices."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]
    usage: NotRequired[ChatUsage]
    """In the last chunk, if `stream_options` ask for it."""
    timings: NotRequired[ReplyTimings]
    prompt_progress: NotRequired[PromptProgress]
    trace: NotRequired[dict[str, Any]]
    """In the last chunk of a choice, if the request asks for it."""
    constrained: NotRequired[ReplyNotes]


class InputTokens(TypedDict):
    """The length of a prompt."""

    object: Literal["response.input_tokens"]
    input_tokens: int
