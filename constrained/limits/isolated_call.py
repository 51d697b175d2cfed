"""Isolated calls: a function runs in a separate process, with limits on time and memory. When it
exceeds a limit, the process is killed with its child processes. Its result comes back as JSON. This
limits resources and survives crashes, but it is not a sandbox: the function has all permissions of
the user."""

import contextvars
import inspect
import json
import math
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from pydantic_core import to_jsonable_python

from constrained.errors import RequestError
from constrained.limits.process_limits import MIB, limit_memory

PATIENCE = 5.0  # seconds that a killed process has to end
_STARTING = "isolated function, starting"
"""The name of a process that imports the program of a function; the function has not begun."""
_BEGUN = b""
"""The first message of a process: it has imported the program."""
_MAIN_AGAIN = "__mp_main__"
"""The name under which `multiprocessing` imports the main program in another process."""
_GUARD = 'Put what the program does below `if __name__ == "__main__":`'


def as_awaitable(result: Any) -> Any:
    """Returns a coroutine that collects the items of an async generator in a list, since pydantic
    does not serialise generators; other values unchanged."""
    if not isinstance(result, AsyncIterator):
        return result

    async def collect() -> list[Any]:
        return [item async for item in result]

    return collect()


def finish(result: Any) -> Any:
    """Returns the result of a function; a coroutine or an async generator is run to its end in a
    new event loop."""
    result = as_awaitable(result)
    if inspect.isawaitable(result):
        return _wait(result)
    return result


def _wait(result: Awaitable[Any]) -> Any:
    import asyncio  # here, as most processes of isolated calls do not need it

    async def wait() -> Any:
        return await result

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # For example in a notebook: the event loop of this thread is running this code.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, wait()).result()


@dataclass(frozen=True)
class Isolation:
    """The limits of an isolated call.

    Args:
        seconds: it is killed after this time, which includes the start of its process.
        memory: the maximum number of bytes that it may allocate beyond Python and its modules;
            None: no limit. Windows supports no limit.

    Raises:
        RequestError: a limit is not above 0.
    """

    seconds: float = 30.0
    memory: int | None = 512 * MIB

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise RequestError(f"it is {self.seconds!r}", where="/isolate/seconds")
        if self.memory is not None and self.memory < 1:
            raise RequestError(f"it is {self.memory!r}", where="/isolate/memory")


class IsolatedError(Exception):
    """An isolated function raised an error, or was killed."""


class IsolatedImportError(RequestError):
    """The process of an isolated function ended before the function began: it could not import the
    program. This is a fault of the program, not of the call."""


def check_isolated(function: Callable[..., Any], name: str) -> None:
    """Raises RequestError if another process cannot import it: it is, for example, defined inside
    another function."""
    try:
        pickle.dumps(function)
    except Exception as e:
        hint = "Define it at the top level of a module, or do not isolate it"
        message = f"the tool {name!r} cannot run in a process of its own: {e}"
        raise RequestError(message, where="/isolate", hint=hint) from e


def refuse_at_import() -> None:
    """Raises RequestError if the main program runs once more, for an isolated function. The process
    of such a function imports the program, and would do all that is not below a guard. The modules
    that the program imports are free to work: nothing guards them."""
    if multiprocessing.current_process().name == _STARTING and _is_main_run_again():
        message = "the process of an isolated function imports this program, which then runs again"
        raise RequestError(message, where="/isolate", hint=_GUARD)


def _is_main_run_again() -> bool:
    """Returns whether the module whose body is running is the main one, run again."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return frame.f_globals.get("__name__") == _MAIN_AGAIN
        frame = frame.f_back
    return False


class IsolatedCall:
    """A call in a separate process, which starts at once."""

    def __init__(self, bound: Callable[[], Any], isolation: Isolation):
        self._isolation = isolation
        context = multiprocessing.get_context("spawn")
        self._answers, answers = context.Pipe(duplex=False)
        arguments = (answers, bound, isolation)
        self._process = context.Process(target=_work, name=_STARTING, args=arguments, daemon=True)
        try:
            self._process.start()
        finally:
            answers.close()

    def result(self) -> Any:
        """Waits for the result; returns it as JSON. IsolatedError: the function raised an error, or
        was killed; IsolatedImportError: its process could not import the program."""
        deadline = time.monotonic() + self._isolation.seconds
        has_begun = False
        try:
            has_begun = self._receive(deadline) == _BEGUN
            answer = json.loads(self._receive(deadline))
        except EOFError:
            self._process.join(PATIENCE)
            code = self._process.exitcode
            if not has_begun and code is not None and code >= 0:
                raise _explain_import(code) from None
            raise IsolatedError(_explain_end(code)) from None
        finally:
            self.kill()
        if "error" in answer:
            raise IsolatedError(answer["error"])
        return answer["result"]

    def _receive(self, deadline: float) -> bytes:
        if not self._answers.poll(max(0.0, deadline - time.monotonic())):
            limit = f"{self._isolation.seconds:g} seconds"
            raise IsolatedError(f"TimeoutError: it was stopped after {limit}")
        return self._answers.recv_bytes()

    def kill(self) -> None:
        """Kills the process and its child processes."""
        pid = self._process.pid
        if pid is not None and hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # fails until the process has created its group
        self._process.kill()
        self._process.join(PATIENCE)


def _explain_import(code: int) -> IsolatedImportError:
    message = (
        "the process of an isolated function could not import this program: it ended with code "
        f"{code} before the function began. Its error is on stderr"
    )
    return IsolatedImportError(message, where="/isolate", hint=_GUARD)


def _explain_end(code: int | None) -> str:
    if code is not None and code < 0:
        return f"RuntimeError: the process of the tool was ended by {signal.Signals(-code).name}"
    return f"RuntimeError: the process of the tool ended with code {code}"


def _work(answers: Connection, bound: Callable[[], Any], isolation: Isolation) -> None:
    """The main function of the other process."""
    multiprocessing.current_process().name = "isolated function"
    if hasattr(os, "setsid"):
        os.setsid()
    answers.send_bytes(_BEGUN)
    answer: dict[str, Any]
    try:
        _limit(isolation)
        result = finish(bound())
        answer = {"result": to_jsonable_python(result, by_alias=True, fallback=str)}
        data = json.dumps(answer).encode()
    except MemoryError:
        size = (isolation.memory or 0) / MIB
        error = f"MemoryError: it needs more than {size:,.0f} MiB"
        data = json.dumps({"error": error}).encode()
    except BaseException as e:
        data = json.dumps({"error": f"{type(e).__name__}: {e}"}).encode()
    answers.send_bytes(data)


def _limit(isolation: Isolation) -> None:
    if isolation.memory is None:
        return
    try:
        limit_memory(isolation.memory)
    except ImportError as e:
        raise RuntimeError("this system cannot limit memory: use memory=None") from e
