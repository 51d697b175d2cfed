"""A parser in a separate process: a line on stdin is a request, a line on stdout the answer.

The process may hang, end, or write a line that is not an answer. Each is reported as a failure of
the request, and the process is started again.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import sys
import tempfile
import time
from contextlib import suppress

from constrained.errors import RequestError
from grammars.schema.json_values import JsonObject
from grammars.suite.changes import ChangeKind
from grammars.suite.parser_output import BrokenParser

START_TIMEOUT = 60
"""Seconds in which a process has to answer its first line: it may import much."""
_MAX_BYTES = 16 * 2**20  # of a line
_MAX_SHOWN = 200  # characters of a wrong answer that are shown
_PATIENCE = 2  # seconds for a process to end after its pipe is closed
_ERROR = re.compile(r"error|panic|exception", re.IGNORECASE)
_ERROR_NAME = re.compile(r".*?(\w*(?:Error|Exception|panicked))\b.*", re.DOTALL)
_CAN_GROUP = sys.platform != "win32"


class ParserProcess:
    """A process that reads requests from stdin, and writes an answer to each on stdout.

    Args:
        command: as a shell splits it; no shell is involved.
        hello: the first request; its answer is in `greeting`.
        timeout: seconds for each further answer.

    Raises:
        RequestError: it cannot be started, or does not answer the first line.
    """

    def __init__(self, command: str, hello: JsonObject, *, timeout: float):
        try:
            self._arguments = shlex.split(command)
        except ValueError as e:
            raise RequestError(f"--cmd cannot be split: {e}", hint="Close its quotes") from e
        if not self._arguments:
            raise RequestError("--cmd is empty", hint='Name a program: --cmd "python my_parser.py"')
        self._hello = hello
        self._timeout = timeout
        self._runner = asyncio.Runner()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._errors_before = 0  # bytes of processes that have ended
        self._process: asyncio.subprocess.Process | None = None
        self.lost = 0.0
        """The seconds spent on waiting for missing answers, and on restarting the process."""
        try:
            self.greeting = self._start()
        except RequestError:
            self.close()
            raise

    def __enter__(self) -> "ParserProcess":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, request: JsonObject) -> JsonObject:
        """Sends a request, and returns the answer.

        Raises:
            BrokenParser: there is no valid answer.
            RequestError: the process has ended, and cannot be started again.
        """
        started = time.monotonic()
        if self._process is None:
            self._start()
            self.lost += time.monotonic() - started
            started = time.monotonic()
        try:
            return self._exchange(request, self._timeout)
        except BrokenParser:
            self.lost += time.monotonic() - started
            raise

    def close(self) -> None:
        self._runner.run(self._stop())
        self._runner.close()
        self._errors.close()

    def _start(self) -> JsonObject:
        try:
            self._process = self._runner.run(self._spawn())
        except OSError as e:
            message = f"--cmd cannot be started: {self._arguments[0]}: {e.strerror}"
            raise RequestError(message, hint="Check the path of the program") from e
        try:
            return self._exchange(self._hello, START_TIMEOUT)
        except BrokenParser as e:
            hint = 'Answer {"id": 0, "hello": ...} with {"id": 0, "can": [...]}'
            raise RequestError(f"the first line to the parser: {e}", hint=hint) from e

    def _exchange(self, request: JsonObject, timeout: float) -> JsonObject:
        # ASCII, since the process may read stdin in any encoding.
        line = json.dumps(request).encode() + b"\n"
        try:
            return _read_answer(self._runner.run(self._ask(line, timeout)), request)
        except BrokenParser:  # a late answer to this request could be mistaken for the next one's
            self._runner.run(self._stop())
            raise

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._errors_before = self._errors.seek(0, os.SEEK_END)
        return await asyncio.create_subprocess_exec(
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errors,
            limit=_MAX_BYTES,
            start_new_session=_CAN_GROUP,
        )

    async def _ask(self, line: bytes, timeout: float) -> bytes:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                process.stdin.write(line)
                await process.stdin.drain()
                answer = await process.stdout.readline()
        except TimeoutError as e:
            raise BrokenParser(f"no answer within {timeout:g} s", ChangeKind.NO_ANSWER) from e
        except ValueError as e:
            raise BrokenParser(f"a line of the answer has more than {_MAX_BYTES} bytes") from e
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if not answer.endswith(b"\n"):
            end = await self._describe_end(process)
            raise BrokenParser(end, ChangeKind.CRASH, place=_ERROR_NAME.sub(r"\1", end))
        return answer

    async def _describe_end(self, process: asyncio.subprocess.Process) -> str:
        try:
            async with asyncio.timeout(_PATIENCE):
                code = await process.wait()
        except TimeoutError:
            return "it closed its stdout"
        text = f"the process ended with exit code {code}"
        error = self._read_last_error()
        return f"{text}: {error}" if error else text

    def _read_last_error(self) -> str:
        """Returns the last line on stderr that names an error; if there is none, the last line.
        Node.js writes its version after it, Rust a note, Go the stack."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors_before, size - 4096))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        written = [line.strip() for line in lines if line.strip()]
        errors = [line for line in written if _ERROR.search(line)]
        return (errors or written or [""])[-1][:_MAX_SHOWN]

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            if _CAN_GROUP:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        # Reading to the end closes the pipe; a child that has left the group may hold it open.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await process.communicate()


def _read_answer(line: bytes, request: JsonObject) -> JsonObject:
    shown = line.decode("utf-8", "replace").strip()[:_MAX_SHOWN]
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise BrokenParser(f"the answer is not JSON: {shown!r}") from e
    if not isinstance(answer, dict):
        raise BrokenParser(f"the answer is not an object: {shown!r}")
    if answer.get("id") != request["id"]:
        wanted = request["id"]
        raise BrokenParser(f"the answer has the id {answer.get('id')!r} instead of {wanted!r}")
    return answer
