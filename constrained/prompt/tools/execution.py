"""Executes calls: passes JSON arguments to a function, converts its result to text, and says what a
call came to."""

import asyncio
import functools
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic_core import to_jsonable_python

from constrained.errors import CallError
from constrained.limits.isolated_call import (
    IsolatedCall,
    IsolatedError,
    Isolation,
    as_awaitable,
    finish,
)
from constrained.prompt.tools.functions import find_tool
from constrained.prompt.tools.struct_types import is_struct, write_struct
from grammars.turn import ToolCall

MAX_ERROR_LENGTH = 1000  # characters of an error that the model is shown


class Outcome(StrEnum):
    """The outcome of a call.

    Attributes:
        DONE: the function returned.
        FAILED: the function raised an exception, or the arguments do not fit.
        DECLINED: not executed, `approve` declined it.
        REPEATED: not executed, it would only repeat earlier calls.
        OVER_BUDGET: not executed, the budget is spent.
        CUT: not executed, the tokens ran out in this turn.
    """

    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    REPEATED = "repeated"
    OVER_BUDGET = "over_budget"
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


def call_function(call: ToolCall, tools: Iterable[Any]) -> Any:
    """Executes the function of a call, in a process of its own if it is isolated; its exceptions
    are not caught. pydantic converts the arguments. An async function runs in a new event loop; the
    items of an async generator are a list. CallError: the call is not valid or was cut, its
    arguments do not fit, or there is no function. IsolatedError, IsolatedImportError: the process
    failed."""
    bound, isolation = _bind(call, tools)
    if isolation is not None:
        return IsolatedCall(bound, isolation).result()
    return finish(bound())


async def acall_function(call: ToolCall, tools: Iterable[Any]) -> Any:
    """Does what `call_function` does, for asyncio; a sync function runs in a thread."""
    bound, isolation = _bind(call, tools)
    if isolation is not None:
        return await _finish_isolated(bound, isolation)
    if is_async(bound.func):
        result = bound()
    else:
        result = await asyncio.to_thread(_run, bound)
    result = as_awaitable(result)
    if inspect.isawaitable(result):
        return await result
    return result


async def _finish_isolated(bound: functools.partial[Any], isolation: Isolation) -> Any:
    call = await asyncio.to_thread(IsolatedCall, bound, isolation)
    try:
        return await asyncio.to_thread(call.result)
    except asyncio.CancelledError:
        call.kill()
        raise


def is_async(function: Any) -> bool:
    called = getattr(type(function), "__call__", None)  # noqa: B004  is it async, not: is it there
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _bind(call: ToolCall, tools: Iterable[Any]) -> tuple[functools.partial[Any], Isolation | None]:
    tool = find_tool(call.name, tools)
    if tool is None or tool.function is None:
        hint = "Offer a function, or FunctionTool.from_schema(name, schema, function)"
        raise CallError(f"the tool {call.name!r} has no function", where="/name", hint=hint)
    if call.errors:
        raise CallError(call.errors[0].message, where=call.errors[0].pointer)
    if call.truncated:
        hint = "Raise max_tokens"
        raise CallError("the call was cut off, its arguments are incomplete", hint=hint)
    arguments, keywords = tool.bind(call.arguments)
    return functools.partial(tool.function, *arguments, **keywords), tool.isolation


def _run(bound: functools.partial[Any]) -> Any:
    try:
        return bound()
    except StopIteration as e:  # asyncio would wait forever: a future cannot hold it
        raise RuntimeError("the function raised StopIteration") from e


def format_result(result: Any) -> str:
    """Converts a result to text for the model: strings stay, values become JSON as pydantic writes
    it, other objects are written by `str`. A lone surrogate, which a prompt cannot contain, becomes
    U+FFFD."""
    try:
        text = to_jsonable_python(result, by_alias=True, fallback=_write_other)
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
    except (ValueError, RecursionError):  # bytes that are not UTF-8, or a list that contains itself
        text = str(result)
    # Surrogate pairs, in which JavaScript writes an emoji, are joined by the encoding.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _write_other(value: Any) -> Any:
    return write_struct(value) if is_struct(type(value)) else str(value)


def refuse(call: ToolCall, outcome: Outcome, why: str) -> CallResult:
    return CallResult(call, outcome, _explain(f"not executed: {why}"))


def decline(call: ToolCall, verdict: object) -> CallResult:
    why = "the user does not allow it"
    if isinstance(verdict, str) and verdict:
        why = verdict
    return refuse(call, Outcome.DECLINED, why)


def fail(call: ToolCall, error: Exception) -> CallResult:
    text, message = type(error).__name__, str(error)
    if isinstance(error, IsolatedError):  # its text begins with the type of the original error
        text, _, message = message.partition(": ")
    if message:
        text += f": {message[:MAX_ERROR_LENGTH]}"
    if len(message) > MAX_ERROR_LENGTH:
        text += " ..."
    return CallResult(call, Outcome.FAILED, _explain(text), error=error)


def _explain(error: str) -> str:
    return format_result({"error": error})
