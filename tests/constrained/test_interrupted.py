"""Ctrl-C while the command line begins, SIGTERM, and readers that go away: one line, or none."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

INTERRUPT = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
threading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGINT)).start()
from constrained.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1, 1.0])
def test_an_early_interrupt_is_one_line(seconds: float) -> None:
    program = INTERRUPT.format(seconds=seconds)
    reading, writing = os.pipe()  # which nobody writes to: the command waits
    words = [sys.executable, "-c", program, "schema", "-"]
    with os.fdopen(reading) as stdin, os.fdopen(writing):
        done = subprocess.run(words, stdin=stdin, capture_output=True, timeout=60, check=False)
    said = (done.returncode, done.stdout, done.stderr)
    assert said == (130, b"", b"constrained: interrupted\n")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["formats"], ["call", "--help"]])
def test_a_closed_pipe_is_quiet(words: Sequence[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stdout:
        line = [sys.executable, "-m", "constrained", *words]
        done = subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


TERMINATE = """
import os, signal, sys
from constrained.cli import parser as cli

def run(*, start):
    start()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        print("put away")

cli.main = run
from constrained.__main__ import main
sys.exit(main())
"""


def test_sigterm_ends_what_a_command_has_begun() -> None:
    words = [sys.executable, "-c", TERMINATE]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"put away\n", b"")
