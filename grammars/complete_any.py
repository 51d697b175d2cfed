"""Reads the beginning of any JSON value, and ends it in the shortest way.

Without recursion: nothing bounds the depth of such a value.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from grammars.complete_scalar import Fit, fit_string, fit_words, join
from grammars.languages import Language
from grammars.wire import JsonStyle

Step: TypeAlias = "Callable[[], Step | Fit]"
_DIGITS = re.compile(r"[-+.0-9eE]+")
_CLOSERS = {"[": "]", "{": "}"}


class AnyReader:
    """Reads one value.

    Args:
        text: what it stands in.
        style: how JSON is spelled.
        number: how numbers are spelled.
    """

    def __init__(self, text: str, style: JsonStyle, number: Language):
        self._text = text
        self._style = style
        self._number = number
        self._at = 0
        self._closers = ""  # of the lists and objects that are open, the innermost first

    def read(self, at: int) -> Fit:
        """Reads the value that begins at that index."""
        self._at, self._closers = at, ""
        step: Step | Fit = self._value
        while callable(step):
            step = step()
        return step

    def _value(self) -> "Step | Fit":
        if self._at == len(self._text):
            return "0" + self._closers
        opener = self._text[self._at]
        if opener in _CLOSERS:
            self._closers = _CLOSERS[opener] + self._closers
            self._at += 1
            return self._first
        return self._go_on(self._scalar(opener), self._after)

    def _scalar(self, first: str) -> Fit:
        if first == '"':
            return fit_string(self._text, self._at)
        if first not in "-0123456789":
            return fit_words(self._text, self._at, "true", "false", "null")
        digits, whole = read_digits(self._text, self._at)
        return self._at + len(digits) if whole else self._number.extend(digits)

    def _first(self) -> "Step | Fit":
        """Behind an opening bracket."""
        if self._text[self._at : self._at + 1] in ("", self._closers[0]):
            return self._after
        return self._value if self._closers[0] == "]" else self._key

    def _after(self) -> "Step | Fit":
        """Behind a value, or where there need not be one."""
        if not self._closers:
            return self._at
        if self._at == len(self._text):
            return self._closers
        if self._text[self._at] == self._closers[0]:
            self._at, self._closers = self._at + 1, self._closers[1:]
            return self._after
        fit = fit_words(self._text, self._at, self._style.item)
        if self._closers[0] == "]":
            return self._go_on(fit, self._value, "0")
        return self._go_on(fit, self._key, f'""{self._style.key}0')

    def _key(self) -> "Step | Fit":
        if self._at == len(self._text):
            return f'""{self._style.key}0{self._closers}'
        return self._go_on(fit_string(self._text, self._at), self._colon, f"{self._style.key}0")

    def _colon(self) -> "Step | Fit":
        fit = fit_words(self._text, self._at, self._style.key)
        return self._go_on(fit, self._value, "0")

    def _go_on(self, fit: Fit, step: Step, rest: str = "") -> "Step | Fit":
        """Goes on behind what was read; or ends it, with `rest`, and all that is open."""
        if isinstance(fit, int):
            self._at = fit
            return step
        return join(fit, rest, self._closers)


def read_digits(text: str, at: int) -> tuple[str, bool]:
    """The characters of a number, and whether the text goes on behind it."""
    match = _DIGITS.match(text, at)
    digits = match.group() if match else ""
    return digits, at + len(digits) < len(text)
