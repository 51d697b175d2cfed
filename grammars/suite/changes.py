"""What is different between what a text means and what a parser reads from it, in plain words."""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, cast

from grammars.suite.parser_output import BrokenParser, Reading
from grammars.suite.reading import Claims, ParserFailure, are_same_calls, is_same
from grammars.wire.format import squeeze

Call: TypeAlias = tuple[str, Any]


class Severity(StrEnum):
    """What a fault costs the user, the worst first."""

    CALL = "a call is lost, added or cannot be run"
    VALUE = "a wrong value"
    TEXT = "text is lost or wrong"
    ORDER = "order, ids or events of the stream"


class ChangeKind(StrEnum):
    """What happened to a call, a value or a text."""

    ERROR = "error"
    REFUSAL = "refusal"
    NO_ANSWER = "no answer"
    CRASH = "crash"
    FORM = "form of the answer"
    UNSTABLE = "not the same each time"
    CALL_LOST = "a call is lost"
    CALL_AS_TEXT = "a call stays in the text"
    REPEAT_LOST = "a repeated call is lost"
    CALL_ADDED = "a call is added"
    CALL_TWICE = "a call is reported twice"
    THOUGHT_CALLED = "a call in the reasoning is reported"
    CALL_ORDER = "the calls are in another order"
    NAME = "a call has another name"
    NO_OBJECT = "the arguments of a call are no JSON object"
    ARGUMENT_LOST = "an argument is lost"
    NULL_LOST = "an argument that is null is lost"
    ARGUMENT_ADDED = "an argument is added"
    BECAME_TEXT = "a value becomes text"
    TEXT_BECAME = "a text becomes another value"
    OTHER_TYPE = "a value has another type"
    OTHER_VALUE = "a value is another one"
    STRIPPED = "white space at the ends is lost"
    PADDED = "white space at the ends is added"
    SPACED = "white space inside is changed"
    CUT = "the end is lost"
    HEADLESS = "the start is lost"
    TEXT_LOST = "all of it is lost"
    ESCAPED = "escapes are changed"
    CHARACTERS = "characters beyond ASCII are changed"
    TEXT_ADDED = "text is added"
    OTHER_TEXT = "it is another text"
    CUT_CALL = "a call that was not written like that is reported"
    CALLS_LATE = "text that stands before a call comes after it"
    WORD_LOST = "text is lost"
    WORD_REPEATED = "text is read twice"
    SHARED_INDEX = "two calls have one index"
    WRONG_INDEX = "the calls are not counted from 0"
    STREAM = "events of the stream"


Kinds = ChangeKind
_ORDERED = (Kinds.CALL_ORDER, Kinds.WRONG_INDEX, Kinds.STREAM, Kinds.FORM, Kinds.CALLS_LATE)
_WORDS = (Kinds.WORD_LOST, Kinds.WORD_REPEATED)
_CALLS = frozenset(list(Kinds)[: list(Kinds).index(Kinds.CALL_ORDER)]) | {
    Kinds.NAME,
    Kinds.NO_OBJECT,
    Kinds.CUT_CALL,
    Kinds.SHARED_INDEX,  # clients take both calls for one
}
_NO_RESULTS = frozenset(list(Kinds)[: list(Kinds).index(Kinds.CALL_LOST)])
_LOSSES = frozenset(
    {
        Kinds.CALL_LOST,
        Kinds.CALL_AS_TEXT,
        Kinds.REPEAT_LOST,
        Kinds.ARGUMENT_LOST,
        Kinds.CUT,
        Kinds.HEADLESS,
        Kinds.TEXT_LOST,
        Kinds.OTHER_TEXT,
        Kinds.WORD_LOST,
    }
)
_REPEATS = frozenset(
    {Kinds.CALL_TWICE, Kinds.CUT_CALL, Kinds.NO_OBJECT, Kinds.TEXT_ADDED, Kinds.WORD_REPEATED}
)

_IMPLIED = {Kinds.CUT: Kinds.STRIPPED, Kinds.SHARED_INDEX: Kinds.WRONG_INDEX}
"""What a fault of a kind is in other texts: an end that is lost may be white space."""

SPECIFIC = frozenset(
    {
        Kinds.REPEAT_LOST,
        Kinds.THOUGHT_CALLED,
        Kinds.NULL_LOST,
        Kinds.BECAME_TEXT,
        Kinds.TEXT_BECAME,
        Kinds.STRIPPED,
        Kinds.PADDED,
        Kinds.ESCAPED,
        Kinds.CHARACTERS,
        Kinds.CALL_ORDER,
        Kinds.NO_ANSWER,
        Kinds.CRASH,
        Kinds.FORM,
        Kinds.UNSTABLE,
        Kinds.SHARED_INDEX,
        Kinds.WRONG_INDEX,
        Kinds.CUT_CALL,
        Kinds.WORD_LOST,
        Kinds.WORD_REPEATED,
    }
)
"""Kinds that say enough: two failures of one of these have one cause, whatever the text is."""


@dataclass(frozen=True)
class Change:
    """A difference."""

    kind: ChangeKind
    # Of what: "argument", "content", "reasoning"; the kind and the place of an error; "" for calls.
    place: str = ""

    @property
    def is_specific(self) -> bool:
        """Whether two failures with this change have one cause, whatever the text is."""
        return self.kind in SPECIFIC or self.is_located

    @property
    def is_located(self) -> bool:
        """Whether it is an error in a line that is known."""
        return self.kind is Kinds.ERROR and self.place.startswith("line ")

    @property
    def severity(self) -> Severity:
        if self.kind in _CALLS:
            return Severity.CALL
        if self.kind in _ORDERED:
            return Severity.ORDER
        if self.kind in _WORDS or self.place in ("content", "reasoning"):
            return Severity.TEXT
        return Severity.VALUE

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}" if self.place else str(self.kind)


def find_changes(failure: ParserFailure, claims: Claims) -> tuple[Change, ...]:
    """Returns the differences that a failure consists of, the most severe ones first."""
    match failure.wanted, failure.got:
        case _, None:
            found = [_find_error(failure)]
        case Reading() as wanted, Reading() as got:
            found = list(compare_readings(wanted, got, claims))
        case Reading(), list():
            is_named = failure.what in (Kinds.SHARED_INDEX, Kinds.WRONG_INDEX, Kinds.CALLS_LATE)
            named = Change(Kinds(failure.what)) if is_named else Change(Kinds.STREAM, failure.what)
            found = [named]
        case list(), list():
            found = [Change(Kinds.CUT_CALL)]
        case _:
            repeats = "read again" in failure.what
            found = [Change(Kinds.WORD_REPEATED if repeats else Kinds.WORD_LOST)]
    order = list(Severity)
    return tuple(sorted(dict.fromkeys(found), key=lambda change: order.index(change.severity)))


def _find_error(failure: ParserFailure) -> Change:
    """Returns what a failure without a result is. Errors at one line of a parser have one cause."""
    error = failure.__cause__
    if isinstance(error, BrokenParser):
        return Change(Kinds(error.kind), error.place)
    if failure.is_refusal:
        return Change(Kinds.REFUSAL)
    if error is None:
        return Change(Kinds.UNSTABLE)
    trace, place = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if not name.startswith(("grammars.suite", "constrained.", "json", "re.")):
            place = f"line {trace.tb_lineno} of {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return Change(Kinds.ERROR, place or type(error).__name__)


def compare_readings(wanted: Reading, got: Reading, claims: Claims) -> Iterator[Change]:
    """Yields the differences between two readings, as far as the parser's claims go."""
    calls = list(_compare_calls(wanted, got, claims))
    yield from calls
    # What is left of a call that was not read as one is no further difference.
    folded = (Kinds.CALL_AS_TEXT, Kinds.CALL_LOST, Kinds.CUT, Kinds.THOUGHT_CALLED)
    has_rest = any(change.kind in folded for change in calls)
    for place in ("reasoning", "content"):
        a, b = getattr(wanted, place), getattr(got, place)
        if is_same(Reading(**{place: a}), Reading(**{place: b}), claims):
            continue
        if has_rest and (a.strip() in b or not b.strip()):
            continue
        yield Change(_compare_texts(a, b), place)
    if wanted.unfinished != got.unfinished:
        yield Change(Kinds.OTHER_TEXT, "unfinished call")


def _compare_calls(wanted: Reading, got: Reading, claims: Claims) -> Iterator[Change]:
    if are_same_calls(wanted.calls, got.calls, claims):
        return
    missing: list[Call] = list(wanted.calls)
    surplus: list[Call] = []
    for call in got.calls:
        same = next((one for one in missing if are_same_calls([one], [call], claims)), None)
        if same is None:
            surplus.append(call)
        else:
            missing.remove(same)
    if not missing and not surplus:
        yield Change(Kinds.CALL_ORDER)
    for call in list(missing):
        other = next((one for one in surplus if one[0] == call[0]), None)
        if other is None and len(missing) == len(surplus):
            other = surplus[0]
            yield Change(Kinds.NAME)
        if other is not None:
            missing.remove(call)
            surplus.remove(other)
            yield from _compare_arguments(call[1], other[1], claims)
    for call in missing:
        yield _find_lost(call, wanted, got)
    for call in surplus:
        if _count(call, wanted.calls):
            yield Change(Kinds.CALL_TWICE)
        elif call[0] in wanted.reasoning:
            yield Change(Kinds.THOUGHT_CALLED)
        else:
            yield Change(Kinds.CALL_ADDED)


def _find_lost(call: Call, wanted: Reading, got: Reading) -> Change:
    if _count(call, got.calls):
        return Change(Kinds.REPEAT_LOST)
    before = (wanted.content + wanted.reasoning).count(call[0])
    if (got.content + got.reasoning + got.unfinished).count(call[0]) > before:
        return Change(Kinds.CALL_AS_TEXT)
    return Change(Kinds.CALL_LOST)


def _count(call: Call, calls: Sequence[Call]) -> int:
    return sum(are_same_calls([call], [one]) for one in calls)


def _compare_arguments(wanted: Any, got: Any, claims: Claims) -> Iterator[Change]:
    if not isinstance(got, dict) or not isinstance(wanted, dict):
        yield Change(Kinds.NO_OBJECT)
        return
    expected, found = cast(dict[str, Any], wanted), cast(dict[str, Any], got)
    for key, value in expected.items():
        if key not in found:
            yield Change(Kinds.NULL_LOST if value is None else Kinds.ARGUMENT_LOST)
        elif not are_same_calls([("", {key: value})], [("", {key: found[key]})], claims):
            yield Change(_compare_values(value, found[key]), "argument")
    if found.keys() - expected.keys():
        yield Change(Kinds.ARGUMENT_ADDED)


def _compare_values(wanted: Any, got: Any) -> ChangeKind:
    match wanted, got:
        case str(), str():
            return _compare_texts(wanted, got)
        case _, str():
            return Kinds.BECAME_TEXT
        case str(), _:
            return Kinds.TEXT_BECAME
        case list(), list():
            items = cast(list[Any], wanted), cast(list[Any], got)
            pairs = list(zip(*items, strict=False))
            if len(items[0]) != len(items[1]):
                return Kinds.OTHER_VALUE
        case dict(), dict():
            members = cast(dict[str, Any], wanted), cast(dict[str, Any], got)
            if members[0].keys() != members[1].keys():
                return Kinds.OTHER_VALUE
            pairs = [(value, members[1][key]) for key, value in members[0].items()]
        case _:
            return Kinds.OTHER_VALUE if type(wanted) is type(got) else Kinds.OTHER_TYPE
    for a, b in pairs:
        if json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True, default=repr):
            return _compare_values(a, b)
    return Kinds.OTHER_VALUE


def _compare_texts(wanted: str, got: str) -> ChangeKind:
    if wanted.strip() == got.strip():
        if len(got) == len(wanted):
            return Kinds.SPACED
        return Kinds.STRIPPED if len(got) < len(wanted) else Kinds.PADDED
    if squeeze(wanted) == squeeze(got):
        return Kinds.SPACED
    if not got.strip():
        return Kinds.TEXT_LOST
    if _unescape(wanted) == _unescape(got):
        return Kinds.ESCAPED
    if not wanted.isascii() and _leave_ascii(got) in (_leave_ascii(wanted), wanted):
        return Kinds.CHARACTERS
    if wanted.startswith(got.rstrip()):
        return Kinds.CUT
    if wanted.endswith(got.lstrip()):
        return Kinds.HEADLESS
    return Kinds.TEXT_ADDED if wanted.strip() in got else Kinds.OTHER_TEXT


def _unescape(text: str) -> str:
    """Returns a text that is the same for all ways to escape it."""
    text = html.unescape(text)
    for escape, written in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")):
        text = text.replace(escape, written)
    return text.replace("\\", "")


def _leave_ascii(text: str) -> str:
    return text.encode("ascii", "ignore").decode()


IN_PIECES, DAMAGED = "in pieces", "damaged"
"""Triggers that say how a text is given, and not what is in it."""


@dataclass(frozen=True)
class FaultCause:
    """What two failures with one cause have in common."""

    change: Change  # the most severe one
    triggers: frozenset[str]  # what has to be in a text to fail, see `find_triggers`
    marks: frozenset[str] = frozenset()  # the signs of syntax in its arguments

    def explains(self, other: "FaultCause") -> bool:
        """Returns whether another failure has this cause, too: it differs in the same way, which
        says enough or has the same triggers; or its text has the triggers of this one."""
        kind, other_kind = self.change.kind, other.change.kind
        is_alike = self.change.severity is other.change.severity
        if DAMAGED in other.triggers:
            # What is lost or read twice in whole texts is so in damaged ones.
            is_text = other.change.severity is Severity.TEXT
            if is_text and kind in (_REPEATS if other_kind is Kinds.WORD_REPEATED else _LOSSES):
                return True
            is_new = DAMAGED not in self.triggers
            if is_new and IN_PIECES in self.triggers & other.triggers:
                return is_alike or self.triggers <= other.triggers
        is_near = self.change.place == other.change.place != "argument"
        if is_near and _IMPLIED.get(kind) is other_kind:
            return self._is_given_like(other)
        if self.change.is_specific and self._is_alike(other.change):
            is_damaged = DAMAGED in other.triggers - self.triggers
            return is_damaged or self.change.is_located or self._is_given_like(other)
        if not self._is_given_like(other):
            return False
        if self.change == other.change:
            fewer, more = sorted((self.marks, other.marks), key=len)
            return self.triggers <= other.triggers or (bool(fewer) and fewer <= more)
        if self.change.is_specific and other.change.is_specific:
            return False
        if not self.triggers and (not is_alike or {kind, other_kind} & _NO_RESULTS):
            return False
        return self.triggers != frozenset({DAMAGED}) and self.triggers <= other.triggers

    def _is_alike(self, change: Change) -> bool:
        """Returns whether a change says the same: of an error or of a stream, the place, too."""
        named = (Kinds.ERROR, Kinds.STREAM, Kinds.CRASH)
        is_same = self.change.kind is change.kind
        return is_same and (self.change.kind not in named or self.change.place == change.place)

    def _is_given_like(self, other: "FaultCause") -> bool:
        return (IN_PIECES in self.triggers) == (IN_PIECES in other.triggers)

    def __str__(self) -> str:
        triggers = ", ".join(sorted(self.triggers))
        return f"{self.change} ({triggers})" if triggers else str(self.change)
