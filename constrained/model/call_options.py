"""Calls of a model as users make them: messages, tools and options by name."""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar

from constrained.agent.actions import Approve
from constrained.agent.budget import Budget
from constrained.agent.run import OnInterrupted
from constrained.answers import Target, read_response_format
from constrained.assistant_prefill import read_message
from constrained.deadline import check_timeout
from constrained.decode.filters.stop_texts import read_stops
from constrained.decode.request import DecodeOptions
from constrained.engine.protocol import Sampling
from constrained.errors import ReplyError, RequestError
from constrained.isolation.isolated_call import Isolation
from constrained.job import Job, Recall
from constrained.messages import copy_json, normalise
from constrained.reply import Reply
from grammars.turn import KeyOrder, Think, ToolCall

MOST_LOGPROBS = 20
TRACED = 5  # likely tokens of each position in a trace
Method = TypeVar("Method", bound=Callable[..., Any])
Messages = Sequence[Mapping[str, Any]] | str
ThinkName = Literal["optional", "required", "forbidden"]
KeyOrderName = Literal["any", "schema"]
RecallName = Literal["auto", "keep", "drop"]
"""What users may write in place of the enumerations."""


class TurnOptions(TypedDict, total=False):
    """The options of generating a turn; see `Options`."""

    max_tokens: int
    sampling: Sampling | None
    timeout: float | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    progress: bool
    ignore_eos: bool
    trace: bool
    owner: Hashable | None
    background: bool


class Options(TurnOptions, total=False):
    """The options of a request, beside its messages and tools.

    tool_choice: "auto", "none", "required", or a tool, in the OpenAI or Anthropic form.
    parallel: whether one turn may hold several calls.
    max_calls: how many calls one turn may hold; any number if not given.
    max_identical_calls: how often one turn may hold the same call: in front of one more, it ends; 1
        if not given, None for any number of times.
    excluded_calls: calls (`ToolCall`) that the turn should not have, because earlier turns had them
        often enough: it ends in front of one, or answers in place of it; `barred_calls` of the
        reply has it then.
    max_repetition: how many tokens of a call or an answer may repeat themselves (a list of equal
        items, a string that says the same again), if as many are left; 1,024 if not given. The
        value is ended then, and the turn goes on; `ended_values` of the reply tells where. None for
        any number.
    response_format: what an answer has to be, in the OpenAI form, or a pydantic model.
    max_tokens: generate at most so many tokens; 1,024 if not given.
    sampling: how tokens are drawn; as the model's file recommends if not given.
    think: whether the turn reasons first: "optional" (if not given), "required" or "forbidden".
    reasoning_budget: at most so many tokens of reasoning; if not given, as many as the model likes,
        but half of `max_tokens` where a call or an answer is required.
    reasoning_close: a sentence that ends a reasoning whose budget is spent.
    template_kwargs: variables for the chat template (`enable_thinking`).
    thinking_tags: whether `<thinking>` at the head of a turn is reasoning; it is if not given.
    require_nonempty: a required string argument has at least one character.
    drop_tools: leave out tools whose schemas cannot be enforced, and name them in the reply, which
        is what happens if not given; False: they are an error.
    key_order: in which order objects have their declared keys; "any" if not given, or "schema".
    recall: whether the model sees the reasoning of its earlier turns: "keep", "drop" (as the chat
        template wants it), or, if not given, "auto": until the next message of the user.
    date: what the chat template takes for the present, where it writes the date; the present if not
        given. A prompt with a date that does not change stays known.
    prefill: the turn goes on with the last message, which is of the assistant: with its content, or
        where it has none, with its reasoning. Only what is new comes back. Of a `run`, its first
        turn does so; of `generate`, the value is the whole.
    breakpoints: numbers of first messages that other conversations are likely to share; what is
        computed of them is kept longest.
    timeout: seconds from when the request is made; if it is not done by then, it fails with a
        DeadlineError. Any time if not given. Of a `run`, for each turn.
    stop: a text, or up to 16: the content ends in front of the first of them, and the turn with it,
        whatever it might have called afterwards. Reasoning and arguments may have them.
    logprobs: tell how likely each token was, and so many of the most likely ones in its place (0 to
        20). The model is asked about each token then, which is slower.
    progress: streams have a `ProgressMade` while the prompt is read, and in front of the events of
        each token.
    ignore_eos: the model does not end the turn by itself: it ends where the grammar leaves nothing
        else, at a stop text, or with the tokens. Not beside tools.
    trace: note what decided about each token; the reply has it as `trace`. Forced and drafted
        tokens stay so; with `logprobs`, the model is asked about each token, and the trace has
        probabilities of all of them.
    owner: who asks, such as an API key: where several wait, they are admitted by turns, however
        many requests each has. If not given, the request is on its own.
    cache_salt: what was computed for a request (KV cache, snapshots, turns, grammars) is found by
        requests of the same salt alone. Nobody can then tell from times or counts what was asked
        under another one. If not given, by those that have none.
    cache_prompt: whether what was computed of the prompt is taken over from earlier requests and
        kept for later ones; it is if not given. False: neither.
    background: the request is in no hurry: others are admitted first, and while one of them is
        under way, its prompt is read in small pieces. Other requests may keep it waiting for good.
    """

    tool_choice: Any
    parallel: bool
    max_calls: int | None
    max_identical_calls: int | None
    excluded_calls: Sequence[ToolCall]
    max_repetition: int | None
    response_format: Any
    think: Think | ThinkName
    reasoning_budget: int | None
    reasoning_close: str
    template_kwargs: Mapping[str, Any]
    thinking_tags: bool
    require_nonempty: bool
    drop_tools: bool
    key_order: KeyOrder | KeyOrderName
    recall: Recall | RecallName
    date: datetime | None
    prefill: bool
    breakpoints: Sequence[int]
    cache_salt: str | None
    cache_prompt: bool


class RunOptions(Options, total=False):
    """The options of `run`, beside those of its turns.

    max_steps: generate at most so many turns; the calls of the last one are executed, too; 8 if not
        given.
    max_repeats: a call that would only repeat what was there so many times is not executed, but the
        model is told so: the same call with the same result, a cycle of calls, a call whose
        arguments only grow. If it goes on with that, its next turn is the last one and has no calls
        (`tool_choice` "none", held by the mask). 2 if not given.
    approve: is asked before a call is executed. Whatever it returns but True declines: the model is
        told, with the text if it is one. The same call again ends the run. With `LATER` the run
        ends, and goes on when the decision is there.
    min_confidence: `approve` is asked only about calls of which the model was less sure: whose
        `confidence.lowest` is below this, from 0 to 1. No call begins early then. Of all calls if
        not given.
    budget: tokens, seconds, calls and cost that may be spent; then the model has one last turn to
        answer, without calls.
    max_context: tokens of a prompt; beyond that, the oldest results of tools are replaced by a
        note. Any number if not given: a prompt that does not fit into the context is an error.
    isolate: functions run in processes of their own, within bounds on time and memory; True: those
        of `Isolation`. They have to be defined at the top of a module.
    record: a file (SQLite) where the run notes what happens, before it has an effect; `resume`
        goes on from there, also after a crash. If not given, nothing is noted.
    """

    max_steps: int
    max_repeats: int
    approve: Approve | None
    min_confidence: float | None
    budget: Budget
    max_context: int | None
    isolate: bool | Isolation
    record: str | PathLike[str] | None


class ResumeOptions(TypedDict, total=False):
    """What is given anew where a run is resumed; all else is in its record.

    approve: as of `run`. If not given where the run had it, calls that are not decided yet wait.
    on_interrupted: is asked about a call that was under way when the process ended, unless it is
        read-only. True: it is executed again. With anything else, or if not given, the model is
        told that the outcome is not known.
    max_steps, budget, max_context, timeout: in place of those of the record.
    """

    approve: Approve | None
    on_interrupted: OnInterrupted | None
    max_steps: int
    budget: Budget
    max_context: int | None
    timeout: float | None


def explain_options(method: Method) -> Method:
    """Puts the options of a request into the docstring of a method that takes them, so that `help`
    lists them."""
    options = inspect.getdoc(Options) or ""
    method.__doc__ = f"{inspect.getdoc(method)}\n\n{options}"
    return method


class GeneratedTextOptions(Options, total=False):
    """The options of a request for a text of a certain form; see `read_target`."""

    regex: str | None
    choice: Sequence[str] | None
    grammar: str | None


@dataclass(frozen=True)
class CallOptions:
    """The options of decoding a turn, its timeout in seconds from when the call is made, who asks,
    and whether they are in no hurry."""

    decode: DecodeOptions
    timeout: float | None = None
    owner: Hashable | None = None
    background: bool = False


def read_call_options(
    options: Mapping[str, Any], defaults: DecodeOptions, *, force: bool = True
) -> CallOptions:
    """Reads `TurnOptions`.

    Args:
        options: by name.
        defaults: what holds where they say nothing.
        force: see `DecodeOptions`.

    Raises:
        TypeError: an option is not known.
        RequestError: a value cannot be.
    """
    _check_names(options, TurnOptions.__annotations__)
    timeout = options.get("timeout")
    check_timeout(timeout)
    decode = replace(
        defaults,
        max_tokens=options.get("max_tokens", defaults.max_tokens),
        sampling=options.get("sampling") or defaults.sampling,
        stops=read_stops(options.get("stop")),
        logprobs=_check_logprobs(options.get("logprobs")),
        force=force,
        progress=options.get("progress", False),
        ignore_eos=options.get("ignore_eos", False),
        trace=TRACED if options.get("trace", False) else None,
    )
    return CallOptions(
        decode,
        timeout,
        owner=options.get("owner"),
        background=options.get("background", False),
    )


def _check_names(options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in options:
        if name not in known:
            raise TypeError(f"unknown option {name!r}; known: {', '.join(known)}")


def _check_logprobs(count: Any) -> int | None:
    if count is not None and not (type(count) is int and 0 <= count <= MOST_LOGPROBS):
        message = f"logprobs is {count!r}, must be from 0 to {MOST_LOGPROBS}, or absent"
        raise RequestError(message, where="/logprobs")
    return count


@dataclass(frozen=True)
class ModelCall:
    """A call of a model: what is asked, and how it is decoded."""

    job: Job
    options: CallOptions


def read_call(
    messages: Messages,
    tools: Sequence[Any] | None,
    options: Mapping[str, Any],
    *,
    defaults: DecodeOptions,
    target: Target | None = None,
) -> ModelCall:
    """Reads messages, tools and `Options`.

    Args:
        messages: the conversation, or the text of a user message.
        tools: what may be called.
        options: by name.
        defaults: how turns are decoded where the options say nothing.
        target: the value to generate; then the options may have no response_format.

    Raises:
        TypeError: an option is not known.
        RequestError: the answer is asked for twice, or cannot be.
    """
    _check_names(options, Options.__annotations__)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    given = dict(options)
    if target and given.get("response_format") is not None:
        hint = "Leave response_format out"
        raise RequestError("the answer is asked for twice", where="/response_format", hint=hint)
    turn_options: dict[str, Any] = {}
    for name in TurnOptions.__annotations__:
        if name in given:
            turn_options[name] = given.pop(name)
    answer = read_response_format(given.pop("response_format", None))
    if target:
        answer = target.answer
    # Copies: the request may wait in the queue while its owner goes on.
    if "breakpoints" in given:
        given["breakpoints"] = copy_json(given["breakpoints"])
    job = Job(copy_json(messages), copy_json(tools or ()), answer=answer, **given)
    return ModelCall(job, read_call_options(turn_options, defaults))


def read_value(target: Target, reply: Reply, job: Job) -> Any:
    """The value that was asked for: what was generated, behind the assistant prefill.

    Raises:
        ReplyError: the tokens ran out, a stop text has cut it, or it does not fit.
    """
    if reply.stop_sequence is not None:
        message = f"the stop text {reply.stop_sequence!r} cut off the value: {reply.content!r}"
        raise ReplyError(message, hint="Leave stop out")
    if reply.finish_reason != "stop":
        hint = "Raise max_tokens, or the context length (-c)"
        raise ReplyError(f"the tokens ran out: {reply.content!r}", hint=hint)
    content = reply.content
    if job.prefill:
        last = normalise(job.messages)[-1]
        content = read_message(last, "/messages").content + content
    return target.read(content)
