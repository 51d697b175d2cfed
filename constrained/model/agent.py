"""The agent loop: the model calls functions and reads their results, until it answers."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from constrained.errors import RequestError
from constrained.model.agent_run import CallResult, Outcome, Progress, Run, decline, fail
from constrained.reply import Reply
from constrained.tools.execution import acall_function, call_function, format_result
from grammars.turn import ToolCall

Verdict: TypeAlias = bool | str
Approve: TypeAlias = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
"""Is asked before a call is executed; async only in `arun`."""


class Model(Protocol):
    """What the loop needs of `constrained.model.model.Model`."""

    def call(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], /, **options: Any
    ) -> Reply: ...

    async def acall(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], /, **options: Any
    ) -> Reply: ...


def run(
    model: Model,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: Sequence[Any],
    *,
    max_steps: int = 8,
    max_repeats: int = 2,
    approve: Approve | None = None,
    **options: Any,
) -> Run:
    """Calls the model, executes its calls, and shows it the results, until it answers.

    Where a function raises, the model is told what, and may mend its call. If a turn calls a tool
    without a function, none of its calls is executed: they are left to the caller. Nor are those
    of a turn that ran out of tokens.

    Args:
        model: what answers.
        messages: the conversation, or the text of a user message.
        tools: functions, and all else that `read_tools` reads.
        max_steps: generate at most so many turns; the calls of the last one are executed, too.
        max_repeats: a call that has had the same result so many times in a row is not executed
            again, but the model is told so; if it makes that call once more, the run ends.
        approve: is asked before a call is executed. Whatever it returns but True declines: the
            model is told, with the text if it is one. The same call again ends the run.
        options: handed to the model. A `tool_choice` that requires a call holds for the first
            turn only, and is "auto" from then on: the model could never answer otherwise.

    Raises:
        Error: what the model raises; RequestError for limits below 1.
    """
    progress = Progress(messages, tools, max_steps, max_repeats, options)
    while progress.reason is None:
        progress.take(model.call(progress.messages, progress.tools, **progress.options))
        verdicts = [(call, _ask(approve, call)) for call in progress.open]
        progress.answer([_execute(call, verdict, progress.tools) for call, verdict in verdicts])
    return progress.finish()


async def arun(
    model: Model,
    messages: Sequence[Mapping[str, Any]] | str,
    tools: Sequence[Any],
    *,
    max_steps: int = 8,
    max_repeats: int = 2,
    approve: Approve | None = None,
    **options: Any,
) -> Run:
    """As `run`; the calls of one turn run concurrently.

    `approve` may be async; it is asked about one call after the other, before any is executed.
    """
    progress = Progress(messages, tools, max_steps, max_repeats, options)
    while progress.reason is None:
        offer = progress.messages, progress.tools
        progress.take(await model.acall(*offer, **progress.options))
        verdicts = [(call, await _aask(approve, call)) for call in progress.open]
        executions = (_aexecute(call, verdict, progress.tools) for call, verdict in verdicts)
        progress.answer(await asyncio.gather(*executions))
    return progress.finish()


def _ask(approve: Approve | None, call: ToolCall) -> Any:
    verdict = approve(call) if approve else True
    if inspect.iscoroutine(verdict):
        verdict.close()
        raise RequestError("approve is async", where="/approve", hint="Use arun")
    return verdict


async def _aask(approve: Approve | None, call: ToolCall) -> Any:
    verdict = approve(call) if approve else True
    return await verdict if inspect.isawaitable(verdict) else verdict


def _execute(call: ToolCall, verdict: Any, tools: Sequence[Any]) -> CallResult:
    if verdict is not True:
        return decline(call, verdict)
    try:
        result = call_function(call, tools)
        return CallResult(call, Outcome.DONE, format_result(result), result)
    except Exception as e:  # the function is the user's, and may raise anything
        return fail(call, e)


async def _aexecute(call: ToolCall, verdict: Any, tools: Sequence[Any]) -> CallResult:
    if verdict is not True:
        return decline(call, verdict)
    try:
        result = await acall_function(call, tools)
        return CallResult(call, Outcome.DONE, format_result(result), result)
    except Exception as e:  # the function is the user's, and may raise anything
        return fail(call, e)
