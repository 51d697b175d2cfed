"""The agent loop: the model calls functions and reads their results, until it answers."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from constrained.assistant_prefill import read_message
from constrained.errors import RequestError
from constrained.messages import normalise
from constrained.model.call_options import Options
from constrained.reply import Reply
from constrained.tools.execution import acall_function, call_function, format_result
from constrained.tools.functions import as_tool, find_tool
from constrained.tools.offer import read_offer
from constrained.tools.shapes import read_policy
from grammars.turn import Choice, ToolCall

LONGEST_ERROR = 1000  # characters of an error that the model is shown

Verdict: TypeAlias = bool | str
Approve: TypeAlias = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
"""Approves a call before it is executed, or declines it; async only in `arun`."""


class RunOptions(Options, total=False):
    """Options of `Model.run`: these, and those of a call (`Options`).

    Attributes:
        max_steps: maximum number of turns. The calls of the last one are still executed.
            Default: 8.
        max_repeats: after this many identical results of the same call in a row, the call is not
            executed again, and the model is told so. If it repeats the call once more, it has to
            answer without calls. Default: 2.
        approve: a function that is asked before each call is executed. True allows the call;
            anything else declines it, and the model is told so, with the text if it is one. If the
            model makes a declined call again, the run ends. May be async in `arun`.
    """

    max_steps: int
    max_repeats: int
    approve: Approve | None


class ChatModel(Protocol):
    """The part of `constrained.model.model.Model` that the loop uses."""

    def call(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], /, **options: Any
    ) -> Reply: ...

    async def acall(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], /, **options: Any
    ) -> Reply: ...


class Reason(StrEnum):
    """Why a run ended.

    Attributes:
        STOP: the model answered.
        LENGTH: the tokens ran out.
        MAX_STEPS: the limit `max_steps` was reached.
        REPEATED: the model kept repeating a call, and had to answer.
        DECLINED: the model repeated a call that was declined.
        TOOL_CALLS: the model called a tool that has no function; see `Run.pending`.
    """

    STOP = "stop"
    LENGTH = "length"
    MAX_STEPS = "max_steps"
    REPEATED = "repeated"
    DECLINED = "declined"
    TOOL_CALLS = "tool_calls"


class Outcome(StrEnum):
    """What became of a call.

    Attributes:
        DONE: the function returned.
        FAILED: the function raised an exception, or the arguments do not fit.
        DECLINED: not executed, `approve` declined it.
        REPEATED: not executed, it had the same result `max_repeats` times in a row.
        CUT: not executed, the tokens ran out in this turn.
    """

    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    REPEATED = "repeated"
    CUT = "cut"


@dataclass(frozen=True)
class CallResult:
    """A call and its result.

    Args:
        call: the call.
        outcome: whether it was executed, and how that ended.
        content: the text that the model reads as the result.
        result: what the function returned; None if it was not executed or failed.
        error: the exception that the function raised, or why its arguments do not fit.
    """

    call: ToolCall
    outcome: Outcome
    content: str
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class Run:
    """A finished run of the agent loop.

    Args:
        messages: the whole conversation in OpenAI's form, to pass to the next `run` or `call`.
        reply: the last reply of the model.
        steps: number of turns that the model generated.
        reason: why the run ended.
        calls: all executed or declined calls with their results, in order.
    """

    messages: list[Mapping[str, Any]]
    reply: Reply
    steps: int
    reason: Reason
    calls: tuple[CallResult, ...]

    @property
    def content(self) -> str:
        """The content of the last reply."""
        return self.reply.content

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls of the last turn if you have to execute them yourself, because a tool has no
        function; otherwise empty."""
        if self.reason is not Reason.TOOL_CALLS:
            return ()
        return self.reply.calls


def run(
    model: ChatModel,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: Sequence[Any],
    *,
    max_steps: int = 8,
    max_repeats: int = 2,
    approve: Approve | None = None,
    **options: Any,
) -> Run:
    """Runs the agent loop; `Model.run` explains it.

    Args:
        model: the model, or anything with its `call`.
        messages: as for `Model.run`.
        tools: as for `Model.run`.
        max_steps: see `RunOptions`.
        max_repeats: see `RunOptions`.
        approve: see `RunOptions`.
        options: passed to `model.call`.

    Raises:
        Error: an error of the model; `RequestError` for limits below 1.
    """
    loop = _Loop(messages, tools, options, max_steps=max_steps, max_repeats=max_repeats)
    while loop.reason is None:
        loop.take(model.call(loop.messages, loop.tools, **loop.options))
        verdicts = [(call, _ask(approve, call)) for call in loop.open]
        loop.answer([_execute(call, verdict, loop.tools) for call, verdict in verdicts])
    return loop.finish()


async def arun(
    model: ChatModel,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: Sequence[Any],
    *,
    max_steps: int = 8,
    max_repeats: int = 2,
    approve: Approve | None = None,
    **options: Any,
) -> Run:
    """Like `run`, for asyncio; the calls of one turn run concurrently.

    `approve` may be async. It is asked about all calls of a turn, one after the other, before any
    of them is executed.
    """
    loop = _Loop(messages, tools, options, max_steps=max_steps, max_repeats=max_repeats)
    while loop.reason is None:
        loop.take(await model.acall(loop.messages, loop.tools, **loop.options))
        verdicts = [(call, await _aask(approve, call)) for call in loop.open]
        executions = (_aexecute(call, verdict, loop.tools) for call, verdict in verdicts)
        loop.answer(await asyncio.gather(*executions))
    return loop.finish()


def _ask(approve: Approve | None, call: ToolCall) -> Any:
    verdict = approve(call) if approve else True
    if inspect.iscoroutine(verdict):
        verdict.close()
        raise RequestError("approve is async", where="/approve", hint="Use arun")
    return verdict


async def _aask(approve: Approve | None, call: ToolCall) -> Any:
    verdict = approve(call) if approve else True
    if inspect.isawaitable(verdict):
        return await verdict
    return verdict


def _execute(call: ToolCall, verdict: Any, tools: Sequence[Any]) -> CallResult:
    if verdict is not True:
        return _decline(call, verdict)
    try:
        result = call_function(call, tools)
        return CallResult(call, Outcome.DONE, format_result(result), result=result)
    except Exception as e:  # the function is the user's, and may raise anything
        return _fail(call, e)


async def _aexecute(call: ToolCall, verdict: Any, tools: Sequence[Any]) -> CallResult:
    if verdict is not True:
        return _decline(call, verdict)
    try:
        result = await acall_function(call, tools)
        return CallResult(call, Outcome.DONE, format_result(result), result=result)
    except Exception as e:  # the function is the user's, and may raise anything
        return _fail(call, e)


@dataclass
class _Past:
    """The history of one call (name and arguments alike) in earlier turns."""

    content: str = ""
    count: int = 0  # executions in a row that had this content
    was_warned: bool = False  # the model has read that it repeats itself
    was_declined: bool = False


class _Loop:
    """The state of a run: `take` a reply, execute the calls that are `open`, `answer` them; until
    there is a `reason` to end.

    It executes nothing itself, so that it serves sync and async runs alike.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tools: Sequence[Any],
        options: Mapping[str, Any],
        *,
        max_steps: int,
        max_repeats: int,
    ):
        for name, limit in (("max_steps", max_steps), ("max_repeats", max_repeats)):
            if limit < 1:
                raise RequestError(f"{name} is {limit}, must be 1 or more", where=f"/{name}")
        # Refuses what cannot be offered, and says where.
        read_offer(tools, drop=options.get("drop_tools", True))
        self.tools = [as_tool(tool) for tool in tools]  # so that signatures are read once
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        self.messages: list[Mapping[str, Any]] = list(messages)
        self.options = dict(options)
        self.reason: Reason | None = None
        self._max_steps = max_steps
        self._max_repeats = max_repeats
        self._replies: list[Reply] = []
        self._results: list[CallResult] = []
        self._answers: list[CallResult | None] = []
        self._past: dict[str, _Past] = {}
        self._has_to_answer = False

    @property
    def open(self) -> list[ToolCall]:
        """The calls of this turn that are to be executed, in order."""
        found: list[ToolCall] = []
        # There are no answers at all where the calls are left to the caller.
        for call, answer in zip(self._replies[-1].calls, self._answers, strict=False):
            if answer is None:
                found.append(call)
        return found

    def take(self, reply: Reply) -> None:
        """Reads a turn of the model."""
        self._replies.append(reply)
        message = reply.message()
        if self.options.pop("prefill", False):  # the turn went on with the last message
            (last,) = normalise([self.messages.pop()])
            message = read_message(last, "/messages").join(message)
        self.messages.append(message)
        if (choice := self.options.get("tool_choice")) is not None:
            self.options["tool_choice"] = _relax(choice)
        self._answers = []
        if reply.finish_reason == "length" or any(call.truncated for call in reply.calls):
            self.reason = Reason.LENGTH
            text = _explain("not executed: the tokens ran out in this turn")
            self._answers = [CallResult(call, Outcome.CUT, text) for call in reply.calls]
        elif not reply.calls:
            self.reason = Reason.REPEATED if self._has_to_answer else Reason.STOP
        elif not all(map(self._has_function, reply.calls)):
            self.reason = Reason.TOOL_CALLS
        else:
            self._answers = [self._recall(call) for call in reply.calls]

    def answer(self, results: Sequence[CallResult]) -> None:
        """Takes the results of the open calls; the model reads those of all calls of the turn."""
        executed = iter(results)
        calls = self.messages[-1].get("tool_calls", ())
        for call, known in zip(calls, self._answers, strict=False):
            answer = known or next(executed)
            self._remember(answer)
            self._results.append(answer)
            self.messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "name": answer.call.name,
                    "content": answer.content,
                }
            )
        if self.reason is None and len(self._replies) == self._max_steps:
            self.reason = Reason.MAX_STEPS

    def finish(self) -> Run:
        """The run, once there is a reason."""
        assert self.reason is not None
        return Run(
            messages=self.messages,
            reply=self._replies[-1],
            steps=len(self._replies),
            reason=self.reason,
            calls=tuple(self._results),
        )

    def _has_function(self, call: ToolCall) -> bool:
        tool = find_tool(call.name, self.tools)
        return tool is not None and tool.function is not None

    def _recall(self, call: ToolCall) -> CallResult | None:
        """The answer to a call that is not executed because of what there was before."""
        past = self._past.get(_key(call), _Past())
        if past.was_declined:
            self.reason = Reason.DECLINED
            return CallResult(call, Outcome.DECLINED, _explain("not executed: declined before"))
        if past.count < self._max_repeats:
            return None
        if past.was_warned:
            self._has_to_answer = True
            self.options["tool_choice"] = "none"
        text = f"not executed: this call has had the same result {past.count} times in a row"
        return CallResult(call, Outcome.REPEATED, _explain(f"{text}; answer, or do something else"))

    def _remember(self, result: CallResult) -> None:
        past = self._past.setdefault(_key(result.call), _Past())
        match result.outcome:
            case Outcome.DECLINED:
                past.was_declined = True
            case Outcome.REPEATED:
                past.was_warned = True
            case Outcome.DONE | Outcome.FAILED:
                if past.content != result.content:
                    past.content, past.count = result.content, 0
                past.count += 1
            case Outcome.CUT:
                pass


def _key(call: ToolCall) -> str:
    return json.dumps([call.name, call.arguments], sort_keys=True)


def _explain(error: str) -> str:
    return format_result({"error": error})


def _relax(choice: Any) -> Any:
    """The same `tool_choice`, but that no call is required."""
    if read_policy(choice).choice is not Choice.REQUIRED:
        return choice
    match choice:
        case {"allowed_tools": {"mode": _} as body}:
            return {**choice, "allowed_tools": {**body, "mode": "auto"}}
        case {"type": "allowed_tools"}:
            return {**choice, "mode": "auto"}
        case {"disable_parallel_tool_use": single}:
            return {"type": "auto", "disable_parallel_tool_use": single}
        case _:
            return "auto"


def _decline(call: ToolCall, verdict: object) -> CallResult:
    why = "the user does not allow it"
    if isinstance(verdict, str) and verdict:
        why = verdict
    return CallResult(call, Outcome.DECLINED, _explain(f"not executed: {why}"))


def _fail(call: ToolCall, error: Exception) -> CallResult:
    text = type(error).__name__
    message = str(error)
    if message:
        text += f": {message[:LONGEST_ERROR]}"
    if len(message) > LONGEST_ERROR:
        text += " ..."
    return CallResult(call, Outcome.FAILED, _explain(text), error=error)
