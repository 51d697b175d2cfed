"""Checks a parser that runs in a process of its own (a pipe), with one JSON object a line: the
property tests of `grammars.suite`, and recorded turns."""

import json
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from constrained.errors import RequestError
from constrained.inspect.conformance.finding import SuiteFinding
from constrained.inspect.conformance.parser_process import ParserProcess
from constrained.inspect.conformance.rows import CorpusRow, write_expected
from constrained.prompt.tools.shapes import as_openai
from grammars.schema.json_values import Json, JsonObject
from grammars.suite.changes import ChangeKind
from grammars.suite.checks import CHECKS, SuiteCheck
from grammars.suite.parser_output import AskedParser, BrokenParser, Reading, as_reading
from grammars.suite.reading import CheckedParser, Claims, StopSearch
from grammars.suite.run import Failure, Progress, find_failures, settings
from grammars.suite.strategies import Example, Written
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import Format

MAX_LOST = 30
"""The seconds that a check may wait for missing answers; after that, failing examples are no longer
made smaller."""
ROW = "recorded turn"
VERSION = 1
STREAM = "stream"
ABILITIES: Mapping[str, str] = {
    STREAM: "reads chunks, and answers with deltas",
    "content": "returns the text outside of the calls",
    "reasoning": "separates blocks of reasoning from content",
    "types": "uses the types of the schema to read arguments",
    "space": "leaves out the white space that the format writes around content",
    "damage": "loses nothing if a text is damaged or cut short; needs content",
}
"""The abilities that a parser may claim, and what they mean."""


@dataclass(frozen=True)
class ParserAbilities:
    """The abilities that a parser claims: that it reads chunks, the others, and the names of all in
    the order of `ABILITIES`."""

    streams: bool
    claims: Claims
    names: tuple[str, ...]


def read_abilities(greeting: JsonObject) -> ParserAbilities:
    """Reads the abilities from a parser's answer to the first line; a RequestError if it lists
    none, an unknown one, or one without another that it needs."""
    abilities = greeting.get("can")
    hint = f"It is a list of: {', '.join(ABILITIES)}"
    if not isinstance(abilities, list):
        message = "the parser does not list its abilities"
        raise RequestError(message, where="/can", hint=hint)
    for i, name in enumerate(abilities):
        if name not in ABILITIES:
            message = f"the parser claims an unknown ability: {name!r}"
            raise RequestError(message, where=f"/can/{i}", hint=hint)
    if "damage" in abilities and "content" not in abilities:
        message = "a parser that claims damage has to claim content, too"
        raise RequestError(message, where="/can", hint=hint)
    # Languages with one type of numbers cannot distinguish 1.0 and 1.
    claims = {name: name in abilities for name in ABILITIES if name != STREAM}
    names = tuple(name for name in ABILITIES if name in abilities)
    return ParserAbilities(STREAM in abilities, claims=Claims(**claims, exact=False), names=names)


def write_text(tools: Sequence[Tool], text: str) -> JsonObject:
    """Returns a request to read a whole text, without its id."""
    return {"tools": write_tools(tools), "text": text}


def write_chunks(tools: Sequence[Tool], chunks: Sequence[str]) -> JsonObject:
    """Returns a request to read a text that arrives in chunks, without its id."""
    return {"tools": write_tools(tools), "chunks": list(chunks)}


def write_tools(tools: Sequence[Tool]) -> list[Any]:
    return as_openai([{"name": tool.name, "parameters": tool.schema.source} for tool in tools])


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


@dataclass(frozen=True)
class ParserReport:
    """The result of checking a parser."""

    abilities: ParserAbilities
    checks: Sequence[str]
    rows: int  # how many recorded turns it has read
    findings: Sequence[SuiteFinding]  # one for each cause
    is_whole: bool = True  # all checks were made; False: the time was over


class PipedParsers:
    """Makes parsers for sets of tools; all of them send requests to one process.

    Args:
        max_lost: the maximum seconds that a check may wait for missing answers.
        end: the time at which the whole search ends, by `time.monotonic`.
    """

    def __init__(self, process: ParserProcess, *, streams: bool, max_lost: float, end: float):
        self._process = process
        self._streams = streams
        self._max_lost = max_lost
        self._end = end
        self._asked = 0
        self._check = ""
        self._lost_before = 0.0
        self._broken: dict[str, BrokenParser] = {}

    def __call__(self, tools: Sequence[Tool]) -> "AskedParser | Callable[[str], object]":
        parser = AskedParser(
            lambda text: self._ask(write_text(tools, text)),
            lambda chunks: self._ask(write_chunks(tools, chunks)),
        )
        return parser if self._streams else parser.read

    def begin_example(self, check: str) -> None:
        """Begins an example; in another check, `max_lost` counts again from 0. Raises StopSearch if
        the time is over."""
        if time.monotonic() > self._end:
            raise StopSearch(is_whole=True)
        if check != self._check:
            self._check, self._lost_before = check, self._process.lost

    def _ask(self, request: Json) -> Json:
        known = json.dumps(request)
        if (
            known in self._broken
        ):  # it is not asked again: each time, it would have to be waited for
            raise self._broken[known]
        if time.monotonic() > self._end:
            raise StopSearch(is_whole=True)
        if self._process.lost - self._lost_before > self._max_lost:
            raise StopSearch
        self._asked += 1
        try:
            return self._process.ask({"id": self._asked, **request})
        except BrokenParser as e:
            self._broken[known] = e
            raise


def check_parser(
    command: str,
    format: Format,
    *,
    rows: Iterable[CorpusRow] = (),
    checks: Sequence[SuiteCheck] = CHECKS,
    tools: Sequence[Tool] = (),
    examples: int = 100,
    seed: int = 0,
    seconds: float = inf,
    timeout: float = 5,
    max_lost: float = MAX_LOST,
    report: Callable[[Progress], None] = lambda progress: None,
    tell: Callable[[SuiteFinding], None] = lambda finding: None,
) -> ParserReport:
    """Checks a parser that a command starts.

    Args:
        command: is split as a shell does.
        rows: recorded turns; those of other formats are left out.
        tools: the tools that turns call; (): the suite makes them up.
        examples: the number of drawn examples of each property.
        seconds: the maximum of the whole search; what was found until then is reported.
        timeout: the maximum seconds for each answer.
        max_lost: the maximum seconds that each check may wait for missing answers.
        report: called before each example.
        tell: called with each finding when it is found.

    Raises:
        RequestError: the process does not start, or does not list its abilities.
    """
    end = time.monotonic() + seconds
    # Models have special tokens for tags: where one is, no chunk ends within it.
    markers = [*format.markers, *format.structure]
    hello = {"version": VERSION, "format": format.name, "markers": markers}
    with ParserProcess(command, {"id": 0, "hello": hello}, timeout=timeout) as process:
        abilities = read_abilities(process.greeting)
        claims = abilities.claims
        suited = [row for row in rows if row.format == format.name and row.suits(claims)]
        parsers = PipedParsers(process, streams=abilities.streams, max_lost=max_lost, end=end)

        def follow(progress: Progress) -> None:
            report(progress)
            parsers.begin_example(progress.check)

        found = find_failures(
            parsers,
            format,
            claims=claims,
            settings=settings(max_examples=examples, database=None),
            seed=seed,
            checks=[*checks, *map(check_row, suited)],
            tools=tools,
            report=follow,
            tell=lambda failure: tell(make_finding(failure, format, command)),
        )
    return ParserReport(
        abilities,
        checks=[check.name for check in checks],
        rows=len(suited),
        findings=[make_finding(failure, format, command) for failure in found],
        is_whole=time.monotonic() < end,
    )


def make_finding(failure: Failure, format: Format, command: str) -> SuiteFinding:
    error, change, written = failure.cause, failure.changes[0], failure.example.written
    request: JsonObject = {**write_text(error.tools, error.text)}
    row = {"id": failure.about, "format": format.name, **request, "check": failure.check}
    if error.in_pieces:
        request = {**write_chunks(error.tools, error.pieces)}
        row["chunkings"] = [list(error.pieces)]
    if error.text == written.text:
        row["expect"] = write_expected(vars(as_reading(written.turn, [])))
    elif isinstance(error.wanted, list):  # the calls that were complete before the text was cut
        row["expect"] = write_expected({"calls": error.wanted})
    is_described = error.got is None or change.kind is ChangeKind.STREAM
    return SuiteFinding(
        failure.checks,
        failure.about,
        error.what if is_described else str(change),
        kinds=[one.kind.value for one in failure.changes],
        request=request,
        expected=show(error.wanted),
        got=show(error.got),
        # printf, as echo reads backslashes in some shells.
        reproduce=f"printf '%s\\n' {shlex.quote(json.dumps({'id': 1, **request}))} | {command}",
        severity=change.severity.value,
        cause=str(failure.root),
        format=format.name,
        row=row,
    )


def check_row(row: CorpusRow) -> SuiteCheck:
    """Makes a check of a recorded turn: as a whole, then character by character."""
    written = Written(Turn(), "", row.tools)
    if row.is_whole and row.expected.keys() >= {"content", "calls"}:
        calls = [ToolCall(name, arguments) for name, arguments in row.expected["calls"]]
        reasoning = row.expected.get("reasoning", "")
        written = Written(
            Turn(row.expected["content"], reasoning, tuple(calls)), row.text, row.tools
        )

    def judge(subject: CheckedParser, example: Example) -> None:
        for check in CHECKS if row.check else ():
            if check.name == row.check:
                cuts = row.chunkings or [[row.text]]
                check.judge(subject, replace(example, pieces=tuple(cuts[0])))
                return
        got, _ = subject.read(row.tools, row.text)
        subject.compare(got, row.complete(got), [row.text], row.tools)
        if not subject.is_push:
            return
        for chunks in row.chunkings or ([list(row.text)] if row.is_whole else []):
            got, _ = subject.listen(row.tools, chunks)
            subject.compare(got, row.complete(got), chunks, row.tools, in_pieces=True)

    example = Example(written, (row.text,))
    return SuiteCheck(
        ROW, row.name, judge, examples=lambda draws: iter([example]), can_shrink=False
    )
