"""How parsers are asked, and how their results are compared with each other and with a text."""

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object
from grammars.suite.parser_output import (
    BrokenParser,
    ParserRefusal,
    Reading,
    as_events,
    as_reading,
    read_result,
)
from grammars.turn import Event, Tool, decode_arguments
from grammars.wire.format import Format

WORDS = ("zorn", "yquil", "woxam", "kvelp", "jinqa")
"""Words that no format writes itself: if they are in a text, they have to be in the result. None
begins with a letter that a backslash before it could turn into a JSON escape."""

KEYS = ("city", "days", "unit", "note", "lines", "options")
"""The keys of all objects in calls of the suite."""


@dataclass(frozen=True)
class Claims:
    """What a parser claims to do. The suite does not check what it does not claim.

    Args:
        reasoning: it separates reasoning blocks from content.
        types: it reads arguments by the types of the schema; without this, 5 and "5" are the same.
        space: it removes the white space that a format writes around content, and no other.
        damage: it loses nothing of text that is damaged or cut short. Needs `content`.
        exact: it distinguishes 1.0 from 1; and it knows which type raw text has if two are
            possible.
        content: it returns the text outside of the calls.

    Raises:
        ValueError: `damage` without `content`.
    """

    reasoning: bool = True
    types: bool = True
    space: bool = True
    damage: bool = True
    exact: bool = True
    content: bool = True

    def __post_init__(self) -> None:
        if self.damage and not self.content:
            raise ValueError("a parser that claims damage has to claim content, too")


ALL_CLAIMS = Claims()


@runtime_checkable
class PushParser(Protocol):
    """A parser that gets its text in pieces. `Factory` describes what it returns."""

    def feed(self, text: str, /) -> object: ...

    def close(self) -> object: ...


@runtime_checkable
class WholeParser(PushParser, Protocol):
    """A push parser that reads whole texts in another way, as servers do."""

    def read(self, text: str, /) -> object: ...


Factory: TypeAlias = Callable[[Sequence[Tool]], PushParser | Callable[[str], object]]
"""Makes a parser for the offered tools (`tool.name`, `tool.schema.source`): a function of the whole
text, or an object with `feed` and `close`, and `read` if it reads whole texts in another way.

The function and `read` return a `Reading`, a `Turn`, or a list of calls. `feed` returns what the
text adds: deltas (objects with `content`, `reasoning` and `calls`, as behind a pipe), events of
`grammars.turn`, or nothing. `close` returns the remaining deltas or events, or the whole result: a
`Reading` or a `Turn`, or everything at once as `Streamed`."""


class ParserFailure(AssertionError):  # noqa: N818  what a test reports, and no error of ours
    """A parser fails a check. `pieces`: of the smallest failing text; `in_pieces`: it was fed to
    the parser, in one piece or in several; `is_refusal`: the parser itself reported that it cannot
    read it."""

    check = ""
    """The name of the check, which enters it."""

    def __init__(
        self,
        what: str,
        pieces: Sequence[str],
        *,
        tools: Sequence[Tool] = (),
        in_pieces: bool = False,
        is_refusal: bool = False,
        wanted: object = None,
        got: object = None,
    ):
        super().__init__(what)
        self.what, self.pieces = what, tuple(pieces)
        self.tools, self.in_pieces, self.is_refusal = tuple(tools), in_pieces, is_refusal
        self.wanted, self.got = wanted, got

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def __str__(self) -> str:
        lines = [f"{self.check}: {self.what}", f"  text    {self.text!r}"]
        if len(self.pieces) > 1:
            lines.append(f"  pieces  {list(self.pieces)!r}")
        if self.wanted is not None:
            lines.append(f"  wanted  {self.wanted!r}")
        if self.got is not None:
            lines.append(f"  got     {self.got!r}")
        return "\n".join(lines)


class StopSearch(BaseException):
    """Ends a check: what was found is kept. `is_whole`: no further check is made."""

    def __init__(self, *, is_whole: bool = False):
        super().__init__()
        self.is_whole = is_whole


@dataclass(frozen=True)
class CheckedParser:
    """A parser that is checked. `tools`: those that turns call; (): the suite makes them up."""

    factory: Factory
    format: Format
    claims: Claims = ALL_CLAIMS
    tools: tuple[Tool, ...] = ()

    @property
    def is_push(self) -> bool:
        return isinstance(self.factory(()), PushParser)

    def listen(
        self, tools: Sequence[Tool], pieces: Sequence[str]
    ) -> tuple[Reading, Sequence[Event]]:
        """Feeds a text in pieces; returns what is read, and its events. Errors become a
        `ParserFailure`."""
        events: list[Event] = []
        with _failures(pieces, tools, in_pieces=True):
            parser = self.factory(tools)
            if isinstance(parser, PushParser):
                for piece in pieces:
                    events += as_events(parser.feed(piece))
                return as_reading(parser.close(), events), events
            return read_result(parser("".join(pieces))), events

    def read(self, tools: Sequence[Tool], text: str) -> tuple[Reading, Sequence[Event]]:
        """Reads a whole text as `listen` does; there are events if the parser gets it as one
        piece."""
        with _failures([text], tools, in_pieces=False):
            parser = self.factory(tools)
            if isinstance(parser, WholeParser):
                return read_result(parser.read(text)), []
            if not isinstance(parser, PushParser):
                return read_result(parser(text)), []
        return self.listen(tools, [text])

    def compare(
        self,
        got: Reading,
        wanted: Reading,
        pieces: Sequence[str],
        tools: Sequence[Tool],
        *,
        in_pieces: bool = False,
    ) -> None:
        """Raises a `ParserFailure` if the parser reads something else, as far as its claims go."""
        if not is_same(got, wanted, self.claims):
            start = "in pieces, the parser" if in_pieces else "the parser"
            raise ParserFailure(
                f"{start} reads something else",
                pieces,
                tools=tools,
                in_pieces=in_pieces,
                wanted=wanted,
                got=got,
            )


@contextmanager
def _failures(pieces: Sequence[str], tools: Sequence[Tool], *, in_pieces: bool) -> Generator[None]:
    try:
        yield
    except Exception as e:  # the parser is not ours: any exception is its failure
        message = f"raised {type(e).__name__}: {str(e)[:200]}"
        if isinstance(e, ParserRefusal | BrokenParser):
            message = str(e)
        is_refusal = isinstance(e, ParserRefusal)
        raise ParserFailure(
            message, pieces, tools=tools, in_pieces=in_pieces, is_refusal=is_refusal
        ) from e


def is_same(a: Reading, b: Reading, claims: Claims = ALL_CLAIMS) -> bool:
    """Whether two readings are equal as far as the claims go. In JSON, 1, 1.0 and true are
    different."""
    if not claims.content:
        a, b = replace(a, content=""), replace(b, content="")
    if not claims.space:
        a = replace(a, content=a.content.strip(), reasoning=a.reasoning.strip())
        b = replace(b, content=b.content.strip(), reasoning=b.reasoning.strip())
    if replace(a, calls=()) != replace(b, calls=()):
        return False
    return are_same_calls(a.calls, b.calls, claims)


def are_same_calls(
    a: Sequence[tuple[str, Any]], b: Sequence[tuple[str, Any]], claims: Claims = ALL_CLAIMS
) -> bool:
    """Returns whether the calls are the same; the order of members does not matter."""
    return _spell(a, claims) == _spell(b, claims)


def _spell(calls: Sequence[tuple[str, Any]], claims: Claims) -> str:
    spelled: list[tuple[str, Json]] = []
    for name, arguments in calls:
        if not claims.exact:
            arguments = _round(arguments)
        if not claims.types and is_object(arguments):
            arguments = {  # as text, whatever their types are
                key: json.dumps(decode_arguments(value), sort_keys=True)
                for key, value in arguments.items()
            }
        spelled.append((name, arguments))
    return json.dumps(spelled, sort_keys=True, default=repr)


def _round(value: Json) -> Json:
    """Returns a value with integers in place of numbers such as 1.0."""
    if is_list(value):
        return [_round(item) for item in value]
    if is_object(value):
        return {key: _round(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _count_words(texts: Iterable[str]) -> Counter[str]:
    # Words have no white space, so the end of one text and the start of the next form no word.
    return Counter(re.findall("|".join(WORDS), "\n".join(texts)))


def find_lost(
    text: str, reading: Reading, *, damaged: bool = False, tags: Sequence[str] = ()
) -> str | None:
    """Finds a word that the reading has less or more often than the text. `damaged`: calls may have
    an argument twice, of which one is read, or further members; these are excused. `tags`: of the
    format; the text on both sides of a tag may become a word."""
    before, after = _count_words([text]), _count_words(reading.texts)
    longest_first = sorted(tags, key=len, reverse=True)
    joined = _count_words([re.sub("|".join(map(re.escape, longest_first)), "", text)])
    is_repeated = damaged and _may_repeat(text, reading)
    extra = _count_words(_find_extra(text) if damaged and reading.calls else ())
    for word in WORDS:
        times = f"written {before[word]} times, and read {after[word]} times"
        if after[word] > max(before[word], joined[word]) > 0:
            return f"{word!r} is read again: {times}"
        if after[word] < before[word] - extra[word] and not is_repeated:
            return f"{word!r} is lost: {times}"
    return None


def _find_extra(text: str) -> list[str]:
    """Returns the texts in calls beside their names and arguments: they need not be read."""
    extra: list[str] = []

    def note(pairs: list[tuple[str, Json]]) -> Json:
        if any(key == "name" for key, _ in pairs):
            others = [pair for pair in pairs if pair[0] not in ("name", "arguments", "parameters")]
            extra.append(json.dumps(others, ensure_ascii=False))
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=note)
    end = 0
    for match in re.finditer(r"\{", text):
        if match.start() >= end:
            with suppress(ValueError, RecursionError):
                end = decoder.raw_decode(text, match.start())[1]
    return extra


def _may_repeat(text: str, reading: Reading) -> bool:
    members = max(text.count('"arguments"'), text.count('"parameters"'))
    if 0 < len(reading.calls) < members:
        return True
    for key in KEYS:
        holders = sum(key in repr(arguments) for _, arguments in reading.calls)
        if 0 < holders < text.count(key):
            return True
    return False
