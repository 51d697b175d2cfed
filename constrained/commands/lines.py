"""The lines that a user types at a terminal, or that come through a pipe."""

import sys
from contextlib import suppress

from constrained.errors import RequestError


class Lines:
    """Lines of stdin. At a terminal they can be edited, and earlier ones come back with the arrows.

    `is_typed`: there is a terminal on both sides, so somebody sees prompts and can interrupt.
    """

    def __init__(self) -> None:
        self.is_typed = sys.stdin.isatty() and sys.stdout.isatty()
        if self.is_typed:
            with suppress(ImportError):  # as on Windows, whose terminals edit lines themselves
                import readline  # noqa: F401  # `input` edits with it

    def read(self, prompt: str) -> str:
        """The next line, without its end.

        Raises:
            EOFError: there are no more.
            RequestError: it is not UTF-8, or whatever the terminal speaks.
        """
        try:
            return _ask(prompt) if self.is_typed else _read_piped()
        except UnicodeDecodeError as e:
            raise RequestError(f"the line is not {e.encoding.upper()}: {e.reason}") from e


def _ask(prompt: str) -> str:
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        print()  # leaves the line of the prompt
        raise


def _read_piped() -> str:
    line = sys.stdin.buffer.readline()  # decoded by itself, so that a bad one spoils no other
    if not line:
        raise EOFError
    return line.decode("utf-8-sig").rstrip("\r\n")
