"""Functions that run in processes of their own, which import this module and nothing else of the
tests."""

import asyncio
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Point:
    x: int


def act(how: str) -> object:
    """Does what is asked of it."""
    match how:
        case "pid":
            return os.getpid()
        case "object":
            return Point(x=1)
        case "raise":
            raise ValueError("wrong")
        case "memory":
            return len(bytearray(1024 * 2**20))
        case "crash":
            return ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case _:
            return how


async def act_later(how: str) -> str:
    await asyncio.sleep(0)
    return how


async def count(how: str) -> AsyncIterator[str]:
    for letter in how:
        yield letter


def wait(path: str) -> None:
    """Starts another process, and waits for ever."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(path).write_text(str(child.pid))
    time.sleep(60)
