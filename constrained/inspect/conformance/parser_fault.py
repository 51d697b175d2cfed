"""The failures of parsers as findings: the kinds of faults, and results as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from constrained.inspect.conformance.fault_kind import FaultKind, compare_calls
from grammars.schema.json_values import Json
from grammars.suite.parser_output import BrokenParser, Reading
from grammars.suite.reading import (
    WORDS,
    Claims,
    ParserFailure,
    are_same_calls,
    is_same,
)


class BrokenAnswer(BrokenParser):
    """The parser gives no answer, or an invalid one.

    Args:
        message: what is wrong.
        kind: its kind.
    """

    def __init__(self, message: str, kind: FaultKind):
        super().__init__(message)
        self.kind = kind


def find_kinds(failure: ParserFailure, claims: Claims) -> list[FaultKind]:
    """Returns the kinds of faults in a failure of a parser with these claims."""
    return [*_find_kinds(failure, claims)] or [FaultKind.OTHER]


def _find_kinds(failure: ParserFailure, claims: Claims) -> Iterator[FaultKind]:
    if failure.got is None:
        yield _find_cause(failure)
        return
    match failure.wanted, failure.got:
        case Reading() as wanted, Reading() as got:
            yield from compare_readings(wanted, got, claims)
        case Reading(), list():
            yield FaultKind.STREAM
        case list(), list():
            calls = cast("list[tuple[str, Any]]", failure.wanted)
            yield from compare_calls(calls, cast("list[tuple[str, Any]]", failure.got))
        case None, Reading() as got:
            yield from _compare_words(failure.text, got)
        case _:
            pass


def _find_cause(failure: ParserFailure) -> FaultKind:
    """Returns the kind of a failure without a result."""
    match failure.__cause__:
        case BrokenAnswer(kind=kind):
            return kind
        case BrokenParser():
            return FaultKind.FORM
        case _ if failure.is_refusal:
            return FaultKind.REFUSAL
        case _ if not failure.pieces:  # no text fails each time
            return FaultKind.UNSTABLE
        case _:
            return FaultKind.ERROR


def compare_readings(wanted: Reading, got: Reading, claims: Claims) -> Iterator[FaultKind]:
    """Yields the kinds of differences between two readings.

    Args:
        wanted, got: the expected and the actual reading.
        claims: what the parser claims to do.
    """
    if not is_same(Reading(content=wanted.content), Reading(content=got.content), claims):
        yield FaultKind.CONTENT if got.content.strip() else FaultKind.NO_CONTENT
    if not is_same(Reading(reasoning=wanted.reasoning), Reading(reasoning=got.reasoning), claims):
        yield FaultKind.REASONING if got.reasoning.strip() else FaultKind.NO_REASONING
    if not are_same_calls(wanted.calls, got.calls, claims):
        yield from compare_calls(wanted.calls, got.calls)


def _compare_words(text: str, got: Reading) -> Iterator[FaultKind]:
    read = "\n".join(got.texts)
    if any(read.count(word) < text.count(word) for word in WORDS):
        yield FaultKind.LOST_TEXT
    if any(read.count(word) > text.count(word) for word in WORDS):
        yield FaultKind.REPEATED_TEXT


def show(value: object) -> Any:
    """Returns a reading, calls or events as JSON."""
    match value:
        case Reading():
            shown: dict[str, Any] = {"content": value.content}
            if value.reasoning:
                shown["reasoning"] = value.reasoning
            return shown | {"calls": _show_calls(value.calls)}
        case list():
            return [_show_item(item) for item in value]
        case _:
            return value


def _show_item(item: object) -> Any:
    if isinstance(item, tuple):
        return _show_calls([item])[0]
    return {"event": type(item).__name__, **vars(item)}


def _show_calls(calls: Sequence[tuple[str, Any]]) -> list[Json]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]
