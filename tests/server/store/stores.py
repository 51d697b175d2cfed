"""Stores for tests: a file, and a Redis of our own where the machine has one."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from server.errors import StoreError
from server.models.shared_store import SharedStore
from server.store.store_address import open_store

SECONDS = 15


@contextmanager
def run_redis(folder: Path) -> Iterator[str]:
    """A Redis server; its address."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server: apt-get install redis-server")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen([*words, "--dir", str(folder)], stdout=subprocess.DEVNULL) as process:
        try:
            address = f"redis://127.0.0.1:{port}"
            _wait(address)
            yield address
        finally:
            process.terminate()


def _wait(address: str) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            open_store(address).close()
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def open_two(address: str) -> tuple[SharedStore, SharedStore]:
    """The same store, as two processes have it."""
    return open_store(address), open_store(address)
