"""Files and folders that are their user's alone: what is in them may be what others have said."""

import os
import re
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = 0o077  # the permissions of all but the owner
# A file of no end to read is not waited for, and a link is not followed.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def make_private(folder: Path, own: re.Pattern[str]) -> bool:
    """Makes a folder that others cannot use, also where it was there; False if others may use it
    and it holds other files than those of these names. Such a folder, as /tmp, is left to them.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not os.fstat(handle).st_mode & OTHERS:
            return True
        if not all(own.match(name) for name in os.listdir(handle)):
            return False
        os.fchmod(handle, PRIVATE_FOLDER)
    finally:
        os.close(handle)
    return True


def open_private(path: Path, most: int) -> BinaryIO:
    """A file to read; raises OSError or ValueError if it is none that may be read.

    Args:
        path: of the file.
        most: bytes that it may have.
    """
    file = os.fdopen(os.open(path, READ), "rb")
    try:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is no regular file")
        if found.st_uid not in (os.geteuid(), 0):
            raise ValueError(f"{path} is another user's")
        if found.st_size > most:
            raise ValueError(f"{path} is larger than all files together may be")
        if found.st_mode & OTHERS:
            os.fchmod(file.fileno(), PRIVATE_FILE)
    except BaseException:
        file.close()
        raise
    return file


def replace_file(path: Path, data: Sequence[bytes | memoryview]) -> None:
    """Writes a file, private to the user: others see the whole of it or what was there before.

    Raises:
        OSError: it cannot be written.
    """
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
