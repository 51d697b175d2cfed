"""What is asked of a model, and what it is compiled to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import ceil
from typing import Any

from constrained.decode.assistant_prefix import Prefix
from constrained.decode.checked_values import Watch
from constrained.decode.completion_reserve import Reserve
from constrained.decode.reasoning_budget import Budget
from constrained.errors import RequestError
from constrained.mask import Matcher
from constrained.prompt.prompt_reuse import Missed, Recall
from constrained.prompt.turn_cache import Decoded
from constrained.template.special_tokens import Prompt
from constrained.tools.offer import Refusal
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.build.turn import build_turn
from grammars.ir.completion import Completer
from grammars.lowering.checked import find_held
from grammars.parse.parser import Parser
from grammars.schema.extent import bound_length
from grammars.turn import (
    THINKING_TAGS,
    Answer,
    Choice,
    ChoiceAnswer,
    JsonAnswer,
    KeyOrder,
    Policy,
    RegexAnswer,
    State,
    Think,
    Tool,
)
from grammars.wire.format import Format

MARGIN = 1.5  # tokens of arguments may be shorter than those of schemas
UNBOUNDED = 10**9  # tokens
SAMPLE = 4_000  # characters of the schemas, enough to tell how long tokens are


@dataclass(frozen=True)
class Job:
    """What is asked of a model.

    Args:
        messages: the conversation, in OpenAI form.
        tools: whatever `read_tools` reads.
        tool_choice: a form that `read_policy` reads.
        parallel: whether one turn may hold several calls.
        think: whether the turn reasons first.
        template_kwargs: handed to the chat template as they are.
        answer: what content has to be; beside tools, the turn is calls or such an answer.
        reasoning_budget: at most so many tokens of reasoning; None: as many as the model likes.
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
            most as many as there are; what is computed of them is kept longest. The last four of
            them count. Tools and system messages are so treated without it.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] = ()
    tool_choice: Any = None
    parallel: bool = True
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


@dataclass(frozen=True)
class Composed:
    """A prompt as text and as tokens.

    Args:
        prompt: what the template writes.
        tokens: what the model reads: of turns that it has generated those tokens. Those of a
            text that the turn goes on with are the last of them.
        state: where the prompt ends.
        key: names the conversation, for whoever keeps what comes of it.
        thoughts: places of the messages whose reasoning is in the prompt.
        before: the last of the turns that are taken over as the model wrote them.
        rest: how many tokens there are behind it; None where there is no such turn.
        missed: why there is none.
        head: how many tokens any conversation with these tools and system messages begins with.
        boundaries: numbers of first tokens that other prompts are likely to share, `head` among
            them if it is not 0; in order.
        closed: how many tokens it has in front of what invites the model to speak; the next prompt
            of the conversation may have others from there on. 0: that is not known.
    """

    prompt: Prompt
    tokens: tuple[int, ...]
    state: State
    key: bytes = b""
    thoughts: frozenset[int] = frozenset()
    before: Decoded | None = None
    rest: int | None = None
    missed: Missed | None = None
    head: int = 0
    boundaries: tuple[int, ...] = ()
    closed: int = 0


@dataclass(frozen=True, kw_only=True)
class CompiledTurn(Composed):
    """All that generation needs to know of a job.

    Args:
        markers: token ids of the format's markers that are one token.
        thinking_tags: as in the job.
        call_ids: those of the conversation so far.
        refused: the tools that were left out.
        prefix: what the turn goes on with; the matcher is behind its tokens.
    """

    format: Format
    tools: tuple[Tool, ...]
    policy: Policy
    grammar: str | None
    matcher: Matcher | None
    budget: Budget | None
    vocabulary: Vocabulary
    markers: Mapping[str, int]
    thinking_tags: bool = True
    call_ids: frozenset[str] = frozenset()
    refused: tuple[Refusal, ...] = ()
    prefix: Prefix = field(default_factory=Prefix)

    def parser(self) -> Parser:
        """A new parser for the text of this turn."""
        calls = bool(self.policy.select(self.tools))
        answer = self.policy.answer is not None and self.policy.choice is not Choice.REQUIRED
        return Parser(
            self.format,
            self.tools,
            self.state,
            calls=calls,
            answer=answer,
            stream=self.matcher is not None,
            thoughts=THINKING_TAGS if self.thinking_tags and not self.policy.answer else None,
        )

    @cached_property
    def watch(self) -> Watch:
        """What of this turn is held back until it is checked. Calls of a tool that is not strict
        are delivered either way, so nothing of them is."""
        offered = {t.name: (t.schema, find_held(t.schema)) for t in self.tools if t.strict}
        match self.policy.answer:
            case JsonAnswer(schema) as answer if schema.report.checked:
                return Watch(offered, answer)
            case _:
                return Watch(offered)

    @cached_property
    def _completer(self) -> Completer:
        return Completer(build_turn(self.format, self.tools, self.policy, self.state, self.markers))

    @cached_property
    def _stride(self) -> int:
        """By how many tokens one token can make the shortest ending longer: the longest call or
        answer, in tokens of the size that the vocabulary has for the schemas themselves."""
        answer = self.policy.answer
        schemas = [t.schema for t in self.tools]
        schemas += [answer.schema] if isinstance(answer, JsonAnswer) else []
        sources = json.dumps([s.source for s in schemas], ensure_ascii=False)[:SAMPLE]
        size = len(sources.encode()) / len(self.vocabulary.encode(sources))
        names = max((len(t.name.encode()) for t in self.tools), default=0)
        longest = max(map(bound_length, schemas), default=0) + names
        match answer:
            case ChoiceAnswer(options):
                longest = max(longest, *(len(option.encode()) for option in options))
            case RegexAnswer():  # one character can make any number of others necessary
                return UNBOUNDED
            case _:
                pass
        return ceil(MARGIN * longest / max(1, size))

    def reserve(self, limit: int) -> Reserve:
        """A new reserve for a turn of at most so many tokens."""
        complete = self._completer.complete
        return Reserve(complete, self.vocabulary, self.markers, self._stride, limit)


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
    for name in ("parallel", "thinking_tags", "require_nonempty", "drop_tools", "prefill"):
        if not isinstance(value := getattr(job, name), bool):
            raise RequestError(f"{name} is {value!r}, not a boolean", where=f"/{name}")
    if not isinstance(job.template_kwargs, Mapping):
        raise RequestError("template_kwargs are not an object", where="/chat_template_kwargs")
    budget = job.reasoning_budget
    if budget is not None and (type(budget) is not int or budget < 0):
        hint = "Use a number of tokens, 0 or more, or nothing"
        raise RequestError(f"it is {budget!r}", where="/reasoning_budget", hint=hint)
    _check_breakpoints(job)


def _check_breakpoints(job: Job) -> None:
    if not isinstance(job.breakpoints, (tuple, list)):
        raise RequestError("it is no list", where="/breakpoints", hint="Give numbers of messages")
    most = len(job.messages) if isinstance(job.messages, Sequence) else 0
    for place, count in enumerate(job.breakpoints):
        if type(count) is not int or not 0 <= count <= most:
            hint = "Use numbers of messages from the first one on, at most all of them"
            raise RequestError(f"it is {count!r}", where=f"/breakpoints/{place}", hint=hint)
