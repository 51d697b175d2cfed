"""Writes one pattern for the texts that two patterns match, or that a pattern does not match."""

from grammars.regex.ecma import translate
from grammars.regex.spelled import write_together
from grammars.regex.texts import Texts


def join_patterns(a: str, b: str) -> str | None:
    """Returns a pattern for the texts that match both; None if there is none that is short
    enough."""
    first, second = translate(a), translate(b)
    if first is None or second is None:
        return None
    return _write(Texts((first, second)))


def negate_pattern(pattern: str) -> str | None:
    """Returns a pattern for the texts that do not match; None if there is none that is short
    enough, or if the pattern has a dot: validators differ in which line ends it matches, so one of
    them might refuse what the opposite allows."""
    regex = translate(pattern)
    if regex is None or "." in pattern.replace(r"\.", ""):
        return None
    return _write(Texts((), (regex,)))


def _write(texts: Texts) -> str | None:
    regex = write_together(texts)
    return None if regex is None else f"^({regex})$"
