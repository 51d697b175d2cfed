"""Responses: the types of a response and of the events of a stream, for the OpenAPI document."""

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from server.dialects.chat.reply_types import DrawnToken
from server.turns.reply_notes import ReplyNotes

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(TypedDict):
    """A text of the input."""

    type: Literal["input_text"]
    text: str


class OutputText(TypedDict):
    """A text that the assistant wrote."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    """Always empty."""
    logprobs: NotRequired[list[DrawnToken]]


class ReasoningText(TypedDict):
    """Reasoning."""

    type: Literal["reasoning_text"]
    text: str


class SummaryText(TypedDict):
    """A summary of reasoning from another server."""

    type: str
    text: str


class MessageItem(TypedDict):
    """A message."""

    type: Literal["message"]
    id: str
    role: Literal["user", "system", "developer", "assistant"]
    status: ItemStatus
    content: list[InputText | OutputText]


class ReasoningItem(TypedDict):
    """Reasoning."""

    type: Literal["reasoning"]
    id: str
    summary: list[SummaryText]
    content: list[ReasoningText]
    status: ItemStatus
    encrypted_content: NotRequired[str]
    """The text in an opaque form, if `include` asks for it: for clients that send it back."""


class FunctionCallItem(TypedDict):
    """A call of a function."""

    type: Literal["function_call"]
    id: str
    call_id: str
    """The id that the item with the result refers to."""
    name: str
    namespace: NotRequired[str]
    arguments: str
    """The JSON text of an object."""
    status: ItemStatus


class CustomCallItem(TypedDict):
    """A call of a custom tool."""

    type: Literal["custom_tool_call"]
    id: str
    call_id: str
    name: str
    namespace: NotRequired[str]
    input: str
    status: ItemStatus


class ShellCallItem(TypedDict):
    """A call of a shell of the client."""

    type: Literal["shell_call", "local_shell_call"]
    id: str
    call_id: str
    action: dict[str, Any]
    """The commands, and their limits."""
    status: ItemStatus


class PatchCallItem(TypedDict):
    """A call of `apply_patch`: the client creates, updates or deletes a file."""

    type: Literal["apply_patch_call"]
    id: str
    call_id: str
    operation: dict[str, Any]
    """What to do with which file, and the diff."""
    status: Literal["in_progress", "completed"]


class CallOutputItem(TypedDict):
    """The result of a call."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    id: str
    call_id: str
    output: str | list[InputText]
    status: ItemStatus


class ToolSearchCallItem(TypedDict):
    """A search for tools."""

    type: Literal["tool_search_call"]
    id: str
    call_id: str | None
    """The id that its output refers to; null: this server executes it, and its output is the next
    item."""
    execution: Literal["client", "server"]
    """Who executes it."""
    arguments: dict[str, Any]
    status: ItemStatus


class ToolSearchOutputItem(TypedDict):
    """The tools that a search has found."""

    type: Literal["tool_search_output"]
    id: str
    call_id: str | None
    execution: Literal["client", "server"]
    tools: list[dict[str, Any]]
    status: ItemStatus


class ListedMcpTool(TypedDict):
    """A tool of an MCP server."""

    name: str
    description: str | None
    input_schema: dict[str, Any]
    annotations: dict[str, Any] | None


class McpListItem(TypedDict):
    """The tools of an MCP server that may be called."""

    type: Literal["mcp_list_tools"]
    id: str
    server_label: str
    tools: list[ListedMcpTool]
    error: str | None
    """Why the server cannot be reached."""


class ErrorText(TypedDict):
    """An error in the form that the model reads."""

    type: Literal["text"]
    text: str


class McpCallError(TypedDict):
    """Why a call has no output."""

    type: Literal["mcp_tool_execution_error"]
    content: list[ErrorText]


class McpCallEntry(TypedDict):
    """A call of a tool of an MCP server, which this server executes."""

    type: Literal["mcp_call"]
    id: str
    approval_request_id: str | None
    """The request that the client has approved."""
    server_label: str
    name: str
    arguments: str
    """The JSON text of an object."""
    output: str | None
    error: McpCallError | None
    status: Literal["in_progress", "completed", "incomplete", "failed"]


class McpApprovalRequestItem(TypedDict):
    """A call of a tool of an MCP server that waits for the client's approval."""

    type: Literal["mcp_approval_request"]
    id: str
    server_label: str
    name: str
    arguments: str


class McpApprovalResponseItem(TypedDict):
    """The client's decision about a call."""

    type: Literal["mcp_approval_response"]
    id: str
    approval_request_id: str
    approve: bool
    reason: str | None


ResponseOutputItem: TypeAlias = (
    MessageItem
    | ReasoningItem
    | FunctionCallItem
    | CustomCallItem
    | ShellCallItem
    | PatchCallItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | McpListItem
    | McpCallEntry
    | McpApprovalRequestItem
)
ConversationItem: TypeAlias = ResponseOutputItem | CallOutputItem | McpApprovalResponseItem


class CachedInput(TypedDict):
    """The input tokens in detail."""

    cached_tokens: int
    cache_write_tokens: int


class ReasonedOutput(TypedDict):
    """The output tokens, by kind."""

    reasoning_tokens: int


class ResponseUsage(TypedDict):
    """The tokens of a response."""

    input_tokens: int
    input_tokens_details: CachedInput
    output_tokens: int
    output_tokens_details: ReasonedOutput
    total_tokens: int


class ResponseFault(TypedDict):
    """Why a response has failed."""

    code: str
    message: str


class IncompleteDetails(TypedDict):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class ReasoningEcho(TypedDict):
    """The requested reasoning."""

    effort: str | None
    summary: str | None


class TextEcho(TypedDict):
    """The form of the text."""

    format: dict[str, Any]
    verbosity: Literal["low", "medium", "high"]


class ModelResponse(TypedDict):
    """A response. Many of its fields repeat the request."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    model: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    error: ResponseFault | None
    incomplete_details: IncompleteDetails | None
    output: list[ResponseOutputItem]
    usage: ResponseUsage | None
    instructions: str | None
    previous_response_id: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    user: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    background: bool
    conversation: None
    prompt: None
    presence_penalty: float
    frequency_penalty: float
    metadata: dict[str, str]
    parallel_tool_calls: bool
    reasoning: ReasoningEcho
    service_tier: Literal["default"]
    store: bool
    temperature: float
    text: TextEcho
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["auto", "disabled"]
    constrained: NotRequired[ReplyNotes]


class NumberedEvent(TypedDict):
    """The common fields of all events."""

    sequence_number: int


class ResponseEvent(NumberedEvent):
    """The response so far; the last event has the complete one."""

    type: Literal[
        "response.created",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    response: ModelResponse


class ItemEvent(NumberedEvent):
    """An item begins, without its content, or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: ResponseOutputItem


class PlacedEvent(NumberedEvent):
    """The common fields of events inside an item."""

    item_id: str
    output_index: int


class PartEvent(PlacedEvent):
    """A part of an item begins, or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputText | ReasoningText


class TextDeltaEvent(PlacedEvent):
    """More of a text."""

    type: Literal["response.output_text.delta", "response.reasoning_text.delta"]
    content_index: int
    delta: str
    logprobs: NotRequired[list[DrawnToken]]


class TextDoneEvent(PlacedEvent):
    """A text is complete."""

    type: Literal["response.output_text.done", "response.reasoning_text.done"]
    content_index: int
    text: str
    logprobs: NotRequired[list[DrawnToken]]


class CallDeltaEvent(PlacedEvent):
    """More of the text of a call."""

    type: Literal[
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta",
    ]
    delta: str


class ArgumentsDoneEvent(PlacedEvent):
    """The arguments of a call are complete."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    namespace: NotRequired[str]
    arguments: str


class InputDoneEvent(PlacedEvent):
    """The input of a custom tool is complete."""

    type: Literal["response.custom_tool_call_input.done"]
    name: str
    namespace: NotRequired[str]
    input: str


class McpArgumentsDoneEvent(PlacedEvent):
    """The arguments of a call of a tool of an MCP server are complete."""

    type: Literal["response.mcp_call_arguments.done"]
    arguments: str


class McpEvent(PlacedEvent):
    """The progress of a call of a tool of an MCP server, or of the list of its tools."""

    type: Literal[
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
    ]


class ErrorEvent(NumberedEvent):
    """The response fails."""

    type: Literal["error"]
    code: str
    message: str
    param: str | None


StreamedEvent: TypeAlias = (
    ResponseEvent
    | ItemEvent
    | PartEvent
    | TextDeltaEvent
    | TextDoneEvent
    | CallDeltaEvent
    | ArgumentsDoneEvent
    | InputDoneEvent
    | McpArgumentsDoneEvent
    | McpEvent
    | ErrorEvent
)


class DeletedResponse(TypedDict):
    """A deleted response."""

    id: str
    object: Literal["response"]
    deleted: bool


class ItemPage(TypedDict):
    """A part of the items of a conversation."""

    object: Literal["list"]
    data: list[ConversationItem]
    has_more: bool
    first_id: str
    """Empty if there is none."""
    last_id: str
