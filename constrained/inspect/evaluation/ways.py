"""What is asked of each way of calling tools in `benchmarks.real`, and what it answered."""

import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from benchmarks.bfcl.rows import Call, Question, fits, is_exact, read_calls
from constrained.agent.model import Model
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job
from grammars.parse import parse

PATIENCE = 600  # seconds for one answer


@dataclass(frozen=True)
class Limits:
    """What holds for every answer.

    Attributes:
        template_kwargs: variables for the chat templates of the servers.
    """

    max_tokens: int
    temperature: float
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """What came of a question.

    Attributes:
        calls: None where they cannot be read.
        cut: the tokens ran out.
        tokens: that the model wrote.
        text: the content of a server's answer; of the free way, all of it.
        error: why there is no answer; "" if there is one.
    """

    calls: Sequence[Call] | None
    cut: bool
    seconds: float
    tokens: int
    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Way:
    """A row of the table for each kind.

    Attributes:
        declines: the model may answer without a call.
        read: reads the calls of an answer, which may be a kept one; None: they are read already.
    """

    name: str
    ask: Callable[[Question], Outcome]
    declines: bool
    read: Callable[[Question, Outcome], Outcome] | None = None


@dataclass(frozen=True)
class Figures:
    """A row of the table: shares of all questions, the median of seconds, the mean of tokens.

    Attributes:
        called: answers with a call.
        delivered: of the questions for which the model has written a call without a mask, those
            that are answered with a call; None if it is not known for any.
        right_name: None for questions that no tool answers, as is `exact`.
    """

    way: str
    kind: str
    count: int
    called: float
    delivered: float | None
    valid: float
    right_name: float | None
    exact: float | None
    cut: float
    seconds: float
    tokens: float
    errors: int


def ask_server(url: str, question: Question, *, choice: str, limits: Limits) -> Outcome:
    """Sends one request to /v1/chat/completions."""
    body = {
        "messages": question.messages,
        "tools": question.tools,
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "max_tokens": limits.max_tokens,
        "temperature": limits.temperature,
        "seed": 0,
        "chat_template_kwargs": limits.template_kwargs,
    }
    started = time.perf_counter()
    response = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE)
    seconds = time.perf_counter() - started
    if response.status_code != httpx.codes.OK:
        error = f"status {response.status_code}: {response.text}"
        return Outcome(None, cut=False, seconds=seconds, tokens=0, error=error)
    reply = response.json()
    message = reply["choices"][0]["message"]
    tokens = reply["usage"]["completion_tokens"]
    calls = message.get("tool_calls") or ()
    return Outcome(
        calls=read_calls(calls),
        cut=tokens >= limits.max_tokens,
        seconds=seconds,
        tokens=tokens,
        text=message["content"] or "",
    )


def ask_freely(model: Model, question: Question, *, limits: Limits) -> Outcome:
    """Requests what the model writes without a mask, after the prompt that the server would make.
    Sampled as for a request to the server with seed 0.

    `read_freely` reads the calls in it: kept answers are read by the reader of today.
    """
    prompt = model.compile(_make_free_job(question, limits)).prompt.text
    sampling = replace(model.sampling, temperature=limits.temperature, seed=0)
    started = time.perf_counter()
    turn = model.compile_text(prompt)
    [reply] = model.complete([turn], sampling=sampling, max_tokens=limits.max_tokens)
    seconds = time.perf_counter() - started
    tokens = reply.usage.completion_tokens
    is_cut = tokens >= limits.max_tokens
    return Outcome(None, cut=is_cut, seconds=seconds, tokens=tokens, text=reply.text)


def read_freely(
    question: Question, outcome: Outcome, *, compiler: Compiler, limits: Limits
) -> Outcome:
    """Reads the calls of tools on offer in a text that was written without a mask, also common
    deviations from the format."""
    turn = compiler.compile(_make_free_job(question, limits))
    read = parse(outcome.text, turn.format, turn.tools, turn.state, recover=True)
    names = {tool.name for tool in turn.tools}
    calls = [Call(call.name, call.arguments) for call in read.calls if call.name in names]
    return replace(outcome, calls=calls)


def _make_free_job(question: Question, limits: Limits) -> Job:
    kwargs = limits.template_kwargs
    return Job(question.messages, question.tools, parallel=False, template_kwargs=kwargs)


def summarise(
    way: str,
    kind: str,
    pairs: Sequence[tuple[Question, Outcome]],
    written: Collection[str] = (),
) -> Figures:
    """Returns the row of the table for a way and its questions of one kind.

    Args:
        written: the ids of the questions for which the model has written a call without a mask.
    """
    delivered = None
    if any(question.id in written for question, _ in pairs):
        delivered = _mean(bool(o.calls) for question, o in pairs if question.id in written)
    right_name = exact = None
    if any(question.right_name for question, _ in pairs):
        right_name = _mean(_names_right(question, outcome) for question, outcome in pairs)
        exact = _mean(is_exact(outcome.calls or (), question) for question, outcome in pairs)
    return Figures(
        way=way,
        kind=kind,
        count=len(pairs),
        called=_mean(bool(outcome.calls) for _, outcome in pairs),
        delivered=delivered,
        valid=_mean(is_valid(question, outcome) for question, outcome in pairs),
        right_name=right_name,
        exact=exact,
        cut=_mean(outcome.cut for _, outcome in pairs),
        seconds=statistics.median(outcome.seconds for _, outcome in pairs),
        tokens=_mean(outcome.tokens for _, outcome in pairs),
        errors=sum(bool(outcome.error) for _, outcome in pairs),
    )


def is_valid(question: Question, outcome: Outcome) -> bool:
    """Returns True for calls that fit the tools on offer; where none of them is of use, for no
    call."""
    if outcome.calls is None or outcome.error:
        return False
    if question.right_name is None:
        return not outcome.calls
    return bool(outcome.calls) and all(fits(call, question.tools) for call in outcome.calls)


def _names_right(question: Question, outcome: Outcome) -> bool:
    """Returns whether the right tool was called, and no other one."""
    return {call.name for call in outcome.calls or ()} == {question.right_name}


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)
