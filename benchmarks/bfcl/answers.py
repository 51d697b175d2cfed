"""What is asked of each way of calling tools in `benchmarks.real`, and what it answered."""

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from benchmarks.bfcl.rows import Call, Question, fits, is_exact, read_calls
from benchmarks.peer_processes.lines import Ask
from benchmarks.peers import Peer
from constrained.compile.compiler import Compiler
from constrained.format_selection.generic import write_example
from constrained.job import Job
from grammars.parse import parse
from grammars.turn import Think

PATIENCE = 600  # seconds for one answer
RESULT = '{"status": "ok"}'
AFTER_RESULT = {"role": "assistant", "content": "That is done."}


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
        envelopes: in which the model wrote the calls, where the answer says so.
        measures: what else a benchmark has measured, by name.
    """

    calls: Sequence[Call] | None
    cut: bool
    seconds: float
    tokens: int
    text: str = ""
    error: str = ""
    envelopes: tuple[str, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict[str, float])


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
        envelopes: how many calls came in which envelope, where the answers say so.
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
    envelopes: Mapping[str, int] = field(default_factory=dict[str, int])


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
    calls = message.get("tool_calls") or ()
    return Outcome(
        calls=read_calls(calls),
        cut=tokens >= limits.max_tokens,
        seconds=seconds,
        tokens=tokens,
        text=message["content"] or "",
        envelopes=tuple(one["kind"] for one in reply.get("constrained", {}).get("envelopes", ())),
    )


def ask_freely(peer: Peer, question: Question, *, compiler: Compiler, limits: Limits) -> Outcome:
    """Requests what the model writes without a mask, after the prompt that the server would make.

    `read_freely` reads the calls in it: kept answers are read by the reader of today.
    """
    ask = Ask(
        way="free",
        messages=[],
        prompt=compiler.compile(_make_free_job(question, limits)).prompt.text,
        schema={},
        text=None,
        stream=False,
        max_tokens=limits.max_tokens,
        temperature=limits.temperature,
    )
    return _ask(peer, ask, limits)


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
    return Job(
        question.messages,
        question.tools,
        parallel=limits.parallel,
        template_kwargs=limits.template_kwargs,
    )


def ask_peer(
    peer: Peer, question: Question, *, way: str, compiler: Compiler, limits: Limits
) -> Outcome:
    """Requests one completion that a grammar holds to a call.

    Args:
        way: the name of a row of the table.
        compiler: renders the prompt, with the generic format explained in it. What stands in front
            of the call's JSON there is written for the peer.
    """
    has_reasoning = compiler.format.reasoning is not None
    think = Think.FORBIDDEN if has_reasoning else Think.OPTIONAL
    job = Job(question.messages, question.tools, parallel=False, think=think)
    opening, _, _ = write_example(compiler.format).partition("{")
    ask = Ask(
        way=way,
        messages=[],
        prompt=compiler.compile(job).prompt.text + opening,
        schema=write_schema(question.tools),
        text=None,
        stream=False,
        max_tokens=limits.max_tokens,
        temperature=limits.temperature,
    )
    outcome = _ask(peer, ask, limits)
    return replace(outcome, calls=_read_call(outcome.text))


def _ask(peer: Peer, ask: Ask, limits: Limits) -> Outcome:
    """Returns the answer of a peer, its calls not read yet."""
    answer = peer.ask(ask)
    return Outcome(
        calls=None,
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


def continue_conversation(
    messages: Sequence[dict[str, Any]], outcome: Outcome
) -> tuple[dict[str, Any], ...]:
    """Returns the messages after an answer, for the next question. After calls, they have made-up
    results, and what an assistant says of them."""
    answer: dict[str, Any] = {"role": "assistant", "content": outcome.text}
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, call in enumerate(outcome.calls or ()):
        id = f"call{100 * len(messages) + number:05}"
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        calls.append({"id": id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": id, "content": RESULT})
    if not calls:
        return (*messages, answer)
    return (*messages, answer | {"tool_calls": calls}, *results, AFTER_RESULT)


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
        envelopes=Counter(envelope for _, outcome in pairs for envelope in outcome.envelopes),
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
