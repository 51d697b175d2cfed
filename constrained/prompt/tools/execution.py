"""Executes calls: passes JSON arguments to a function, and converts its result to text."""

import asyncio
import functools
import inspect
import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_jsonable_python

from constrained.errors import CallError
from constrained.limits.isolated_call import IsolatedCall, Isolation, as_awaitable, finish
from constrained.prompt.tools.functions import find_tool
from constrained.prompt.tools.struct_types import is_struct, write_struct
from grammars.turn import ToolCall


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
