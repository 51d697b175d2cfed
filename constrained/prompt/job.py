"""The job: one turn that a caller wants, with its messages, tools and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, TypeAlias

from constrained.errors import RequestError
from constrained.prompt.cache_scope import CacheScope, name_scope
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
    """The limits of one turn.

    Args:
        calls: the maximum number of calls; None: any number.
        identical: how often the turn may have the same call (same tool, same arguments, keys in any
            order); None: any number of times.
        repeatable: the tools whose calls the turn may repeat any number of times.
        excluded: calls that the turn should not have; see `Job`.
    """

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
    """One turn that a caller wants from a model.

    Args:
        messages: the conversation, in OpenAI form.
        tools: in any shape that `read_tools` reads.
        tool_choice: in any form that `read_policy` reads.
        parallel: whether the turn may have several calls.
        max_calls: the maximum number of calls; None: any number.
        max_identical_calls: how often the turn may have the same call (same tool, same arguments,
            keys in any order). The turn ends before one more. A number is for all tools. "auto":
            once, but any number of times if the tool is marked as repeatable. None: any number of
            times.
        excluded_calls: calls that the turn should not have, because earlier turns had them often
            enough. The turn ends before such a call. If it is the first call, the turn goes back
            to where the call began, and continues in another way, with an answer if possible. If
            there is no other way, the turn keeps the call.
        max_repetition: how many tokens of a call or an answer may repeat themselves, if as many are
            left. The value is then ended, and the turn continues. Other content may do so for a
            quarter of that, and then ends the turn. None: any number.
        think: whether the turn reasons first.
        template_kwargs: variables for the chat template.
        answer: the form of the content. With tools, the turn is either calls or such an answer.
        reasoning_budget: the maximum number of reasoning tokens; None: no limit, but half of the
            turn's tokens if a call or an answer is required.
        reasoning_close: the text that ends a reasoning block whose budget is spent.
        thinking_tags: text in `<thinking>` at the start of a turn is reasoning, even if the
            template knows no reasoning; has no effect with `answer`.
        require_nonempty: a required string argument has at least one character.
        drop_tools: a tool whose schema cannot be enforced is left out, and `refused` names it;
            False: it is an error.
        key_order: the order in which objects have their declared keys.
        recall: whether the prompt keeps the reasoning of earlier turns.
        date: the date that the chat template sees as today; None: the real one.
        envelopes: what becomes of a call in another envelope than the model's own format. It has an
            effect only where calls are optional, and without `answer`.
        prefill: the turn continues the last message, one of the assistant: its content, or its
            reasoning if it has no content. The reply has only the new text.
        prefill_name: the caller's name for `prefill`, for errors; "": the caller did not name it,
            since a last message of the assistant is always continued.
        breakpoints: each is a number of messages at the start of the conversation that other
            conversations are likely to share. Their KV cache is kept longest. Only the last four
            count. Tools and system messages need no breakpoint.
        cache_salt: cached results are shared only by turns with the same salt; None: by all turns
            without a salt.
        cache_prompt: use what earlier turns have computed of the prompt, and keep it for later
            ones; False: neither.
        hidden_tools: tools that may be called but are not in the prompt, because the conversation
            itself describes them. They do not change the prompt.
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

    @property
    def prompt_scope(self) -> CacheScope:
        """The cache scope of its prompt; raises RequestError for a wrong salt."""
        return self.grammar_scope if self.cache_prompt else None


_SWITCHES = (
    "parallel",
    "thinking_tags",
    "require_nonempty",
    "drop_tools",
    "prefill",
    "cache_prompt",
)


def check_job(job: Job) -> None:
    """Refuses values of a wrong type. Without this check, many would act like the default.

    Raises:
        RequestError: names the field.
    """
    if job.think not in list(Think):
        hint = f"Use {', '.join(Think)}"
        raise RequestError(f"think is {job.think!r}", where="/think", hint=hint)
    if job.key_order not in list(KeyOrder):
        hint = f"Use {' or '.join(KeyOrder)}"
        raise RequestError(f"key_order is {job.key_order!r}", where="/key_order", hint=hint)
    if job.recall not in list(Recall):
        hint = f"Use {', '.join(Recall)}"
        raise RequestError(f"recall is {job.recall!r}", where="/recall", hint=hint)
    if job.envelopes not in list(Envelopes):
        hint = f"Use {', '.join(Envelopes)}"
        raise RequestError(f"envelopes is {job.envelopes!r}", where="/envelopes", hint=hint)
    for name in _SWITCHES:
        if not isinstance(value := getattr(job, name), bool):
            raise RequestError(f"{name} is {value!r}, not a boolean", where=f"/{name}")
    if job.date is not None and not isinstance(job.date, datetime):
        hint = "Give a datetime"
        raise RequestError(f"date is {job.date!r}", where="/date", hint=hint)
    if not isinstance(job.reasoning_close, str):
        message = f"reasoning_close is {job.reasoning_close!r}, not text"
        raise RequestError(message, where="/reasoning_close")
    if not isinstance(job.template_kwargs, Mapping):
        raise RequestError("template_kwargs are not an object", where="/chat_template_kwargs")
    counts = {"max_calls": job.max_calls, "max_repetition": job.max_repetition}
    if job.max_identical_calls != "auto":
        counts["max_identical_calls"] = job.max_identical_calls
    for name, count in counts.items():
        if count is not None and (type(count) is not int or count < 1):
            message = f"{name} is {count!r}, must be 1 or more"
            raise RequestError(message, where=f"/{name}")
    if not all(isinstance(call, ToolCall) for call in job.excluded_calls):
        hint = "Give `ToolCall`s"
        raise RequestError(
            "excluded_calls has an item that is not a call", where="/excluded_calls", hint=hint
        )
    budget = job.reasoning_budget
    if budget is not None and (type(budget) is not int or budget < 0):
        message = f"reasoning_budget is {budget!r}, must be 0 or more, or absent"
        raise RequestError(message, where="/reasoning_budget")
    name_scope(job.cache_salt)
    _check_breakpoints(job)


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
