"""Kept processes: questions are answered in another process, whatever they take. What cannot be
interrupted in this process, and comes from somebody who is not trusted, is done in another one. The
operating system limits its memory and its time, and it can be killed: so no answer takes more than
that, however it is computed. It is started with the first question and kept for the next ones.
Questions and answers are JSON."""

import atexit
import contextvars
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from typing import Any, cast

from constrained.limits.answering import read_message, write_message
from constrained.limits.process_limits import MIB
from grammars.limits.steps import check_wanted

LOG = logging.getLogger(__name__)
MAX_ANSWER = 16 * MIB
MAX_PROCESSES = 3  # so that a slow question does not keep others waiting
PATIENCE = 0.05  # seconds to wait for a busy process before another one is started
CHECKS = 0.1  # seconds between two checks whether an answer is still wanted
KEPT_SECONDS = 10.0  # until processes that have nothing to do end, all but one
SLOW = 0.5  # seconds after which a question leaves the processors to others
YIELDING = 10  # the niceness of its process then
SLOWER = 3
"""The time of a question on the clock, in multiples of its processor time: others compute too."""
_START = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
importlib.import_module(sys.argv[2]).main()
"""


class ProcessLimitError(Exception):
    """A question took more than it may (`is_late`: time), or ended the process."""

    def __init__(self, reason: str, *, is_late: bool = False):
        super().__init__(reason)
        self.is_late = is_late


class NoProcessError(Exception):
    """This program cannot start another Python: it is embedded in another program, for example, or
    a single frozen file."""


class _Process:
    """A running process, which answers one question at a time. Raises NoProcessError."""

    def __init__(self, module: str):
        if not sys.executable or getattr(sys, "frozen", False):
            raise NoProcessError("there is no Python to start")
        self._process = subprocess.Popen(
            # Without the environment and the folder of this program, which could change what is
            # imported; the folders of modules are those of this process.
            [sys.executable, "-I", "-c", _START, json.dumps(sys.path), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which then closes the other one
        )
        self._lock = threading.Lock()
        self._seconds, self._begun_at, self._ends_at = 0.0, 0.0, 0.0
        self._context: contextvars.Context | None = None  # of the current question
        self._given_up: Exception | None = None
        self._is_spent = False
        try:
            if self._read(0) is None:
                raise NoProcessError(f"{sys.executable} cannot be started as Python")
        except BaseException:
            self.close()
            raise

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def is_kept(self) -> bool:
        """Whether another question finds the process as good as new: neither slowed down, nor with
        its memory in use."""
        return self.is_running and not self._is_spent

    def ask(self, question: Any, seconds: float) -> Any:
        """Returns the answer. ProcessLimitError: the process was ended; ask another one. Also
        raises what `check_wanted` raises."""
        data = write_message({"seconds": seconds, "question": question})
        with self._lock:
            self._seconds, self._begun_at = seconds, time.monotonic()
            self._ends_at = self._begun_at + SLOWER * seconds
            self._context = contextvars.copy_context()
        try:
            answer = self._exchange(data)
        except BaseException:  # such as Ctrl-C: what comes next is no answer to the next question
            self.close()
            raise
        finally:
            with self._lock:
                self._context = None
        if "answer" in answer:
            self._is_spent = self._is_spent or bool(answer["is_large"])
            return answer["answer"]
        self.close()
        if self._given_up is not None:
            raise self._given_up
        raise self._explain(answer["exceeded"])

    def _exchange(self, data: bytes) -> dict[str, Any]:
        """Sends a question, and returns the answer, or what the process exceeded, if it says so."""
        found = None
        with suppress(OSError):
            stdin = cast(Any, self._process.stdin)
            stdin.write(data)
            stdin.flush()
            found = self._read(MAX_ANSWER)
        return {"exceeded": ""} if found is None else json.loads(found)

    def _read(self, max_bytes: int) -> bytes | None:
        """Returns the next message of the process; None: there is none, or it is too long."""
        try:
            return read_message(cast(Any, self._process.stdout), max_bytes)
        except OverflowError:
            return None

    def check(self) -> None:
        """Kills the process if its answer is late or not wanted any more, and slows it down if it
        takes long. Called by another thread than `ask`, which then notices the end of the
        process."""
        with self._lock:
            if self._context is None:
                return
            try:
                self._context.copy().run(check_wanted)
            except Exception as e:
                self._given_up = e
            now = time.monotonic()
            if self._given_up is not None or now > self._ends_at:
                self._process.kill()
            elif now > self._begun_at + SLOW and not self._is_spent and hasattr(os, "setpriority"):
                self._is_spent = True
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._process.pid, YIELDING)

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast(Any, stream).close()
        self._process.wait()

    def _explain(self, exceeded: str) -> ProcessLimitError:
        code = self._process.returncode
        is_late = time.monotonic() > self._ends_at or code == -getattr(signal, "SIGXCPU", 0)
        if exceeded:
            return ProcessLimitError("more memory than it may")
        if is_late:
            return ProcessLimitError(f"more than {self._seconds:g} seconds", is_late=True)
        if code is not None and code < 0 and code != -signal.SIGKILL:
            name = signal.Signals(-code).name
            return ProcessLimitError(f"too much: its process ended with {name}")
        return ProcessLimitError("more memory or time than it may")


class KeptProcesses:
    """Answers questions in a few processes, which are started when they are needed. For several
    threads. One process is kept, the others end when there is nothing to do for some time. The
    `main` of the module calls `answer_questions` with its `answer`."""

    def __init__(self, module: str):
        self._module = module
        self._forget()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, question: Any, seconds: float) -> Any:
        """Returns the answer to a question, which is JSON data and may take so many seconds of
        processor time. ProcessLimitError: it takes more than it may; NoProcessError: there can be
        no other process. Also raises what `check_wanted` raises, while it waits."""
        process = self._take()
        try:
            return process.ask(question, seconds)
        finally:
            self._give_back(process)

    def ask_even_here(self, question: Any, seconds: float) -> Any:
        """As `ask`; if there can be no other process, answers in this one, without limits, with a
        warning in the log."""
        try:
            return self.ask(question, seconds)
        except NoProcessError as e:
            _warn(self._module, str(e))
            # Else only the process imports it.
            return importlib.import_module(self._module).answer(question)

    def _take(self) -> _Process:
        with self._changed:
            if not self._idle and self._busy:
                self._changed.wait(PATIENCE)
            while not self._idle and len(self._busy) >= MAX_PROCESSES:
                check_wanted()
                self._changed.wait(CHECKS)
            process = self._idle.pop() if self._idle else _Process(self._module)
            if not process.is_running:  # somebody else has ended it
                process.close()
                process = _Process(self._module)
            self._busy.add(process)
            self._changed.notify_all()  # the watching thread
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="isolation", daemon=True).start()
            return process

    def _give_back(self, process: _Process) -> None:
        with self._changed:
            self._busy.discard(process)
            if process.is_kept:
                self._idle.append(process)
            else:
                process.close()
            self._changed.notify_all()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._busy:
                    if not self._changed.wait(KEPT_SECONDS if len(self._idle) > 1 else None):
                        self._close_idle(1)
                busy = [*self._busy]
            for process in busy:
                process.check()
            time.sleep(CHECKS)

    def close(self) -> None:
        """Ends the processes that answer nothing."""
        with self._changed:
            self._close_idle(0)

    def _close_idle(self, kept: int) -> None:
        while len(self._idle) > kept:
            self._idle.pop(0).close()

    def _forget(self) -> None:
        """Begins without processes; those of the process that this one is a fork of are not its
        own."""
        self._foreign = [*getattr(self, "_idle", ()), *getattr(self, "_busy", ())]
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._is_watched = False


@cache
def _warn(module: str, reason: str) -> None:
    LOG.warning("%s runs in this process, without limits: %s", module, reason)
