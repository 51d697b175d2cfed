"""Settings of the server. The defaults are safe for a server on your own machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from constrained.engine.options import MAX_WAITING, document_options, option
from constrained.errors import RequestError
from constrained.prompt.job import MAX_REPEATED, Envelopes

KIB, MIB = 1 << 10, 1 << 20
SERVER, INSIDE, ACCESS = "server", "look inside", "operate: access"
PROMPTS, TIMES, STORAGE = "operate: prompts", "operate: times", "operate: files and stores"
EXECUTED = "operate: calls that the server executes"
"""Titles of groups of options in the help."""
T = TypeVar("T")
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


def limit(default: T, form: str, help: str, note: str = "", **details: Any) -> T:
    """Declares an option that is a limit of requests, of 1 or more."""
    details = {"group": "operate: limits", "least": 1, **details}
    return option(default, form, help, note, **details)


def read_unbounded(given: int) -> int | None:
    """Reads a maximum; None for -1, which means no limit."""
    return None if given == -1 else given


def _read_date(given: str) -> datetime:
    try:
        return datetime.fromisoformat(given)
    except ValueError as error:
        hint = "Write it as YYYY-MM-DD"
        raise RequestError(f"--date is {given!r}", where="/date", hint=hint) from error


@document_options
@dataclass(frozen=True)
class Settings:
    """Settings of the server.

    Args:
        {options}
        template_kwargs: default variables of the chat template.

    Raises:
        RequestError: a limit is below 1.
    """

    api_keys: tuple[str, ...] = option(
        (),
        "--api-key KEY $LLAMA_API_KEY",
        "require this API key (repeatable)",
        "None: anyone may send requests.",
        group=SERVER,
    )
    cors_origins: tuple[str, ...] = option(
        (),
        "--cors-origin ORIGIN",
        "allow web pages of this origin (CORS; repeatable); *: any",
        group=SERVER,
    )
    allowed_hosts: tuple[str, ...] | None = option(
        None,
        "--allowed-hosts HOST[,HOST]",
        "Host names that are accepted, or *; default: on localhost its own, else any",
        "Without a port. So no web page reaches the server by another name (DNS rebinding).",
        group=ACCESS,
    )
    share_cache: bool = option(
        False,
        "--share-cache",
        "share caches between API keys; response times then reveal what others asked",
        "Token counts do, too. A `cache_salt` still separates them.",
        group=ACCESS,
    )
    reasoning_field: ReasoningField = option(
        ReasoningField.REASONING_CONTENT,
        "--reasoning-field",
        "field for reasoning in Chat Completions",
        group=PROMPTS,
    )
    reasoning: bool | None = option(
        None, "", "whether models reason by default; None: as their templates do"
    )
    reasoning_budget: int | None = option(
        None, "", "default maximum of reasoning tokens; None: no limit"
    )
    max_tokens: int | None = option(
        None, "", "default maximum of tokens in a reply; None: as many as the context has room for"
    )
    stop: tuple[str, ...] = option((), "", "texts that end the content of every reply")
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lenient_tools: bool = option(
        False,
        "--lenient-tools",
        "do not enforce schemas of tools with strict: false",
        group=PROMPTS,
    )
    envelopes: Envelopes = option(
        Envelopes.KEPT,
        "--envelopes",
        "calls in another form than the model's own, where calls are optional: kept as they are "
        "(the default), written again in its own (native), or text (off)",
        group=PROMPTS,
    )
    keep_volatile: bool = option(
        False,
        "--keep-volatile",
        "keep text that agents change in every request; prompts are then computed again",
        "See `server.turns.stable_prompts`.",
        group=PROMPTS,
    )
    date: datetime | None = option(
        None,
        "--date DATE",
        "date in prompts, YYYY-MM-DD; default: the day the conversation began",
        group=PROMPTS,
        make=_read_date,
    )
    timeout: float | None = option(
        None, "--timeout SECONDS", "limit for a request; default: none", group=TIMES
    )
    drain_seconds: float = option(
        30.0,
        "--drain SECONDS",
        "time for running requests to end when the server stops",
        group=TIMES,
        least=0,
    )
    idle_seconds: float = option(
        60.0,
        "--idle-timeout SECONDS",
        "disconnect clients that neither read nor send for this time",
        group=TIMES,
        least=1,
    )
    ping_seconds: float = option(15.0, "", "a stream without events for this time sends a ping")
    max_waiting: int = limit(
        MAX_WAITING,
        "--max-waiting N",
        "maximum number of waiting requests; further ones get status 503",
    )
    max_body: int = limit(
        4 * MIB,
        "--max-body MIB",
        "maximum size of a request",
        "Enough for a prompt of a million tokens. While it is parsed, nothing else runs.",
        unit=MIB,
    )
    max_values: int = limit(
        200_000,
        "--max-values N",
        "maximum JSON values and names of members in a request",
        "At all depths; each takes a hundred bytes of memory.",
    )
    max_tools: int = limit(1000, "--max-tools N", "maximum tools in a request")
    max_choices: int = limit(16, "--max-choices N", "maximum replies to one request (n)")
    max_repetition: int | None = limit(
        MAX_REPEATED,
        "--max-repetition N",
        "default limit of tokens of a value that repeats itself; -1: none",
        least=None,
        make=read_unbounded,
    )
    max_repetition_limit: int | None = limit(
        None,
        "--max-repetition-limit N",
        "largest max_repetition that a request may set; default: -1, no limit",
        least=None,
        make=read_unbounded,
    )
    max_schema: int = limit(
        MIB,
        "--max-schema KIB",
        "maximum size of the schema of one tool, or of an answer, as JSON",
        unit=KIB,
    )
    max_template_kwargs: int = limit(
        MIB // 4,
        "--max-template-kwargs KIB",
        "maximum size of chat_template_kwargs, as JSON",
        unit=KIB,
    )
    max_echoed: int = limit(
        MIB // 16,
        "--max-echoed KIB",
        "maximum size of metadata, and of each field that is only returned, as JSON",
        "OpenAI's metadata have 16 members of 64 and 512 characters.",
        unit=KIB,
    )
    max_line: int = limit(
        4 * MIB, "--max-line KIB", "maximum size of one line of a batch, as JSON", unit=KIB
    )
    max_tool_steps: int = limit(
        16, "--tool-steps N", "maximum number of turns in one reply", group=EXECUTED
    )
    max_tool_seconds: float = limit(
        600.0,
        "--tool-seconds SECONDS",
        "time after which the model has to answer",
        group=EXECUTED,
    )
    max_tool_output: int = limit(
        256 << 10,
        "--tool-output N",
        "maximum length of a result, in 1,024 characters; the rest is cut",
        group=EXECUTED,
        unit=1024,
    )
    max_stored: int = option(1000, "", "responses that are kept for `previous_response_id`")
    max_stored_bytes: int = option(
        256 * MIB,
        "",
        "bytes of their JSON, with their conversations; a single larger response is not kept",
    )
    max_file: int = limit(
        64 * MIB, "--max-file MIB", "maximum size of an uploaded file", group=STORAGE, unit=MIB
    )
    max_files_bytes: int = limit(
        256 * MIB,
        "--max-files MIB",
        "maximum size of all files of one API key, in memory",
        group=STORAGE,
        unit=MIB,
    )
    max_files: int = option(1000, "", "files of one API key, including those that batches write")
    max_batches: int = option(
        100, "", "batches of one API key; if there are more, the oldest finished ones are deleted"
    )
    batch_dir: Path | None = option(
        None,
        "--batch-dir FOLDER",
        "folder for files and batches, which then survive a restart; default: only in memory",
        group=STORAGE,
    )
    show_grammar: bool = option(
        False, "--show-grammar", "put the grammar into replies", group=INSIDE
    )
    log_prompts: bool = option(
        False, "--log-prompts", "write prompts and replies to the log", group=INSIDE
    )
    trace: Path | None = option(
        None,
        "--trace FILE",
        "append a trace of each reply to FILE: what decided each token (constrained trace)",
        "None: only requested traces are made.",
        group=INSIDE,
    )
    max_trace_bytes: int = limit(
        64 * MIB,
        "--trace-size MIB",
        "size at which that file is renamed to FILE.1 and a new one begins",
        group=INSIDE,
        unit=MIB,
    )
    otel: bool = option(
        False,
        "--otel",
        "export a span for each reply by OTLP (OTEL_EXPORTER_OTLP_ENDPOINT; extra otel)",
        group=INSIDE,
    )

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
