"""Files and folders that only their owner can read: they may contain the text of prompts."""

import os
import re
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = 0o077  # the permissions of everyone except the owner
# Opening a named pipe does not block, and opening a symbolic link fails.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def make_private(folder: Path, own: re.Pattern[str]) -> bool:
    """Creates a folder that only its owner can access, with its parents, or makes an existing one
    private. False: others can access it and it has files that do not match `own`; such a folder,
    for example /tmp, is shared, so its permissions are left as they are."""
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


def open_private(path: Path, max_bytes: int) -> BinaryIO:
    """Opens a file for reading, and makes it private. ValueError: it is not a regular file, belongs
    to another user (except root), or is too large."""
    file = os.fdopen(os.open(path, READ), "rb")
    try:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if found.st_uid not in (os.geteuid(), 0):
            raise ValueError(f"{path} belongs to another user")
        if found.st_size > max_bytes:
            raise ValueError(f"{path} is larger than the limit for all files together")
        if found.st_mode & OTHERS:
            os.fchmod(file.fileno(), PRIVATE_FILE)
    except BaseException:
        file.close()
        raise
    return file


def replace_file(path: Path, data: Sequence[bytes | memoryview]) -> None:
    """Writes a private file atomically: readers see the old file or the complete new one."""
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
