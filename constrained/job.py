"""The job: what one turn is to be, as the caller asks it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from constrained.cache_scope import CacheScope, name_scope
from constrained.errors import RequestError
from grammars.turn import Answer, KeyOrder, Think, ToolCall

MOST_IDENTICAL = 1
"""Small models repeat themselves far more often than anybody wants the same call twice."""
MOST_REPEATED = 1024
"""Tokens of a value that repeats itself: small models do that until their tokens run out, and
nobody wants a matrix of that many equal numbers."""
MOST_IDENTICAL_PARALLEL = 2
"""Where a client asks for parallel calls by name: two dice are rolled by two identical calls."""


@dataclass(frozen=True)
class CallLimits:
    """The limits of one turn.

    Args:
        calls: at most so many calls; None: any number.
        identical: the same call (same tool, same arguments, in any order of keys) at most so many
            times; None: any number.
        excluded: calls that the turn must not have; see `Job`.
    """

    calls: int | None = None
    identical: int | None = None
    excluded: tuple[ToolCall, ...] = ()


NO_LIMITS = CallLimits()


def limit_identical(parallel: bool | None) -> int:
    """How often a turn may hold the same call, where a client has said so much of parallel calls
    (None: nothing), and no more."""
    return MOST_IDENTICAL_PARALLEL if parallel else MOST_IDENTICAL


class Recall(StrEnum):
    """The view of earlier reasoning that holds: that of the model (KEEP), of the template (DROP).

    AUTO keeps it until the next message of the user, and follows the template from then on.
    """

    AUTO = "auto"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True)
class Job:
    """A turn that a model is asked for.

    Args:
        messages: the conversation, in OpenAI form.
        tools: whatever `read_tools` reads.
        tool_choice: a form that `read_policy` reads.
        parallel: whether one turn may hold several calls.
        max_calls: how many calls one turn may hold; None: any number.
        max_identical_calls: how often one turn may hold the same call (same tool, same arguments,
            in any order of keys); it ends in front of one more. None: any number of times.
        excluded_calls: calls that the turn should not have, because earlier turns had them often
            enough. In front of one, the turn ends; if it is the first of the turn, the turn goes
            back to where the call began and goes on otherwise, with an answer if it can. It may
            have the call after all where there is no other way.
        max_repetition: how many tokens of a call or an answer may repeat themselves, if as many are
            left; the value is ended then, and the turn goes on. None: any number.
        think: whether the turn reasons first.
        template_kwargs: handed to the chat template as they are.
        answer: what content has to be; beside tools, the turn is calls or such an answer.
        reasoning_budget: at most so many tokens of reasoning; None: as many as the model likes, but
            half of those of the turn where a call or an answer is required.
        reasoning_close: what is written before the end of a block whose budget is spent.
        thinking_tags: what stands in `<thinking>` at the head of a turn is reasoning, whatever
            the template knows; not where an answer is asked for.
        require_nonempty: a required string argument has at least one character.
        drop_tools: a tool whose schema cannot be enforced is left out, and `refused` names it;
            False: it is an error.
        key_order: in which order objects have their declared keys.
        recall: whose view of the reasoning of earlier turns holds.
        date: what the chat template takes for the present; None: the present.
        prefill: the turn goes on with the last message, which is of the assistant: with its
            content, or, where it has none, with its reasoning. Only what is new comes back.
        breakpoints: numbers of first messages that other conversations are likely to share, at
            most as many as there are; their KV cache is kept longest. The last four of them count.
            Tools and system messages are so treated without it.
        cache_salt: what was computed for one turn is found by turns of the same salt alone; None:
            by those that have none.
        cache_prompt: what was computed of the prompt is taken over from earlier turns, and kept
            for later ones; False: neither.
        hidden_tools: tools that may be called beside `tools` but are not in the prompt: the
            conversation has told of them. The prompt is the same with them as without.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] = ()
    tool_choice: Any = None
    parallel: bool = True
    max_calls: int | None = None
    max_identical_calls: int | None = MOST_IDENTICAL
    excluded_calls: Sequence[ToolCall] = ()
    max_repetition: int | None = MOST_REPEATED
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
    prefill: bool = False
    breakpoints: tuple[int, ...] = ()
    cache_salt: str | None = None
    cache_prompt: bool = True
    hidden_tools: Sequence[Any] = ()

    @property
    def grammar_scope(self) -> str:
        """The scope of its schemas and grammars; raises RequestError if the salt is none."""
        return name_scope(self.cache_salt)

    @property
    def prompt_scope(self) -> CacheScope:
        """The scope of its prompt; raises RequestError if the salt is none."""
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
    """Refuses values of the wrong type, which would otherwise count as the default.

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
    for name in _SWITCHES:
        if not isinstance(value := getattr(job, name), bool):
            raise RequestError(f"{name} is {value!r}, not a boolean", where=f"/{name}")
    if not isinstance(job.template_kwargs, Mapping):
        raise RequestError("template_kwargs are not an object", where="/chat_template_kwargs")
    for name in ("max_calls", "max_identical_calls", "max_repetition"):
        count = getattr(job, name)
        if count is not None and (type(count) is not int or count < 1):
            message = f"{name} is {count!r}, must be 1 or more"
            raise RequestError(message, where=f"/{name}")
    if not all(isinstance(call, ToolCall) for call in job.excluded_calls):
        hint = "Give `ToolCall`s"
        raise RequestError("excluded_calls has what is no call", where="/excluded_calls", hint=hint)
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
    most = len(job.messages) if isinstance(job.messages, Sequence) else 0
    for index, count in enumerate(job.breakpoints):
        if type(count) is not int or not 0 <= count <= most:
            message = f"a breakpoint is {count!r}, must be from 0 to {most}, the number of messages"
            raise RequestError(message, where=f"/breakpoints/{index}")
