"""Calls of a model as users make them: messages, tools and options by name."""

import json
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from constrained.decode.filters.stop_texts import read_stops
from constrained.decode.request import DecodeOptions
from constrained.engine.sampling import Sampling, SamplingOptions, read_sampling
from constrained.errors import ReplyError, RequestError, describe_unknown
from constrained.limits.deadline import check_timeout
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.confidence_policy import check_confidence
from constrained.model.cut_values import advise_limit
from constrained.model.reply import Reply
from constrained.prompt.answers import Target, read_response_format
from constrained.prompt.assistant_prefill import read_message
from constrained.prompt.job import Envelopes, Job, Recall
from constrained.prompt.messages import copy_json, normalise
from constrained.prompt.tools.shapes import read_choice
from grammars.turn import KeyOrder, Think, ToolCall

MAX_LOGPROBS = 20
TRACED = 5  # likely tokens of each position in a trace
Messages = Sequence[Mapping[str, Any]] | str
ThinkName = Literal["optional", "required", "forbidden"]
KeyOrderName = Literal["any", "schema"]
RecallName = Literal["auto", "keep", "drop"]
EnvelopesName = Literal["kept", "native", "off"]
"""What users may write in place of the enumerations."""


class TurnOptions(SamplingOptions, total=False):
    max_tokens: int
    sampling: Sampling | None
    timeout: float | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    progress: bool
    ignore_eos: bool
    trace: bool
    owner: Hashable | None


class CompiledTurnOptions(TurnOptions, total=False):
    """Options of a turn that is compiled.

    Attributes:
        min_confidence: from 0 to 1: measure how sure the model is of its calls, and find those
            whose `confidence.lowest` is below. Default: None, nothing is measured.
        instead: the turn that is generated in place of one with such a call, made with
            `ConfidencePolicy.change_job`. The events of the first turn are then never sent.
            Default: None, the calls are delivered.
    """

    min_confidence: float | None
    instead: CompiledTurn | None


class Options(TurnOptions, total=False):
    """Options of `Model.call`, `stream`, `generate` and `run`, besides messages and tools.

    Attributes:
        hidden_tools: tools that may be called beside `tools`, but are not in the prompt: the
            model knows them from messages. The prompt stays the same, and cached, whatever they
            are. Default: none.
        tool_choice: "auto" (the default), "none", "required", or the name of a tool, or the form of
            OpenAI or Anthropic. The mask enforces it; the prompt stays the same.
        parallel: allow several calls in one turn. Default: True.
        max_calls: maximum number of calls in one turn. Default: None, no limit.
        max_identical_calls: how often one turn may hold the same call with the same arguments;
            before one more, the turn ends. A number is for all tools. Default: 1, and no limit for
            tools that are marked as `repeatable`. None: no limit.
        excluded_calls: calls (`ToolCall`) that the turn must not repeat, because earlier turns had
            them often enough: it ends before one, or answers instead; `reply.barred_calls` lists
            them.
        max_repetition: how many tokens of a call or an answer may repeat themselves, such as a list
            of equal items. The value is then ended, and the turn continues. Other content that
            repeats itself for a quarter of that ends the turn. `reply.ended_values` lists both.
            Default: 1,024. None: no limit.
        response_format: what the answer must be: OpenAI's `response_format`, or a pydantic model.
            With tools, the reply is calls or such an answer. Default: any text.
        max_tokens: maximum number of generated tokens. Default: 1,024.
        sampling: how tokens are sampled. Default: what the model file recommends, else
            `Sampling()`. Its fields, such as `temperature`, are also options themselves: they
            replace single values of that default.
        think: whether the model reasons first: "optional" (the default), "required" or "forbidden".
        reasoning_budget: maximum number of reasoning tokens. Default: None: no limit, but half of
            `max_tokens` where a call or an answer is required.
        reasoning_close: a sentence that is written before the reasoning ends because its budget is
            spent. Default: "".
        template_kwargs: variables for the chat template, such as `{"enable_thinking": False}`.
        thinking_tags: treat `<thinking>` at the start of a turn as reasoning, even if the chat
            template has no such block. Default: True.
        require_nonempty: do not allow empty strings for required properties. Default: False.
        drop_tools: drop tools whose schemas cannot be enforced, and list them in `reply.refused`.
            False: raise an error instead. Default: True.
        key_order: order of the declared keys in objects: "any" (the default) or "schema".
        recall: whether reasoning of earlier turns stays in the prompt: "keep", "drop" (as the chat
            template does), or "auto" (the default): keep it until the next user message.
        date: the date for chat templates that write one into the prompt. Default: None, now. With a
            fixed date, the prompt stays the same from day to day, and cached.
        envelopes: what happens if the model begins a call of an offered tool in another form than
            its own, such as JSON in a fence, where calls are optional: "kept" (the default): the
            form stays; "native": it writes the call again in its own form; "off": it is text. With
            the first two, the arguments are enforced; `reply.envelopes` names the forms.
        prefill: continue the last message, which must be the assistant's: its content or, if that
            is empty, its reasoning. The reply has only the new text; `generate` returns the whole
            value. In `run`, this applies to the first turn. Default: False.
        breakpoints: numbers of messages: after the first 2 and the first 5 messages, for example.
            Prompts that other conversations will share up to there stay in the cache longest.
        timeout: seconds until the request fails with a `DeadlineError`, the time in the queue
            included. In `run`, for each turn. Default: None, no limit.
        stop: a text, or up to 16 of them. The content ends before the first one that appears, and
            the turn ends with it. Reasoning and arguments may contain them.
        logprobs: return the probability of each token and of this many of the most likely tokens
            (0 to 20). Slower: the model is then evaluated for each token. Default: None.
        progress: send `ProgressMade` events in streams: while the prompt is processed, and before
            the events of each token. Default: False.
        ignore_eos: do not let the model end the turn. It ends where the grammar allows nothing
            else, at a stop text, or after `max_tokens`. Not with tools. Default: False.
        trace: record what decided each token, in `reply.trace`. Tokens that the grammar
            forces or that are drafted have no probabilities, unless `logprobs` is given as well.
            Default: False.
        owner: identifies the client, such as an API key. Waiting clients take turns, however many
            requests each of them has. Default: None: each request counts as a separate client.
        cache_salt: share cached prompts, turns and grammars only with requests of the same salt, so
            that other clients cannot find out by timing what was asked. Default: None: share with
            all requests without a salt.
        cache_prompt: reuse the cached part of the prompt, and cache the prompt. Default: True.
    """

    hidden_tools: Sequence[Any]
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
    envelopes: Envelopes | EnvelopesName
    prefill: bool
    breakpoints: Sequence[int]
    cache_salt: str | None
    cache_prompt: bool


class GeneratedTextOptions(Options, total=False):
    """Options of a request for a text of a certain form; `Model.generate` explains them."""

    regex: str | None
    choice: Sequence[str] | None
    grammar: str | None


@dataclass(frozen=True)
class CallOptions:
    decode: DecodeOptions
    timeout: float | None = None
    owner: Hashable | None = None
    min_confidence: float | None = None
    instead: CompiledTurn | None = None


def read_call_options(
    options: Mapping[str, Any], defaults: DecodeOptions, *, force: bool = True
) -> CallOptions:
    """Reads `CompiledTurnOptions`; TypeError: one is not known, RequestError: it cannot be."""
    _check_names(options, CompiledTurnOptions.__annotations__)
    timeout = options.get("timeout")
    check_timeout(timeout)
    decode = replace(
        defaults,
        max_tokens=options.get("max_tokens", defaults.max_tokens),
        sampling=read_sampling(options, defaults.sampling),
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
        min_confidence=check_confidence(options.get("min_confidence")),
        instead=options.get("instead"),
    )


def _check_names(options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in options:
        if name not in known:
            raise TypeError(describe_unknown(name, known))


def _check_logprobs(count: Any) -> int | None:
    if count is not None and not (type(count) is int and 0 <= count <= MAX_LOGPROBS):
        message = f"logprobs is {count!r}, must be from 0 to {MAX_LOGPROBS}, or absent"
        raise RequestError(message, where="/logprobs")
    return count


@dataclass(frozen=True)
class ModelCall:
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
    """Reads messages, tools and `Options`; TypeError: an option is not known, RequestError: the
    form of the answer is given twice, or is invalid."""
    _check_names(options, Options.__annotations__)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    given = dict(options)
    if target and given.get("response_format") is not None:
        hint = "Leave response_format out"
        raise RequestError(
            "two formats of the answer are given", where="/response_format", hint=hint
        )
    turn_options: dict[str, Any] = {}
    for name in TurnOptions.__annotations__:
        if name in given:
            turn_options[name] = given.pop(name)
    answer = read_response_format(given.pop("response_format", None))
    if target:
        answer = target.answer
    # Copies: the caller may change them while the request waits in the queue.
    for name in ("breakpoints", "hidden_tools"):
        if name in given:
            given[name] = copy_json(given[name])
    if "tool_choice" in given:
        given["tool_choice"] = read_choice(given["tool_choice"])
    job = Job(copy_json(messages), copy_json(tools or ()), answer=answer, **given)
    return ModelCall(job, read_call_options(turn_options, defaults))


def read_value(target: Target, reply: Reply, job: Job) -> Any:
    """Reads the value of a reply and its assistant prefill. ReplyError: it is cut, or does not
    fit."""
    if reply.stop_sequence is not None:
        message = f"the stop text {reply.stop_sequence!r} cut off the value: {reply.content!r}"
        raise ReplyError(message, hint="Leave stop out")
    content = reply.content
    if job.prefill:
        last = normalise(job.messages)[-1]
        content = read_message(last, "/messages").content + content
    if reply.finish_reason != "stop":
        hint = "Raise max_tokens, or the context length (-c)"
        with suppress(ValueError):  # what is no JSON has no fields
            hint = advise_limit(json.loads(content)) or hint
        raise ReplyError(f"the tokens ran out: {reply.content!r}", hint=hint)
    return target.read(content)
