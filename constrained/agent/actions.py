"""The actions of a run: generating turns, asking for approval, and executing calls.

`Blocking` and `Concurrent` have the same coroutines, so that sync and async runs share
the code of `run`. The coroutines of `Blocking` never wait: a sync run completes in one step.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from constrained.agent.loop import NextTurn
from constrained.decode.filters.events import StreamEvent
from constrained.errors import RequestError
from constrained.limits.isolated_call import IsolatedImportError
from constrained.model.loaded_model import LoadedModel
from constrained.model.reply import Reply
from constrained.prompt.tools.execution import (
    CallResult,
    Outcome,
    acall_function,
    call_function,
    fail,
    format_result,
)
from grammars.turn import ToolCall

T = TypeVar("T")
Verdict: TypeAlias = bool | str
"""True: the call is executed. A text: it is declined, and the model reads the text."""
Approve: TypeAlias = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
"""Approves a call before it is executed, or declines it; async only in `arun`."""
Note: TypeAlias = Callable[[StreamEvent], Awaitable[None]]


class ThreadCall:
    """A call that is executed in a thread. Cancelling it cancels an async function at its next
    `await`; any other function runs to its end, but its result is dropped."""

    def __init__(self, pool: ThreadPoolExecutor, call: ToolCall, tools: Sequence[Any]):
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._stop: Callable[[], object] | None = None
        context = contextvars.copy_context()
        self._future = pool.submit(context.run, self._run, call, tools)

    def _run(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        return asyncio.run(self._execute(call, tools))

    async def _execute(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(aexecute_call(call, tools))
        with self._lock:
            self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
            if self._is_cancelled:
                task.cancel()
        return await task

    def result(self) -> CallResult:
        """Waits for the result."""
        return self._future.result()

    def cancel(self) -> None:
        """Stops it; a second time, or when it is done, does nothing."""
        self._future.cancel()
        with self._lock:
            self._is_cancelled = True
            if self._stop is not None:
                with suppress(RuntimeError):  # its event loop is closed: it is done
                    self._stop()


Execution: TypeAlias = ThreadCall | asyncio.Task[CallResult]
"""A call that is being executed; `cancel` ends it, or drops its result if it cannot be ended."""


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits, and returns its result."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("a sync run has waited")


class Blocking:
    """The actions of a sync run: calls run one after the other, except those started in threads."""

    def __init__(self, model: LoadedModel):
        self._model = model
        self._pool: ThreadPoolExecutor | None = None

    async def generate(self, turn: NextTurn, note: Note | None) -> Reply:
        """Generates a turn of the model; passes its events to `note`."""
        if note is None:
            return self._model.call(turn.messages, turn.tools, **turn.options)
        stream = self._model.stream(turn.messages, turn.tools, **turn.options)
        try:
            for event in stream:
                await note(event)
        finally:
            stream.cancel()
        return stream.result

    async def ask(self, approve: Approve, call: ToolCall) -> Verdict:
        """Asks for the verdict about a call."""
        verdict = approve(call)
        if inspect.isawaitable(verdict):
            if inspect.iscoroutine(verdict):
                verdict.close()
            raise RequestError("approve is async", where="/approve", hint="Use arun")
        return verdict

    def begin(self, call: ToolCall, tools: Sequence[Any]) -> Execution:
        """Begins to execute a call in the background."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(thread_name_prefix="tool")
        return ThreadCall(self._pool, call, tools)

    async def finish(self, execution: Any) -> CallResult:
        """Waits for the result of a call that `begin` has started."""
        return execution.result()

    async def execute(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        """Executes a call, and returns its result."""
        return execute_call(call, tools)

    async def gather(
        self, works: Sequence[Coroutine[Any, Any, CallResult]]
    ) -> Sequence[CallResult]:
        """Executes the calls of a turn, and returns their results."""
        try:
            return [await work for work in works]
        finally:
            for work in works:
                work.close()  # if one was interrupted, those after it have not started

    def close(self) -> None:
        """Ends the threads; does not wait for calls that are still running."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def execute_call(call: ToolCall, tools: Sequence[Any]) -> CallResult:
    """Executes a call, and returns its result; an error of its function is part of the result.

    Raises:
        IsolatedImportError: an isolated function could not begin, whatever the call.
    """
    try:
        return _make_result(call, call_function(call, tools))
    except (Exception, SystemExit) as e:  # the function is the user's, and may raise anything
        return _explain_failure(call, e)


async def aexecute_call(call: ToolCall, tools: Sequence[Any]) -> CallResult:
    """Like `execute_call`, for asyncio."""
    try:
        return _make_result(call, await acall_function(call, tools))
    except (Exception, SystemExit) as e:
        return _explain_failure(call, e)


def _make_result(call: ToolCall, result: Any) -> CallResult:
    return CallResult(call, Outcome.DONE, format_result(result), result=result)


def _explain_failure(call: ToolCall, error: Exception | SystemExit) -> CallResult:
    match error:
        case IsolatedImportError():
            raise error
        case SystemExit():  # it would end the program, which is not for a function to decide
            return fail(call, RuntimeError(f"the function raised {error!r}"))
        case _:
            return fail(call, error)


class Concurrent:
    """The actions of an async run, as those of `Blocking`: the calls of a turn run concurrently."""

    def __init__(self, model: LoadedModel):
        self._model = model

    async def generate(self, turn: NextTurn, note: Note | None) -> Reply:
        if note is None:
            return await self._model.acall(turn.messages, turn.tools, **turn.options)
        stream = self._model.astream(turn.messages, turn.tools, **turn.options)
        try:
            async for event in stream:
                await note(event)
            return await stream.result()
        finally:
            stream.cancel()

    async def ask(self, approve: Approve, call: ToolCall) -> Verdict:
        verdict = approve(call)
        return await verdict if inspect.isawaitable(verdict) else verdict

    def begin(self, call: ToolCall, tools: Sequence[Any]) -> Execution:
        return asyncio.create_task(self.execute(call, tools))

    async def finish(self, execution: Any) -> CallResult:
        return await execution

    async def execute(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        return await aexecute_call(call, tools)

    async def gather(
        self, works: Sequence[Coroutine[Any, Any, CallResult]]
    ) -> Sequence[CallResult]:
        return await asyncio.gather(*works)


Actions: TypeAlias = Blocking | Concurrent
