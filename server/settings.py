"""Settings of the server. The defaults are safe for a server on your own machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from constrained.engine.options import MAX_WAITING
from constrained.errors import RequestError
from constrained.prompt.job import MAX_REPEATED, Envelopes

MIB = 1 << 20
MIN_RATE = 1_000
"""Bytes per second that a client has to send of a body and to receive of a reply, after the time in
which it may pause (`Settings.idle_seconds`)."""


class ReasoningField(StrEnum):
    """The field of a chat completion with the reasoning. Clients of DeepSeek and llama-server read
    `reasoning_content`, those of OpenRouter and newer vLLM `reasoning`."""

    REASONING_CONTENT = "reasoning_content"
    REASONING = "reasoning"
    BOTH = "both"
    INLINE = "inline"
    """In the content, between the model's own tags."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a message; none if the reasoning is in the content."""
        match self:
            case ReasoningField.BOTH:
                return ("reasoning_content", "reasoning")
            case ReasoningField.INLINE:
                return ()
            case _:
                return (self.value,)


@dataclass(frozen=True)
class Settings:
    """Settings of the server.

    Raises:
        RequestError: a limit is below 1.
    """

    api_keys: tuple[str, ...] = ()
    """Requests need one of these keys; none: anyone may send requests."""
    reasoning_field: ReasoningField = ReasoningField.REASONING_CONTENT
    max_body: int = 4 * MIB
    """Bytes of a request body; enough for a prompt of a million tokens. While it is parsed, nothing
    else runs."""
    max_values: int = 200_000
    """JSON values and names in a request, at all depths: each takes a hundred bytes of memory."""
    max_tools: int = 1000
    """In one request."""
    max_template_kwargs: int = MIB // 4
    """Bytes of the variables that a request gives to the chat template."""
    max_schema: int = MIB
    """Bytes of the schema of one tool, or of an answer."""
    max_tokens: int | None = None
    """Default maximum of tokens in a reply; None: as many as the context has room for."""
    stop: tuple[str, ...] = ()
    """Texts that end the content of every reply."""
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Default variables of the chat template."""
    reasoning: bool | None = None
    """Whether models reason by default; None: as their templates do."""
    reasoning_budget: int | None = None
    """Default maximum of reasoning tokens; None: no limit."""
    lenient_tools: bool = False
    """`strict: false` of a tool turns its schema off; otherwise the schema is enforced anyway."""
    envelopes: Envelopes = Envelopes.KEPT
    """What becomes of a call that the model begins in another form than its own."""
    max_waiting: int = MAX_WAITING
    """Requests that wait to be read before their model is known."""
    max_choices: int = 16
    """Replies to one request (`n`)."""
    max_repetition: int | None = MAX_REPEATED
    """Default maximum of tokens with which one value may repeat itself; None: no limit."""
    max_repetition_limit: int | None = None
    """The largest `max_repetition` of a request; None: requests may also turn it off."""
    max_tool_steps: int = 16
    """Turns of one reply in which the server executes calls; the last of them is an answer."""
    max_tool_seconds: float = 600.0
    """Seconds of one reply in which the server executes calls; then the model has to answer."""
    max_tool_output: int = 256 << 10
    """Characters that the model reads of a result, for calls that the server executes."""
    max_stored: int = 1000
    """Responses that are kept for `previous_response_id`."""
    max_stored_bytes: int = 256 * MIB
    """Bytes of their JSON, with their conversations; a single larger response is not kept."""
    max_file: int = 64 * MIB
    """Bytes of an uploaded file, such as the requests of a batch."""
    max_line: int = 4 * MIB
    """Bytes of one line of a batch; enough for a prompt of a million tokens."""
    max_echoed: int = MIB // 16
    """Bytes of fields that a response or a batch only repeats: `metadata`, and each of `user`,
    `safety_identifier`, `prompt_cache_key` and the like. OpenAI's metadata have 16 members of 64
    and 512 characters."""
    max_files: int = 1000
    """Files of one API key, including those that batches write."""
    max_files_bytes: int = 256 * MIB
    """Bytes of all files of one API key; they are in memory."""
    batch_dir: Path | None = None
    """The folder in which files and batches are also saved, for the next start of the server; None:
    they are lost when the server stops."""
    max_batches: int = 100
    """Batches of one API key; if there are more, the oldest finished ones are deleted."""
    idle_seconds: float = 60.0
    """A client is disconnected if it reads nothing of its stream for this time, or sends nothing in
    the middle of a request."""
    drain_seconds: float = 30.0
    """Time for running requests to end when the server stops."""
    allowed_hosts: tuple[str, ...] | None = None
    """The host names that requests may use (the header Host, without a port), so that no web page
    reaches the server by another name (DNS rebinding); None: any."""
    ping_seconds: float = 15.0
    """A stream without events for this time sends a ping."""
    timeout: float | None = None
    """Seconds for a request; None: no limit."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may send requests; none: no page may."""
    keep_volatile: bool = False
    """Do not move text that agents change in every request (`server.turns.stable_prompts`)."""
    date: datetime | None = None
    """The current date for templates; None: the day on which a conversation began."""
    share_cache: bool = False
    """Caches are shared between API keys. Clients can then find out from times and token counts
    what others have sent. A `cache_salt` still separates them."""
    show_grammar: bool = False
    """Replies contain the grammar that constrained them."""
    log_prompts: bool = False
    """The log contains prompts and replies."""
    trace: Path | None = None
    """The file to which the trace of each reply is appended; None: only requested traces are
    made."""
    max_trace_bytes: int = 64 * MIB
    """Bytes of the file of traces; when it is full, it replaces the previous one (FILE.1)."""
    otel: bool = False
    """A span of OpenTelemetry is exported for each reply."""

    def __post_init__(self) -> None:
        for declared in fields(self):
            name, value = declared.name, getattr(self, declared.name)
            is_limit = name.startswith("max_") or name in ("idle_seconds", "ping_seconds")
            if is_limit and value is not None and value < 1:
                raise RequestError(f"{name} is {value}, must be 1 or more")

    @property
    def default_repetition(self) -> int | None:
        """The default `max_repetition`, within the limit."""
        bounds = [self.max_repetition, self.max_repetition_limit]
        return min((bound for bound in bounds if bound is not None), default=None)
