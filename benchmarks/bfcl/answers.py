"""What is asked of each way of calling tools in `benchmarks.real`, and what it answered."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.bfcl.rows import Call, Question, fits, is_exact, read_calls
from benchmarks.peer_processes.lines import Ask
from benchmarks.peers import Peer
from constrained import Model
from constrained.format_selection.generic import write_example
from constrained.job import Job
from grammars.turn import Think

PATIENCE = 600  # seconds for one answer


@dataclass(frozen=True)
class Limits:
    """What holds for every answer.

    Attributes:
        parallel: a server may make several calls in one turn.
        max_repetition: tokens of a value that may repeat themselves in this server; -1: any number,
            None: as it does by default.
        template_kwargs: variables for the chat templates of the servers.
    """

    max_tokens: int
    temperature: float
    parallel: bool
    max_repetition: int | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """What came of a question.

    Attributes:
        calls: None where they cannot be read.
        cut: the tokens ran out.
        tokens: that the model wrote.
        text: the content of a server's answer; of a grammar, all of it.
        error: why there is no answer; "" if there is one.
        measures: what else a benchmark has measured, by name.
    """

    calls: Sequence[Call] | None
    cut: bool
    seconds: float
    tokens: int
    text: str = ""
    error: str = ""
    measures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Way:
    """A row of the table for each kind.

    Attributes:
        declines: the model may answer without a call.
    """

    name: str
    ask: Callable[[Question], Outcome]
    declines: bool


@dataclass(frozen=True)
class Figures:
    """A row of the table: shares of all questions, the median of seconds, the mean of tokens.

    Attributes:
        right_name: None for questions that no tool answers, as is `exact`.
    """

    way: str
    kind: str
    count: int
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
        "parallel_tool_calls": limits.parallel,
        "max_tokens": limits.max_tokens,
        "temperature": limits.temperature,
        "seed": 0,
        "chat_template_kwargs": limits.template_kwargs,
    }
    if limits.max_repetition is not None:
        body["max_repetition"] = None if limits.max_repetition == -1 else limits.max_repetition
    started = time.perf_counter()
    response = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE)
    seconds = time.perf_counter() - started
    if response.status_code != httpx.codes.OK:
        error = f"status {response.status_code}: {response.text}"
        return Outcome(None, cut=False, seconds=seconds, tokens=0, error=error)
    reply = response.json()
    message = reply["choices"][0]["message"]
    tokens = reply["usage"]["completion_tokens"]
    return Outcome(
        calls=read_calls(message.get("tool_calls") or ()),
        cut=tokens >= limits.max_tokens,
        seconds=seconds,
        tokens=tokens,
        text=message["content"] or "",
    )


def ask_peer(peer: Peer, question: Question, *, way: str, model: Model, limits: Limits) -> Outcome:
    """Requests one completion that a grammar holds to a call.

    Args:
        way: the name of a row of the table.
        model: renders the prompt, with the generic format explained in it. What stands in front of
            the call's JSON there is written for the peer.
    """
    has_reasoning = model.compiler.format.reasoning is not None
    think = Think.FORBIDDEN if has_reasoning else Think.OPTIONAL
    job = Job(question.messages, question.tools, parallel=False, think=think)
    opening, _, _ = write_example(model.compiler.format).partition("{")
    ask = Ask(
        way=way,
        messages=[],
        prompt=model.compile(job).prompt.text + opening,
        schema=write_schema(question.tools),
        text=None,
        stream=False,
        max_tokens=limits.max_tokens,
        temperature=limits.temperature,
    )
    answer = peer.ask(ask)
    return Outcome(
        calls=_read_call(answer.text),
        cut=answer.tokens >= limits.max_tokens,
        seconds=answer.seconds,
        tokens=answer.tokens,
        text=answer.text,
        error=answer.error,
    )


def write_schema(tools: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns the schema of one call: a tool's name, and its arguments."""
    calls: list[dict[str, Any]] = []
    for tool in tools:
        function = tool["function"]
        properties = {"name": {"const": function["name"]}, "arguments": function["parameters"]}
        call = {"type": "object", "properties": properties, "required": list(properties)}
        calls.append(call | {"additionalProperties": False})
    return {"anyOf": calls}


def _read_call(text: str) -> list[Call] | None:
    try:
        call = json.loads(text)
        return [Call(call["name"], call["arguments"])]
    except (ValueError, KeyError, TypeError):
        return None


def summarise(way: str, kind: str, pairs: Sequence[tuple[Question, Outcome]]) -> Figures:
    """Returns the row of the table for a way and its questions of one kind."""
    right_name = exact = None
    if any(question.right_name for question, _ in pairs):
        right_name = _mean(_names_right(question, outcome) for question, outcome in pairs)
        exact = _mean(is_exact(outcome.calls or (), question) for question, outcome in pairs)
    return Figures(
        way=way,
        kind=kind,
        count=len(pairs),
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
