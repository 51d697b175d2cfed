"""Reads the beginning of any value, and ends it in the shortest way.

Without recursion: nothing bounds the depth of such a value.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from grammars.complete.scalar import Fit, fit_words, join
from grammars.complete.shortest import Shortest
from grammars.schema.nodes import Number, Object, String
from grammars.spelling.styles import Breaks

Step: TypeAlias = "Callable[[], Step | Fit]"
_DIGITS = re.compile(r"[-+.0-9eE]+")
_CLOSERS = {"[": "]", "{": "}"}
_STRING, _NUMBER, _OBJECT = String(), Number(), Object()


class AnyReader:
    """Reads one value.

    Args:
        text: what it stands in.
        shortest: the shortest texts in the style.
    """

    def __init__(self, text: str, shortest: Shortest):
        self._text = text
        self._shortest = shortest
        self._style = shortest.style
        self._keys = shortest.layout(_OBJECT).keys
        self._at = 0
        self._closers = ""  # of the lists and objects that are open, the innermost first
        self._levels: list[int] = []  # of the same, the innermost last; then that of the value

    def read(self, at: int, level: int) -> Fit:
        """Reads the value on that level that begins at that index."""
        self._at, self._closers, self._levels = at, "", [level]
        step: Step | Fit = self._value
        while callable(step):
            step = step()
        return step

    def _breaks(self) -> Breaks:
        """What stands between the parts of the innermost list or object."""
        return self._shortest.breaks(self._levels[-2])

    def _close(self, *, empty: bool = False) -> str:
        """The end of all that is open; `empty`: nothing stands in the innermost."""
        pairs = zip(self._closers, reversed(self._levels[:-1]), strict=True)
        parts = [self._shortest.breaks(level).close + closer for closer, level in pairs]
        return "".join([self._closers[:1], *parts[1:]] if empty else parts)

    def _value(self) -> "Step | Fit":
        if self._at == len(self._text):
            return "0" + self._close()
        opener = self._text[self._at]
        if opener in _CLOSERS:
            self._closers = _CLOSERS[opener] + self._closers
            self._levels.append(self._shortest.inside(self._levels[-1]))
            self._at += 1
            return self._first
        return self._go_on(self._scalar(opener), self._after)

    def _scalar(self, first: str) -> Fit:
        if self._shortest.strings.begins(self._text, self._at):
            return self._shortest.strings.fit(self._text, self._at, _STRING)
        if first not in "-0123456789":
            style = self._style
            return fit_words(self._text, self._at, *style.true, *style.false, *style.null)
        digits, whole = read_digits(self._text, self._at)
        language = self._shortest.language(_NUMBER)
        return self._at + len(digits) if whole else language.extend(digits)

    def _first(self) -> "Step | Fit":
        """Behind an opening bracket."""
        if self._at == len(self._text):
            return self._close(empty=True)
        if self._text[self._at] == self._closers[0]:
            return self._leave()
        return self._begin(self._breaks().open)

    def _leave(self) -> "Step | Fit":
        """Behind the closing bracket at this index."""
        self._at, self._closers = self._at + 1, self._closers[1:]
        self._levels.pop()
        return self._after

    def _after(self) -> "Step | Fit":
        """Behind a value."""
        if not self._closers:
            return self._at
        breaks = self._breaks()
        self._at = skip_space(self._text, self._at, breaks)
        if self._at == len(self._text):
            return self._close()
        if self._text[self._at] == breaks.item[:1]:
            return self._begin(breaks.item)
        fit = fit_words(self._text, self._at, breaks.close + self._closers[0])
        if isinstance(fit, int):
            self._at = fit - 1
            return self._leave()
        return None if fit is None else fit + self._close()[len(breaks.close) + 1 :]

    def _begin(self, before: str) -> "Step | Fit":
        """Reads what stands in front of an item or member, and goes on to that."""
        fit = fit_words(self._text, self._at, before)
        if isinstance(fit, int):
            fit = skip_space(self._text, fit, self._breaks())
        if self._closers[0] == "]":
            return self._go_on(fit, self._value, "0")
        return self._go_on(fit, self._key, self._member())

    def _member(self) -> str:
        """The shortest member."""
        return f"{self._keys.extend('')}{self._style.key}0"

    def _key(self) -> "Step | Fit":
        if self._at == len(self._text):
            return self._member() + self._close()
        end = self._keys.find_end(self._text, self._at)
        fit = self._keys.extend(self._text[self._at :]) if end is None else end
        return self._go_on(fit, self._colon, f"{self._style.key}0")

    def _colon(self) -> "Step | Fit":
        fit = fit_words(self._text, self._at, self._style.key)
        return self._go_on(fit, self._value, "0")

    def _go_on(self, fit: Fit, step: Step, rest: str = "") -> "Step | Fit":
        """Goes on behind what was read; or ends it, with `rest`, and all that is open."""
        if isinstance(fit, int):
            self._at = fit
            return step
        return join(fit, rest, self._close())


def read_digits(text: str, at: int) -> tuple[str, bool]:
    """The characters of a number, and whether the text goes on behind it."""
    match = _DIGITS.match(text, at)
    digits = match.group() if match else ""
    return digits, at + len(digits) < len(text)


def skip_space(text: str, at: int, breaks: Breaks) -> int:
    """The index behind white space that any amount of may stand there."""
    while breaks.loose and text[at : at + 1] in ("\n", " "):
        at += 1
    return at
