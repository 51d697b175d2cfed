"""Messages: what a reply and the events of a stream are, for the OpenAPI document."""

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from server.turns.reply_notes import ReplyNotes

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]


class TextBlock(TypedDict):
    """A text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """Reasoning."""

    type: Literal["thinking"]
    thinking: str
    """Empty, where `display` is `omitted`."""
    signature: str
    """Opaque; clients send it back with the block."""


class ToolUseBlock(TypedDict):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str
    """What the block with the result names as its `tool_use_id`."""
    name: str
    input: dict[str, Any]


class McpToolUseBlock(TypedDict):
    """A call of an MCP server's tool, which this server executes."""

    type: Literal["mcp_tool_use"]
    id: str
    name: str
    server_name: str
    input: dict[str, Any]


class ResultText(TypedDict):
    """A text of a result."""

    type: Literal["text"]
    text: str


class McpToolResultBlock(TypedDict):
    """The result of such a call."""

    type: Literal["mcp_tool_result"]
    tool_use_id: str
    is_error: bool
    content: list[ResultText]


class SearchUseBlock(TypedDict):
    """A search for tools, which this server executes."""

    type: Literal["server_tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolReference(TypedDict):
    """A tool that was found."""

    type: Literal["tool_reference"]
    tool_name: str


class FoundTools(TypedDict):
    """What a search has found."""

    type: Literal["tool_search_tool_search_result"]
    tool_references: list[ToolReference]


class SearchError(TypedDict):
    """Why a search has found nothing."""

    type: Literal["tool_search_tool_result_error"]
    error_code: Literal["unavailable"]
    error_message: str | None


class SearchResultBlock(TypedDict):
    """The result of a search for tools."""

    type: Literal["tool_search_tool_result"]
    tool_use_id: str
    content: FoundTools | SearchError


ContentBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ToolUseBlock
    | McpToolUseBlock
    | McpToolResultBlock
    | SearchUseBlock
    | SearchResultBlock
)


class ThinkingTokens(TypedDict):
    """The tokens of a reply in detail."""

    thinking_tokens: int


class TurnUsage(TypedDict):
    """The tokens of a turn. All tokens of the prompt are those of the three fields of input."""

    input_tokens: int
    """Tokens that were computed, and are after the last breakpoint."""
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: NotRequired[ThinkingTokens]


class MessageUsage(TurnUsage):
    """The tokens of a request."""

    service_tier: Literal["standard"]


class AssistantMessage(TypedDict):
    """A whole reply; at the beginning of a stream, without its content."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage
    constrained: NotRequired[ReplyNotes]


class MessageStart(TypedDict):
    """The first event."""

    type: Literal["message_start"]
    message: AssistantMessage


class Ping(TypedDict):
    """Keeps the connection open."""

    type: Literal["ping"]


class BlockStart(TypedDict):
    """A block begins, without its content."""

    type: Literal["content_block_start"]
    index: int
    content_block: ContentBlock


class TextDelta(TypedDict):
    """More of a text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(TypedDict):
    """More of the reasoning."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    """The signature of the reasoning."""

    type: Literal["signature_delta"]
    signature: str


class InputDelta(TypedDict):
    """More of the JSON text of the input of a call."""

    type: Literal["input_json_delta"]
    partial_json: str


class BlockDelta(TypedDict):
    """More of a block."""

    type: Literal["content_block_delta"]
    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockStop(TypedDict):
    """A block is complete."""

    type: Literal["content_block_stop"]
    index: int


class StopDelta(TypedDict):
    """Why the reply ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(TypedDict):
    """The end of the reply, with its usage."""

    type: Literal["message_delta"]
    delta: StopDelta
    usage: TurnUsage
    constrained: NotRequired[ReplyNotes]


class MessageStop(TypedDict):
    """The last event."""

    type: Literal["message_stop"]


class AnthropicErrorDetails(TypedDict):
    """More about an error."""

    error_code: str


class AnthropicErrorBody(TypedDict):
    """What is wrong."""

    type: str
    message: str
    details: AnthropicErrorDetails


class AnthropicErrorReply(TypedDict):
    """A request that was not answered, in Anthropic's form."""

    type: Literal["error"]
    error: AnthropicErrorBody


MessageEvent: TypeAlias = (
    MessageStart
    | Ping
    | BlockStart
    | BlockDelta
    | BlockStop
    | MessageDelta
    | MessageStop
    | AnthropicErrorReply
)


class MessageTokens(TypedDict):
    """The length of a prompt."""

    input_tokens: int
