"""Checks a parser that runs in a process of its own (a pipe): the property tests of
`grammars.suite`, and recorded turns."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from constrained.inspect.conformance.finding import SuiteFinding, write_pipe_line
from constrained.inspect.conformance.parser_process import ParserProcess
from constrained.inspect.conformance.parser_protocol import (
    ParserAbilities,
    read_abilities,
    show,
    write_chunks,
    write_hello,
    write_text,
)
from constrained.inspect.conformance.rows import CorpusRow, write_expected
from grammars.schema.json_values import Json, JsonObject
from grammars.suite.changes import ChangeKind
from grammars.suite.checks import CHECKS, SuiteCheck
from grammars.suite.parser_output import AskedParser, BrokenParser, as_reading
from grammars.suite.reading import CheckedParser, StopSearch
from grammars.suite.run import Failure, Progress, find_failures, settings
from grammars.suite.strategies import Example, Written
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import Format

MAX_LOST = 30
"""The seconds that a check may wait for missing answers; after that, failing examples are no longer
made smaller."""
ROW = "recorded turn"


@dataclass(frozen=True)
class ParserReport:
    """The result of checking a parser.

    Args:
        abilities: the abilities that it claims.
        checks: the names of the checks that were made.
        rows: how many recorded turns it has read.
        findings: what was found, one for each cause.
        is_whole: all checks were made; False: the time was over.
    """

    abilities: ParserAbilities
    checks: Sequence[str]
    rows: int
    findings: Sequence[SuiteFinding]
    is_whole: bool = True


class PipedParsers:
    """Makes parsers for sets of tools; all of them send requests to one process.

    Args:
        process: runs the parser.
        streams: whether it reads chunks.
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
        """Begins an example; in another check, `max_lost` counts again from 0.

        Raises:
            StopSearch: the time is over.
        """
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
        command: the command line, which is split as a shell does.
        format: the wire format that the parser reads.
        rows: recorded turns; those of other formats are left out.
        checks: the checks to make.
        tools: the tools that turns call; (): the suite makes them up.
        examples: the number of drawn examples of each property.
        seed: of the drawn examples.
        seconds: the maximum of the whole search; what was found until then is reported.
        timeout: the maximum seconds for each answer.
        max_lost: the maximum seconds that each check may wait for missing answers.
        report: called before each example.
        tell: called with each finding when it is found.

    Raises:
        RequestError: the process does not start, or does not list its abilities.
    """
    end = time.monotonic() + seconds
    with ParserProcess(command, write_hello(format), timeout=timeout) as process:
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
    """Returns a failure as a finding about the parser that a command starts."""
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
        reproduce=write_pipe_line(command, request),
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
