"""Settings of the server. The defaults are safe for a server on your own machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from constrained.engine.options import (
    MAX_WAITING,
    UnlessMinusOne,
    ValueForm,
    Within,
    show_plain_types,
)
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


def _read_date(given: str) -> datetime:
    try:
        return datetime.fromisoformat(given)
    except ValueError as error:
        hint = "Write it as YYYY-MM-DD"
        raise RequestError(f"--date is {given!r}", where="/date", hint=hint) from error


UNSET = ValueForm(further={"default": None})
"""Another option may say the same: without one, the default of the field holds."""
Count = Annotated[int, Within(1)]
Seconds = Annotated[float, Within(1)]


@dataclass(frozen=True)
class Settings:
    """Settings of the server.

    Args:
        api_keys: require this API key (repeatable) (--api-key KEY $LLAMA_API_KEY; server). None:
            anyone may send requests.
        cors_origins: allow web pages of this origin (CORS; repeatable); *: any (--cors-origin
            ORIGIN; advanced: access).
        allowed_hosts: Host names that are accepted, or *; default: on localhost its own, else any
            (--allowed-hosts HOST[,HOST]; advanced: access). Without ports. So no web page reaches
            the server by another name (DNS rebinding).
        share_cache: share caches between API keys; response times then reveal what others asked
            (--share-cache; advanced: access). Token counts do, too. A `cache_salt` still separates
            them.
        reasoning_field: field for reasoning in Chat Completions; default: reasoning_content
            (--reasoning-field; advanced: prompts).
        reasoning: whether models reason by default; None: as their templates do.
        reasoning_budget: default maximum of reasoning tokens; None: no limit.
        max_tokens: default maximum of tokens in a reply; None: as many as the context has room for.
        stop: texts that end the content of every reply.
        template_kwargs: default variables of the chat template.
        lenient_tools: do not enforce schemas of tools with strict: false (--lenient-tools;
            advanced: prompts).
        envelopes: calls in another form than the model's own, where calls are optional: kept as
            they are (the default), written again in its own (native), or text (off) (--envelopes;
            advanced: prompts).
        keep_volatile: keep text that agents change in every request; prompts are then computed
            again (--keep-volatile; advanced: prompts). See `server.turns.stable_prompts`.
        date: date in prompts, YYYY-MM-DD; default: the day the conversation began (--date DATE;
            advanced: prompts).
        timeout: limit for a request; default: none (--timeout SECONDS; advanced: times).
        drain_seconds: time for running requests to end when the server stops (--drain SECONDS;
            advanced: times).
        idle_seconds: disconnect clients that neither read nor send for this time (--idle-timeout
            SECONDS; advanced: times).
        ping_seconds: a stream without events for this time sends a ping.
        max_waiting: maximum number of waiting requests; further ones get status 503 (--max-waiting
            N).
        max_body: maximum size of a request (--max-body MIB). Enough for a prompt of a million
            tokens. While it is parsed, nothing else runs.
        max_values: maximum JSON values and names of members in a request (--max-values N). At all
            depths: each takes a hundred bytes of memory.
        max_tools: maximum tools in a request (--max-tools N).
        max_choices: maximum replies to one request (n) (--max-choices N).
        max_repetition: maximum tokens of a value that repeats itself; -1: no limit
            (--max-repetition N).
        max_repetition_limit: largest max_repetition that a request may set; default: -1, no limit
            (--max-repetition-limit N).
        max_schema: maximum size of the schema of one tool, or of an answer, as JSON (--max-schema
            KIB).
        max_template_kwargs: maximum size of chat_template_kwargs, as JSON (--max-template-kwargs
            KIB).
        max_echoed: maximum size of metadata, and of each field that is only returned, as JSON
            (--max-echoed KIB). OpenAI's metadata have 16 members of 64 and 512 characters.
        max_stored: responses that are kept for `previous_response_id`.
        max_stored_bytes: bytes of their JSON, with their conversations; a single larger response is
            not kept.
        show_grammar: put the grammar into replies (--show-grammar; debug).
        log_prompts: write prompts and replies to the log (--log-prompts; debug).
        otel: export a span for each reply by OTLP (OTEL_EXPORTER_OTLP_ENDPOINT; extra otel)
            (--otel; debug).

    Raises:
        RequestError: a limit is below 1.
    """

    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: Annotated[tuple[str, ...], ValueForm(further={"action": "store"})] | None = None
    share_cache: bool = False
    reasoning_field: Annotated[ReasoningField, UNSET] = ReasoningField.REASONING_CONTENT
    reasoning: bool | None = None
    reasoning_budget: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lenient_tools: bool = False
    envelopes: Envelopes = Envelopes.KEPT
    keep_volatile: bool = False
    date: Annotated[datetime, ValueForm(make=_read_date)] | None = None
    timeout: float | None = None
    drain_seconds: Annotated[float, Within(0)] = 30.0
    idle_seconds: Seconds = 60.0
    ping_seconds: float = 15.0
    max_waiting: Count = MAX_WAITING
    max_body: Count = 4 * MIB
    max_values: Count = 200_000
    max_tools: Count = 1000
    max_choices: Count = 16
    max_repetition: UnlessMinusOne = MAX_REPEATED
    max_repetition_limit: UnlessMinusOne = None
    max_schema: Count = MIB
    max_template_kwargs: Count = MIB // 4
    max_echoed: Count = MIB // 16
    max_stored: int = 1000
    max_stored_bytes: int = 256 * MIB
    show_grammar: bool = False
    log_prompts: bool = False
    otel: bool = False

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


show_plain_types(Settings)
