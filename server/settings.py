"""Settings of the server; every value has a default that is safe on a machine of one's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from constrained.engine.options import MAX_WAITING
from constrained.errors import RequestError
from constrained.job import MAX_REPEATED

MIB = 1 << 20
MIN_RATE = 1_000
"""Bytes a second that a client has to send of a body, and to take of a reply, after the time in
which it may do nothing at all (`Settings.idle_seconds`)."""


class ReasoningField(StrEnum):
    """The field of a Chat Completion that has its reasoning. Clients of DeepSeek and llama-server
    read `reasoning_content`, those of OpenRouter and newer vLLM `reasoning`."""

    REASONING_CONTENT = "reasoning_content"
    REASONING = "reasoning"
    BOTH = "both"
    INLINE = "inline"
    """In the content, between the model's own tags."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a message; none where the reasoning stands in the content."""
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
    """One of them has to be given; none: anybody may ask."""
    reasoning_field: ReasoningField = ReasoningField.REASONING_CONTENT
    max_body: int = 32 * MIB
    """Bytes of a request."""
    max_values: int = 250_000
    """JSON values in a request, at all depths: each takes a hundred bytes of memory."""
    max_messages: int = 10_000
    """Of a conversation; of Responses, items."""
    max_parts: int = 20_000
    """Parts of content and calls of tools, in all messages together."""
    max_tools: int = 1000
    """In one request."""
    max_template_kwargs: int = MIB // 4
    """Bytes of the variables that a request gives to the chat template."""
    max_schema: int = MIB
    """Bytes of the schema of one tool, or of an answer."""
    max_tokens: int | None = None
    """Of a reply, where the request does not say; None: as many as the context has room for."""
    stop: tuple[str, ...] = ()
    """Texts that end the content of every reply."""
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Variables of the chat template, where the request does not give them."""
    reasoning: bool | None = None
    """Whether models reason, where the request does not say; None: as their templates have it."""
    reasoning_budget: int | None = None
    """Tokens of reasoning, where the request does not say; None: any number."""
    lenient_tools: bool = False
    """`strict: false` of a tool leaves its schema open; else it is enforced all the same."""
    max_waiting: int = MAX_WAITING
    """Requests that wait to be read before it is known which model they are for."""
    max_choices: int = 16
    """Replies to one request (`n`)."""
    max_repetition: int | None = MAX_REPEATED
    """Tokens that one value may spend on repeating itself, where the request does not say; None:
    any number."""
    max_repetition_limit: int | None = None
    """The largest `max_repetition` of a request; None: any, also none."""
    max_tool_steps: int = 16
    """Turns of one reply, where the server carries calls out; the last of them is an answer."""
    max_tool_seconds: float = 600.0
    """Of one reply, where the server carries calls out; then the model has to answer."""
    max_tool_output: int = 256 << 10
    """Characters of a result that the model reads, of calls that the server carries out."""
    max_stored: int = 1000
    """Responses that are kept for `previous_response_id`."""
    max_stored_bytes: int = 256 * MIB
    """Of their JSON, with what they answer; a response that is larger alone is not kept."""
    max_file: int = 64 * MIB
    """Bytes of a file that is sent, such as the requests of a batch."""
    max_line: int = 4 * MIB
    """Bytes of one line of a batch: a prompt of a million tokens has as many."""
    max_echoed: int = MIB // 16
    """Bytes of what a response or a batch only repeats of its request: `metadata`, and each of
    `user`, `safety_identifier`, `prompt_cache_key` and the like. OpenAI's metadata have 16 members
    of 64 and 512 characters."""
    max_files: int = 1000
    """Files of one API key, those included that batches write."""
    max_files_bytes: int = 256 * MIB
    """Of all files of one API key; they are in memory."""
    batch_dir: Path | None = None
    """The folder that files and batches are in as well, and are found in by the next server; None:
    they are gone when the server stops."""
    max_batches: int = 100
    """Batches of one API key; of more, the oldest finished ones are forgotten."""
    idle_seconds: float = 60.0
    """A client is cut off that takes nothing of its stream for so long, or that is in the middle of
    a request and sends nothing of it."""
    drain_seconds: float = 30.0
    """Requests under way have so long to end when the server stops."""
    allowed_hosts: tuple[str, ...] | None = None
    """Requests name the server by one of these (the header Host, without a port), so that no web
    page reaches it by a name of its own (DNS rebinding); None: by any."""
    ping_seconds: float = 15.0
    """A stream that has nothing to say for so long says that it is alive."""
    timeout: float | None = None
    """Seconds for a request; None: any time."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may ask; none: no page may."""
    keep_volatile: bool = False
    """Leave text as it is that agents change in every request (`server.turns.stable_prompts`)."""
    date: datetime | None = None
    """The date of today, for templates; None: the day on which a conversation began."""
    share_cache: bool = False
    """What was computed for the holder of one key is used for those of the others, too: they can
    tell from times and counts what was asked. A `cache_salt` still keeps it apart."""
    show_grammar: bool = False
    """Replies have the grammar that constrained them."""
    log_prompts: bool = False
    """The log has what was asked and answered."""
    trace: Path | None = None
    """The file that the trace of each reply is appended to; None: nothing is traced unasked."""
    max_trace_bytes: int = 64 * MIB
    """Of the file of traces; when it is full, it takes the place of an older one (FILE.1)."""
    otel: bool = False
    """A span of OpenTelemetry is exported for each reply."""

    def __post_init__(self) -> None:
        limits = (
            "max_body",
            "max_values",
            "max_messages",
            "max_parts",
            "max_template_kwargs",
            "max_tools",
            "max_schema",
            "max_waiting",
            "max_choices",
            "max_repetition",
            "max_repetition_limit",
            "max_tool_steps",
            "max_tool_seconds",
            "max_tool_output",
            "max_stored",
            "max_stored_bytes",
            "max_file",
            "max_line",
            "max_echoed",
            "max_files",
            "max_files_bytes",
            "max_batches",
            "max_trace_bytes",
            "idle_seconds",
            "ping_seconds",
        )
        for name in limits:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise RequestError(f"{name} is {value}, must be 1 or more")

    @property
    def default_repetition(self) -> int | None:
        """The `max_repetition` of a request that does not say; within the limit."""
        bounds = [self.max_repetition, self.max_repetition_limit]
        return min((bound for bound in bounds if bound is not None), default=None)
