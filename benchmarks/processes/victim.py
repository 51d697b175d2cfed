"""A client that asks for the same again and again. It is a process of its own, so that what a
benchmark computes meanwhile does not keep it waiting."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import httpx

SECONDS = 60.0  # a request that takes longer is not answered
PAUSE = 0.02  # seconds between two requests
_CONTEXT = get_context("spawn")


class Victim:
    """The process; it has ended where a method raises an EOFError.

    Args:
        pipe: to the process.
    """

    def __init__(self, pipe: Connection):
        self._pipe = pipe

    def start(self) -> None:
        """Lets it ask, and waits until it does."""
        self._pipe.send(None)
        self._pipe.recv()

    def stop(self) -> float:
        """Returns the longest time of a request since the start in seconds; inf: one was not
        answered. At least one request is measured."""
        self._pipe.send(None)
        return self._pipe.recv()


@contextmanager
def run_victim(url: str, key: str, body: Any = None) -> Iterator[Victim]:
    """Runs a victim until the block ends.

    Args:
        url: of the server.
        key: its API key.
        body: of the chat that it asks for; None: it asks for /health.
    """
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_run, args=(theirs, url, key, body), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Victim(ours)
    finally:
        process.terminate()


def _run(pipe: Connection, url: str, key: str, body: Any) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as client:
        while True:
            pipe.recv()
            pipe.send(None)
            worst = 0.0
            while True:
                worst = max(worst, _measure(client, body))
                if pipe.poll(PAUSE):
                    break
            pipe.recv()
            pipe.send(worst)


def _measure(client: httpx.Client, body: Any) -> float:
    began = time.monotonic()
    try:
        if body is None:
            client.get("/health").raise_for_status()
        else:
            client.post("/v1/chat/completions", json=body).raise_for_status()
    except httpx.HTTPError:
        return math.inf
    return time.monotonic() - began
