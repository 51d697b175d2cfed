"""Stopping always ends: a server in its time, and a model with its running calls."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest

from constrained.errors import ModelError
from constrained.prompt.tools.execution import Outcome
from constrained.prompt.tools.functions import FunctionTool
from server.http.server_end import EXIT_SECONDS
from tests.hostile.attacked import ROOT
from tests.scripted_model import scripted
from tests.server.started_server import start
from tests.templates import hermes_call

SLACK = 5  # seconds that a busy machine may take
BUSY = """
import sys, threading
from server.http.server_end import end_process
{work}
end_process(-1.5)
threading.Thread(target=work).start()
"""
HELD = {
    "a power": "def work(): pow(3, 10**9)",
    "a pattern": "import re\ndef work(): re.match('(a|a)*b', 'a' * 60)",
    "a sum": "def work(): sum(range(10**12))",
    "a lock": "def work(): lock = threading.Lock(); lock.acquire(); lock.acquire()",
}


@pytest.mark.parametrize("work", HELD.values(), ids=HELD)
def test_a_process_ends_whatever_its_threads_do(work: str) -> None:
    """Also where a call into a library holds the interpreter lock, or never ends."""
    words = [sys.executable, "-c", BUSY.format(work=work)]
    ended = subprocess.run(words, cwd=ROOT, timeout=30, capture_output=True, check=False)
    assert ended.returncode == 1


ENDLESS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 100_000,
    "ignore_eos": True,
}
BIASED = {**ENDLESS, "logit_bias": {str(10**9 + i): 1 for i in range(80_000)}}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_in_its_time(number: signal.Signals) -> None:
    process, port = start("-t", "1", "--drain", "0.5")

    def ask(body: Any) -> None:
        with suppress(httpx.TransportError):  # the server has ended
            httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, timeout=60)

    senders = [threading.Thread(target=ask, args=(body,)) for body in (ENDLESS, BIASED)]
    for sender in senders:
        sender.start()
    time.sleep(1)
    began = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert time.monotonic() - began < 0.5 + EXIT_SECONDS + SLACK
    for sender in senders:
        sender.join()


def test_closing_a_model_ends_its_calls() -> None:
    model = scripted("abc " * 4_000)
    errors: list[Exception] = []

    def call() -> None:
        try:
            model.call("Hi", max_repetition=10**6)
        except ModelError as error:
            errors.append(error)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    while not model.metrics().running:
        time.sleep(0.01)
    began = time.monotonic()
    model.close()
    assert time.monotonic() - began < SLACK
    for caller in callers:
        caller.join()
    told = {str(error) for error in errors}
    assert told == {"the model is closed; the request was not finished"}
    assert len(errors) == 3


def leave() -> None:
    """Leaves."""
    sys.exit("Bye.")


async def leave_later() -> None:
    """Leaves."""
    sys.exit("Bye.")


@pytest.mark.parametrize("function", [leave, leave_later])
@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_tool_cannot_end_the_program(function: Any, is_read_only: bool) -> None:
    """Also where it is called early, in a thread."""
    made = FunctionTool.from_function(function, read_only=is_read_only)
    call = hermes_call(function.__name__, "{}")
    ran = scripted(call, "Done.").run("Go.", [made])
    assert ran.content == "Done."
    assert ran.calls[0].outcome == Outcome.FAILED
    assert "SystemExit('Bye.')" in ran.calls[0].content
    again = asyncio.run(scripted(call, "Done.").arun("Go.", [made]))
    assert "SystemExit('Bye.')" in again.calls[0].content
