"""The other side of `kept_process`: a process that answers questions until its input ends."""

import json
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from constrained.limits.process_limits import (
    limit_memory,
    limit_seconds,
    measure_memory,
)

_LENGTH = struct.Struct(">Q")
"""How the length of a message in bytes stands before it."""


def answer_questions(answer: Callable[[Any], Any], memory: int) -> None:
    """Reads questions from stdin and writes answers to stdout, as JSON; errors that `answer` raises
    end the process. `memory`: the bytes that the answers may take.

    The first message is empty: it says that the process has started. A question is `{seconds,
    question}`; an answer `{answer, is_large}`, or `{exceeded}` with the limit that it exceeded.
    `is_large` says that what the answers have left in memory would be missing for the next ones.
    Where the system cannot limit a process, the asking process kills it in time.
    """
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed by accident is no answer
    with suppress(ImportError):
        limit_memory(memory)
    answers.write(_LENGTH.pack(0))
    answers.flush()
    small = measure_memory() + memory // 2
    while (data := read_message(questions, sys.maxsize)) is not None:
        try:
            given = json.loads(data)
            del data
            with suppress(ImportError):
                limit_seconds(given["seconds"])
            found: dict[str, Any] = {"answer": answer(given.pop("question"))}
            found["is_large"] = measure_memory() > small
            written = write_message(found)
        except MemoryError:
            written = write_message({"exceeded": "memory"})
        found = {}
        answers.write(written)
        answers.flush()
        del written


def write_message(value: Any) -> bytes:
    # Without escapes, which are longer. Half a character stays what it is.
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(data)) + data


def read_message(stream: BinaryIO, max_bytes: int) -> bytes | None:
    """Returns the next message; None: there is none, or the stream ends within it. OverflowError:
    it has more bytes than allowed; the rest of the stream cannot be read then."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > max_bytes:
        raise OverflowError(f"a message of {length:,} bytes")
    data = stream.read(length)
    return data if len(data) == length else None
