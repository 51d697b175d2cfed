"""A program at a terminal: what a user types, and what is shown."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parent.parent
PASTE_MODE = re.compile(r"\x1b\[\?2004(h|l\r?)")  # pastes are marked from now on, or not
PATIENCE = 60.0  # seconds that a program may be silent
# The terminal becomes that of the new session because it is the first that the process opens. A
# shell's background jobs ignore Ctrl-C, and so do the programs that they start.
TAKE = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "fd = os.open(sys.argv[1], os.O_RDWR)\n"
    "for number in (0, 1, 2): os.dup2(fd, number)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


class Terminal:
    """Runs `python ARGUMENTS` at a terminal of its own. Also a context manager, which ends it."""

    def __init__(self, *arguments: str, **environment: str):
        self._fd, self._theirs = os.openpty()
        known = {
            k: v for k, v in os.environ.items() if not k.startswith(("LLAMA_ARG_", "NO_COLOR"))
        }
        known |= {"TERM": "xterm", "LLAMA_ARG_THREADS": "1", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE, os.ttyname(self._theirs), *arguments],
            cwd=ROOT,
            env=known,
            start_new_session=True,
        )
        self.shown = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._fd)
        os.close(self._theirs)

    def type(self, text: str) -> None:
        """Types: "\\x03" is Ctrl-C, "\\x04" Ctrl-D, "\\r" the return key.

        Wait for the prompt first: keys that come before it are read in another mode.
        """
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> str:
        """Waits until this is shown after all that was waited for; returns what came up to it."""
        while text not in self.shown:
            if not self._read():
                raise AssertionError(f"{text!r} is not shown: {self.shown!r}")
        before, found, self.shown = self.shown.partition(text)
        return before + found

    def wait_for_some(self, count: int) -> None:
        """Waits until so many characters more are shown."""
        while len(self.shown) < count:
            if not self._read():
                raise AssertionError(f"there is no more than {self.shown!r}")

    def interrupt(self, text: str) -> None:
        """Types Ctrl-C until this is shown: Python overlooks one between two reads of a line."""
        for _ in range(6):
            self.type("\x03")
            end = time.monotonic() + PATIENCE / 6
            while text not in self.shown and time.monotonic() < end:
                self._read(0.1)
            if text in self.shown:
                break
        self.wait_for(text)

    def wait(self) -> int:
        """Waits for the end of the program; returns its code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self, patience: float = PATIENCE) -> bool:
        """Takes note of what is shown next; False if nothing comes."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if select.select([self._fd], [], [], 0.1)[0]:
                self.shown += os.read(self._fd, 65536).decode("utf-8", "replace")
                self.shown = PASTE_MODE.sub("", self.shown)
                return True
            if self.process.poll() is not None:
                return False
        return False
