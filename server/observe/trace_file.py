"""The file of traces: what decided about each token of every reply, a line each.

A file that is full becomes FILE.1, in place of an older one: both together are bounded.
"""

import json
import logging
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from constrained.errors import RequestError
from constrained.files.private_files import OTHERS, PRIVATE_FILE
from constrained.trace.turn_trace import TurnTrace
from grammars.schema.nodes import Json

LOG = logging.getLogger("constrained.server")
MOST_WAITING = 64  # traces that are not written yet
KEY_DIGITS = 12
# A link is not followed, and a pipe that nobody reads is not waited for.
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class TracedRequest:
    """What is told of the request that a trace is of.

    Args:
        id: of the request, as in `x-request-id`.
        model: what the client calls it.
        choice: the number of the reply, where a request has several.
        key: names the API key, see `name_key`; "" if there are no keys.
        error: what the turn has failed with; "" if it has not.
    """

    id: str
    model: str
    choice: int = 0
    key: str = ""
    error: str = ""

    def to_json(self, time: datetime) -> dict[str, Json]:
        """The field `request` of a line."""
        shown: dict[str, Json] = {
            "id": self.id,
            "time": time.isoformat(timespec="milliseconds"),
            "model": self.model,
            "choice": self.choice,
        }
        for name in ("key", "error"):
            if value := getattr(self, name):
                shown[name] = value
        return shown


def name_key(key: object) -> str:
    """Tells API keys apart without saying them: the beginning of the key's SHA-256."""
    if key is None:
        return ""
    data = key if isinstance(key, bytes) else str(key).encode()
    return sha256(data).hexdigest()[:KEY_DIGITS]


class TraceFile:
    """Appends traces to a file, in a thread of its own. For any thread.

    The file is opened for each line: whoever moves it away starts a new one.

    Args:
        path: of the file, which others may not read from then on.
        most: bytes of it; one line may have no more either.

    Raises:
        RequestError: it cannot be written.
    """

    def __init__(self, path: Path, most: int):
        self._path = path
        self._most = most
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="traces")
        self._room = threading.BoundedSemaphore(MOST_WAITING)
        try:
            os.close(self._open())
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or error
            message = f"{path} cannot be used for traces: {cause}"
            raise RequestError(message, where="/trace", hint="Name another file") from error

    def note(self, request: TracedRequest, trace: TurnTrace) -> None:
        """Writes a trace soon. Where too many wait, or the disk fails, the log says that it is
        left out: no reply waits for its trace."""
        if not self._room.acquire(blocking=False):
            LOG.warning("the trace of %s is left out: %d wait already", request.id, MOST_WAITING)
            return
        self._writer.submit(self._write, request, trace, datetime.now(UTC))

    def close(self) -> None:
        """Writes what waits, and takes no more."""
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
        # What clients send need not be good Unicode: a lone surrogate stays as its escape.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        if len(line) > self._most:
            message = "the trace of %s is left out: %d bytes, --trace-size allows %d"
            LOG.warning(message, request.id, len(line), self._most)
            return
        handle = self._open()
        try:
            size = os.fstat(handle).st_size
            if size and size + len(line) > self._most:
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
                os.close(handle)
                handle, size = self._open(), 0
            # One write: lines of two servers do not get into each other.
            written = os.write(handle, line)
            if written < len(line):  # the disk is full
                os.ftruncate(handle, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written")
        finally:
            os.close(handle)

    def _open(self) -> int:
        """The file to append to, which is its user's alone.

        Raises:
            OSError, ValueError: there is no such file.
        """
        handle = os.open(self._path, APPEND, PRIVATE_FILE)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("it is no regular file")
            if found.st_uid != os.geteuid():
                raise ValueError("it is another user's")
            if found.st_mode & OTHERS:
                os.fchmod(handle, PRIVATE_FILE)
        except BaseException:
            os.close(handle)
            raise
        return handle
