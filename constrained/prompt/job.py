"""The job: one turn that a caller wants, with its messages, tools and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, TypeAlias

from constrained.errors import RequestError
from constrained.prompt.cache_scope import name_scope
from grammars.limits.packed_json import hash_json
from grammars.turn import (
    Answer,
    ChoiceAnswer,
    GrammarAnswer,
    JsonAnswer,
    KeyOrder,
    RegexAnswer,
    Think,
    ToolCall,
)

MAX_IDENTICAL_CALLS = 1
"""Small models repeat calls by mistake far more often than on purpose."""
MAX_REPEATED = 1024
"""Tokens of a value that repeats itself. Small models do that until their tokens run out, and no
useful value has so many equal parts."""
MaxIdentical: TypeAlias = int | Literal["auto"] | None
"""How often a turn may have the same call. None: any number of times. "auto": once, and any number
of times if the tool is marked as repeatable."""


@dataclass(frozen=True)
class CallLimits:
    calls: int | None = None
    identical: int | None = None
    repeatable: frozenset[str] = frozenset()
    excluded: tuple[ToolCall, ...] = ()


NO_LIMITS = CallLimits()


class Recall(StrEnum):
    """Whether the prompt keeps the reasoning of earlier turns.

    KEEP keeps it as the model wrote it. DROP leaves that to the template. AUTO keeps it until the
    next message of the user, and leaves it to the template from then on.
    """

    AUTO = "auto"
    KEEP = "keep"
    DROP = "drop"


class Envelopes(StrEnum):
    """What becomes of a call that the model begins in another envelope than its own format.

    KEPT leaves the envelope as it is, and enforces the rest of the call in it; where that is not
    possible, it is as NATIVE. NATIVE leads the turn back to the opening of the model's own format;
    where that is not possible, it is as KEPT. OFF takes the envelope as text.
    """

    KEPT = "kept"
    NATIVE = "native"
    OFF = "off"


@dataclass(frozen=True)
class Job:
    """One turn that a caller wants from a model. `constrained.model.call_options.Options` explains
    the fields that are not listed here.

    Args:
        messages: the conversation, in OpenAI form.
        tools: in any shape that `read_tools` reads.
        tool_choice: in any form that `read_policy` reads.
        max_identical_calls: see `MaxIdentical`. The turn ends before one more.
        excluded_calls: calls that the turn should not have, because earlier turns had them often
            enough. The turn ends before such a call. If it is the first call, the turn goes back
            to where the call began, and continues in another way, with an answer if possible. If
            there is no other way, the turn keeps the call.
        answer: the form of the content. With tools, the turn is either calls or such an answer.
        thinking_tags: has no effect with `answer`.
        envelopes: has an effect only where calls are optional, and without `answer`.
        prefill_name: the caller's name for `prefill`, for errors; "": the caller did not name it,
            since a last message of the assistant is always continued.
        breakpoints: only the last four count. Tools and system messages need none.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] = ()
    tool_choice: Any = None
    parallel: bool = True
    max_calls: int | None = None
    max_identical_calls: MaxIdentical = "auto"
    excluded_calls: Sequence[ToolCall] = ()
    max_repetition: int | None = MAX_REPEATED
    think: Think = Think.OPTIONAL
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answer: Answer | None = None
    reasoning_budget: int | None = None
    reasoning_close: str = ""
    thinking_tags: bool = True
    require_nonempty: bool = False
    drop_tools: bool = True
    key_order: KeyOrder = KeyOrder.ANY
    recall: Recall = Recall.AUTO
    date: datetime | None = None
    envelopes: Envelopes = Envelopes.KEPT
    prefill: bool = False
    prefill_name: str = "prefill"
    breakpoints: tuple[int, ...] = ()
    cache_salt: str | None = None
    cache_prompt: bool = True
    hidden_tools: Sequence[Any] = ()

    @cached_property
    def grammar_name(self) -> bytes | None:
        """A hash of all that its grammar depends on, except for the end of the prompt, and of its
        cache scope; b"" if it needs no grammar; None: the tools or the answer are not JSON."""
        answer: Any = None
        match self.answer:
            case None:
                if not self.tools and not self.hidden_tools:
                    return b""
            case JsonAnswer(schema):
                answer = "json", schema.source
            case RegexAnswer(regex):
                answer = "regex", regex
            case ChoiceAnswer(options):
                answer = "choice", options
            case GrammarAnswer(lark):
                answer = "grammar", lark
        options = (str(self.think), str(self.key_order), self.parallel, self.require_nonempty)
        tools = (self.tools, self.hidden_tools)
        return hash_json([tools, self.tool_choice, answer, options, self.grammar_scope])

    @property
    def grammar_scope(self) -> str:
        """The cache scope of its schemas and grammars; raises RequestError for a wrong salt."""
        return name_scope(self.cache_salt)


def check_job(job: Job) -> None:
    """Refuses values of a wrong type, which would mostly act like the default (RequestError)."""
    for option in fields(job):
        kind, value = option.type, getattr(job, option.name)
        if kind is bool and not isinstance(value, bool):
            message = f"{option.name} is {value!r}, not a boolean"
            raise RequestError(message, where=f"/{option.name}")
        if isinstance(kind, type) and issubclass(kind, StrEnum) and value not in list(kind):
            hint = f"Use {', '.join(kind)}"
            message = f"{option.name} is {value!r}"
            raise RequestError(message, where=f"/{option.name}", hint=hint)
    if job.date is not None and not isinstance(job.date, datetime):
        hint = "Give a datetime"
        raise RequestError(f"date is {job.date!r}", where="/date", hint=hint)
    if not isinstance(job.reasoning_close, str):
        message = f"reasoning_close is {job.reasoning_close!r}, not text"
        raise RequestError(message, where="/reasoning_close")
    if not isinstance(job.template_kwargs, Mapping):
        raise RequestError("template_kwargs are not an object", where="/chat_template_kwargs")
    _check_count("max_calls", job.max_calls, 1)
    _check_count("max_repetition", job.max_repetition, 1)
    _check_count("reasoning_budget", job.reasoning_budget, 0)
    if job.max_identical_calls != "auto":
        _check_count("max_identical_calls", job.max_identical_calls, 1)
    if not all(isinstance(call, ToolCall) for call in job.excluded_calls):
        hint = "Give `ToolCall`s"
        raise RequestError(
            "excluded_calls has an item that is not a call", where="/excluded_calls", hint=hint
        )
    name_scope(job.cache_salt)
    _check_breakpoints(job)


def _check_count(name: str, count: object, least: int) -> None:
    if count is not None and (type(count) is not int or count < least):
        message = f"{name} is {count!r}, must be {least} or more, or absent"
        raise RequestError(message, where=f"/{name}")


def _check_breakpoints(job: Job) -> None:
    if not isinstance(job.breakpoints, (tuple, list)):
        hint = "Give numbers of messages"
        raise RequestError("it is not a list", where="/breakpoints", hint=hint)
    message_count = len(job.messages) if isinstance(job.messages, Sequence) else 0
    for index, count in enumerate(job.breakpoints):
        if type(count) is not int or not 0 <= count <= message_count:
            message = (
                f"a breakpoint is {count!r}, must be from 0 to {message_count}, "
                "the number of messages"
            )
            raise RequestError(message, where=f"/breakpoints/{index}")
