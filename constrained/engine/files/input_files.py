"""Reads input files by path. Reading always ends, even if the path is a pipe or a device: opening a
named pipe waits until another program writes, and a device such as /dev/zero has no end. A pipe
that this process was given is read: stdin, or `<(...)` of a shell."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from grammars.limits.byte_cache import MIB

MAX_BYTES = 256 * MIB
"""Of a file that is read whole, and of a line of one that is read by lines."""
PIECE = MIB
"""Bytes that are read at once: Python allocates this many, for any file."""
GIVEN = re.compile(r"/dev/stdin|(/dev|/proc/(self|thread-self|[0-9]+))/fd/[0-9]+")
"""Paths of the descriptors that this process was given, or another one of this user."""
# Do not wait for a pipe without a writer.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def open_input(path: str | os.PathLike[str], *, regular: bool = False) -> BinaryIO:
    """Opens a regular file, a device, or a pipe that this process was given; `regular`: only the
    first."""
    file = os.fdopen(os.open(path, READ | getattr(os, "O_BINARY", 0)), "rb")
    try:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if stat.S_ISREG(mode):
            return file
        is_named_pipe = stat.S_ISFIFO(mode) and not GIVEN.fullmatch(os.path.abspath(path))
        if regular or is_named_pipe:
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def read_input(path: str | os.PathLike[str]) -> bytes:
    with open_input(path) as file:
        return read_stream(file)


def read_stream(file: BinaryIO) -> bytes:
    data = bytearray()
    while piece := file.read(PIECE):
        data += piece
        if len(data) > MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES // MIB:,} MiB")
    return bytes(data)


def read_stream_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of an open file, or of stdin, each with its end."""
    number = 0
    while line := file.readline(MAX_BYTES + 1):
        number += 1
        if len(line) > MAX_BYTES:
            message = f"line {number} has more than {MAX_BYTES // MIB:,} MiB"
            raise OSError(errno.EFBIG, message)
        yield line


def begins_with(path: str | os.PathLike[str], begin: bytes) -> bool:
    """Returns whether a regular file begins with these bytes. Other files are not opened, since
    they could be read only once."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        return False
    with open_input(path, regular=True) as file:
        return file.read(len(begin)) == begin
