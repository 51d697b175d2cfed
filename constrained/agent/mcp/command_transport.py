"""The transport to a server that runs as a command: one message per line, on its stdin and stdout.

The transport of the package `mcp` reads lines of any length, and copies the line so far for each
piece that arrives: a line of 30 MB takes seconds, in which nothing else is read. Here the length of
a line is limited, and each byte is read once.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import IO, Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import StdioServerParameters, stdio_client, types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from constrained.agent.mcp.bounded_http import MAX_MESSAGE_LENGTH
from constrained.agent.mcp.server import ServerCommand
from constrained.errors import Error

if sys.platform != "win32":
    from mcp.os.posix.utilities import terminate_posix_process_tree

MAX_REASON_LENGTH = 500  # characters of the error about an unreadable answer
MAX_SEARCHED_LENGTH = 1 << 20  # bytes of a line that is not a message
MAX_ID_LENGTH = 18  # digits
OBJECT = re.compile(rb"\s*\{")  # the beginning of a possible message
MAX_VALUES = 300_000  # of a message
MARKS = (b",", b"[", b"{")
STRING_OR_MARK = re.compile(rb'"[^"]*"|[,\[{]')
PIECE = 1 << 18  # bytes that are read at a time
END_SECONDS = 2.0  # for a server to end after its stdin is closed, and again after SIGTERM
FLUSH_SECONDS = 0.5  # for messages that are being written
LOOK_SECONDS = 0.01  # between two checks whether it has ended
GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


class LongLineError(Error):
    """A server has written a line that is too long for a message or has too many values, or an
    unreadable answer that is too long to find its request."""


class LineReader:
    """Splits the output of a server into lines.

    Args:
        max_bytes: the maximum length of a line.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._line = bytearray()

    def take(self, piece: bytes) -> Iterator[bytes]:
        """Yields the lines that end in this piece.

        Raises:
            LongLineError: a line is too long.
        """
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._add(part)
            yield bytes(self._line)
            self._line.clear()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if len(self._line) + len(part) > self._max_bytes:
            raise LongLineError(f"a line of its output is longer than {self._max_bytes:,} bytes")
        self._line += part


@asynccontextmanager
async def run_command(
    server: ServerCommand, log: IO[str], on_failure: Callable[[Exception], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Starts a server. On exit, ends it and all processes that it has started.

    Args:
        server: the command.
        log: takes the text that it writes to stderr.
        on_failure: called with the reason if the connection ends because of its output.

    Yields:
        A stream to read from and one to write to, in the form of the package `mcp`.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    if sys.platform == "win32":
        async with _run_on_windows(server, log) as streams:
            yield streams
        return
    process = await anyio.open_process(
        [server.command, *server.args],
        env=get_default_environment() | dict(server.env),
        stderr=log,
        cwd=server.cwd,
        start_new_session=True,
    )
    # Nothing is awaited between the start and the `try`: a cancellation there would leave the
    # process running.
    read_in, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, write_out = anyio.create_memory_object_stream[SessionMessage](0)
    has_written = anyio.Event()

    async with anyio.create_task_group() as group:
        group.start_soon(_read_messages, process.stdout, read_in, on_failure)
        group.start_soon(_write_messages, process.stdin, write_out, read_in, has_written)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                write.close()
                read.close()
                with anyio.move_on_after(FLUSH_SECONDS):
                    await has_written.wait()
                await _end(process)
            group.cancel_scope.cancel()
            for stream in (read_in, write_out):
                stream.close()


@asynccontextmanager
async def _run_on_windows(server: ServerCommand, log: IO[str]) -> AsyncIterator[tuple[Any, Any]]:
    """Does the same with the transport of the package `mcp`: on Windows, it has a job object, which
    ends the processes that the server has started."""
    parameters = StdioServerParameters(
        command=server.command, args=[*server.args], env=dict(server.env), cwd=server.cwd
    )
    async with stdio_client(parameters, errlog=log) as streams:  # type: ignore[arg-type]
        yield streams


async def _read_messages(
    output: ByteReceiveStream | None,
    read_in: MemoryObjectSendStream[SessionMessage | Exception],
    on_failure: Callable[[Exception], None],
) -> None:
    """Passes on the messages of a server until its output ends."""
    assert output is not None
    try:
        async with read_in:
            await _deliver(output, read_in.send)
    except LongLineError as error:
        on_failure(error)
    except GONE:
        pass
    # Read on: a server that is blocked in a write would not notice that its stdin is closed.
    with suppress(*GONE):
        while True:
            await output.receive(PIECE)


async def _write_messages(
    input: ByteSendStream | None,
    write_out: MemoryObjectReceiveStream[SessionMessage],
    read_in: MemoryObjectSendStream[SessionMessage | Exception],
    has_written: anyio.Event,
) -> None:
    """Writes messages to a server until there are no more, then sets `has_written`."""
    assert input is not None
    try:
        async for message in write_out:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await input.send(text.encode() + b"\n")
    except GONE:
        read_in.close()  # no later request would get an answer
    finally:
        has_written.set()


async def _deliver(output: ByteReceiveStream, deliver: Callable[..., Any]) -> None:
    """Reads messages until the output ends."""
    lines = LineReader(MAX_MESSAGE_LENGTH)
    while True:
        for line in lines.take(await output.receive(PIECE)):
            await deliver(_read_message(line))


def _read_message(line: bytes) -> SessionMessage | Exception:
    """Reads a message. An unreadable answer becomes an error for the request that waits for it. For
    any other unreadable line, returns the exception, which the session ignores.

    Raises:
        LongLineError: an unreadable answer is too long or too deep to find its request, or a
            message has too many values.
    """
    if count_values(line) > MAX_VALUES:
        raise LongLineError(f"a message has more than {MAX_VALUES:,} values")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        if len(line) > MAX_SEARCHED_LENGTH and OBJECT.match(line):
            # A request may wait for this answer. It has to fail, not to wait for ever.
            reason = str(error)[:MAX_REASON_LENGTH]
            message = f"a message of {len(line):,} bytes cannot be read: {reason}"
            raise LongLineError(message) from error
        id = find_answered(line)
        if id is None:
            return error
        message = f"its answer cannot be read: {str(error)[:MAX_REASON_LENGTH]}"
        fault = types.ErrorData(code=types.PARSE_ERROR, message=message)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=fault))


def count_values(line: bytes) -> int:
    """Returns how many values a JSON text has, at most one more than `MAX_VALUES`, if there may be
    too many; else 0. Each takes a hundred bytes or two."""
    if sum(map(line.count, MARKS)) <= MAX_VALUES:  # with those in strings
        return 0
    line = line.replace(rb"\\", b"").replace(rb"\"", b"")  # one pattern would hold others up
    marks = (found for found in STRING_OR_MARK.finditer(line) if len(found[0]) == 1)
    return sum(1 for _ in islice(marks, MAX_VALUES + 1))


def find_answered(line: bytes) -> int | str | None:
    """Returns the id of the request that an invalid line answers: text that is not UTF-8, lone
    surrogates, NaN and long numbers are tolerated. None: it is not an answer.

    Raises:
        LongLineError: it is nested too deeply to tell.
    """
    if len(line) > MAX_SEARCHED_LENGTH:
        return None
    try:
        found = json.loads(line.decode("utf-8", "replace"), parse_int=_read_integer)
    except ValueError:
        return None
    except RecursionError:
        raise LongLineError("a message is nested too deeply") from None
    if not isinstance(found, dict) or "method" in found:
        return None
    id = found.get("id")
    return id if isinstance(id, int | str) and not isinstance(id, bool) else None


def _read_integer(digits: str) -> int:
    """Reads an id. Other numbers may have any length, but are not needed, so they are cut."""
    return int(digits[:MAX_ID_LENGTH])


async def _end(process: Process) -> None:
    """Ends a server and all processes that it has started: gracefully, then by force."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(*GONE):
        await process.stdin.aclose()
    await _has_ended(process)
    # Also if it has ended by itself: processes that it has started are in its process group, and
    # may still run.
    await terminate_posix_process_tree(process, END_SECONDS)
    await _has_ended(process)
    with suppress(*GONE):
        await process.stdout.aclose()
    # Processes that the server has started may hold the pipes open, and so asyncio's transport.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _has_ended(process: Process) -> bool:
    """Waits until the process has ended, at most `END_SECONDS`. `Process.wait` would also wait for
    its pipes, which other processes may hold open."""
    with anyio.move_on_after(END_SECONDS):
        while process.returncode is None:
            await anyio.sleep(LOOK_SECONDS)
    return process.returncode is not None
