"""The trace file: one line per reply, which says what decided each of its tokens.

A full file is renamed to FILE.1 and replaces an older one, so the size of both is bounded.
"""

import json
import logging
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from constrained.engine.files.private_files import OTHERS, PRIVATE_FILE
from constrained.errors import RequestError
from constrained.model.trace.turn_trace import TurnTrace
from grammars.schema.json_values import Json
from server.turns.observers import TracedRequest

LOG = logging.getLogger("constrained.server")
MAX_WAITING = 64  # traces in the queue
# Do not follow symbolic links, and do not wait for the reader of a pipe.
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TraceFile:
    """Appends traces to a file, in a thread of its own. Thread-safe.

    The file is opened for each line: if it is moved away, a new one begins.

    Args:
        path: other users lose the permission to read it.
        max_bytes: the limit for its size in bytes, and for one line.

    Raises:
        RequestError: the file cannot be written.
    """

    def __init__(self, path: Path, max_bytes: int):
        self._path = path
        self._max_bytes = max_bytes
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="traces")
        self._room = threading.BoundedSemaphore(MAX_WAITING)
        try:
            os.close(self._open())
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or error
            message = f"{path} cannot be used for traces: {cause}"
            raise RequestError(message, where="/trace", hint="Name another file") from error

    def note(self, request: TracedRequest, trace: TurnTrace) -> None:
        """Queues a trace. If the queue is full, or the disk fails, the trace is dropped and the log
        says so: replies never wait for traces."""
        if not self._room.acquire(blocking=False):
            LOG.warning(
                "the trace of %s is left out: %d are waiting already", request.id, MAX_WAITING
            )
            return
        self._writer.submit(self._write, request, trace, datetime.now(UTC))

    def close(self) -> None:
        self._writer.shutdown()

    def _write(self, request: TracedRequest, trace: TurnTrace, time: datetime) -> None:
        try:
            self._append(request, {"request": request.to_json(time), **trace.to_json()})
        except (OSError, ValueError) as error:
            LOG.warning("the trace of %s is left out: %s", request.id, error)
        finally:
            self._room.release()

    def _append(self, request: TracedRequest, shown: dict[str, Json]) -> None:
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        # Clients may send invalid Unicode: a lone surrogate stays an escape.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        if len(line) > self._max_bytes:
            message = "the trace of %s is left out: %d bytes, --trace-size allows %d"
            LOG.warning(message, request.id, len(line), self._max_bytes)
            return
        handle = self._open()
        try:
            size = os.fstat(handle).st_size
            if size and size + len(line) > self._max_bytes:
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
                os.close(handle)
                handle, size = self._open(), 0
            # One write, so that lines of two servers do not mix.
            written = os.write(handle, line)
            if written < len(line):  # the disk is full
                os.ftruncate(handle, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written")
        finally:
            os.close(handle)

    def _open(self) -> int:
        """Opens the file for appending, readable only by its user."""
        handle = os.open(self._path, APPEND, PRIVATE_FILE)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("it is not a regular file")
            if found.st_uid != os.geteuid():
                raise ValueError("it belongs to another user")
            if found.st_mode & OTHERS:
                os.fchmod(handle, PRIVATE_FILE)
        except BaseException:
            os.close(handle)
            raise
        return handle
