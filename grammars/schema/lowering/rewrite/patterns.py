"""Writes one pattern for the texts that two patterns match, or that a pattern does not match."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from grammars.limits.steps import WRITTEN, StepsError, limit_steps, spend
from grammars.regex.ecma import has_dot, translate
from grammars.regex.spelled import write_together
from grammars.regex.texts import Texts

_MAX_STEPS = 2_000  # for one pattern


class _PatternWriting:
    """The patterns that are written for one schema.

    Args:
        max_steps: the limit for all of them together.
    """

    def __init__(self, max_steps: int):
        self._left = max_steps
        self._written: dict[tuple[tuple[str, ...], tuple[str, ...]], str | None] = {}

    def write(self, matched: tuple[str, ...], excluded: tuple[str, ...]) -> str | None:
        """Returns one pattern for the texts that match the first patterns and none of the others;
        None if there is none that is short enough, or if the limit is reached."""
        spend()
        key = (matched, excluded)
        if key not in self._written:
            with limit_steps(max(0, min(self._left, _MAX_STEPS))) as account:
                self._written[key] = _write(matched, excluded)
            self._left -= account.spent
        return self._written[key]


_writing: ContextVar[_PatternWriting | None] = ContextVar("pattern writing", default=None)


@contextmanager
def limit_patterns(max_steps: int) -> Generator[None]:
    """Limits the steps for the patterns that are written inside the `with` block (0: none is
    written); no pattern is written twice. They also count for the enclosing work."""
    token = _writing.set(_PatternWriting(max_steps))
    try:
        yield
    finally:
        _writing.reset(token)


def join_patterns(a: str, b: str) -> str | None:
    """Returns a pattern for the texts that match both; None if there is none that is short
    enough, or if `limit_patterns` does not allow more."""
    return _find_writing().write((a, b), ())


def negate_pattern(pattern: str) -> str | None:
    """Returns a pattern for the texts that do not match; None if there is none that is short
    enough, if `limit_patterns` does not allow more, or if the pattern has a dot: validators differ
    in which line ends it matches, so one of them might refuse what the opposite allows."""
    if has_dot(pattern):
        return None
    return _find_writing().write((), (pattern,))


def _find_writing() -> _PatternWriting:
    return _writing.get() or _PatternWriting(_MAX_STEPS)


def _write(matched: tuple[str, ...], excluded: tuple[str, ...]) -> str | None:
    with suppress(StepsError):
        spend(1 + sum(map(len, matched + excluded)) // WRITTEN)
        parts, without = _translate_all(matched), _translate_all(excluded)
        if parts is None or without is None:
            return None
        regex = write_together(Texts(parts, without))
        return None if regex is None else f"^({regex})$"
    return None


def _translate_all(patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    regexes: list[str] = []
    for pattern in patterns:
        regex = translate(pattern)
        if regex is None:
            return None
        regexes.append(regex)
    return tuple(regexes)
