"""Checks a parser that runs in a process of its own (a pipe): the property tests of
`grammars.suite`, and recorded turns."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps

from constrained.inspect.conformance.fault_kind import FaultKind
from constrained.inspect.conformance.finding import SuiteFinding, write_pipe_line
from constrained.inspect.conformance.parser_fault import BrokenAnswer, find_kinds, show
from constrained.inspect.conformance.parser_process import ParserProcess
from constrained.inspect.conformance.parser_protocol import (
    ParserAbilities,
    read_abilities,
    read_reading,
    read_stream,
    write_chunks,
    write_hello,
    write_text,
)
from constrained.inspect.conformance.rows import CorpusRow
from grammars.schema.json_values import Json
from grammars.suite.checks import CHECKS, Check
from grammars.suite.parser_output import BrokenParser, Reading, Streamed
from grammars.suite.reading import (
    CheckedParser,
    ParserFailure,
    is_same,
    listen,
    read_whole,
)
from grammars.suite.run import DataObject, find_failures, reject, settings
from grammars.turn import Tool
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
        findings: the errors that were found.
    """

    abilities: ParserAbilities
    checks: Sequence[str]
    rows: int
    findings: Sequence[SuiteFinding]


class PipedParser:
    """Hands the pieces of a text to the process, all at once."""

    def __init__(self, tools: Sequence[Tool], ask: Callable[[Json], Json]):
        self._tools = tools
        self._ask = ask
        self._chunks: list[str] = []

    def read(self, text: str) -> Reading:
        """Returns what the parser reads from a whole text."""
        return read_reading(self._ask(write_text(self._tools, text)))

    def feed(self, text: str) -> None:
        """Takes a chunk."""
        self._chunks.append(text)

    def close(self) -> Streamed:
        """Ends the text, and returns what the parser reported for its chunks."""
        return read_stream(self._ask(write_chunks(self._tools, self._chunks)))


class PipedParsers:
    """Makes parsers for sets of tools; all of them send requests to one process.

    Args:
        process: runs the parser.
        streams: whether it reads chunks.
        max_lost: the maximum seconds that a check may wait for missing answers.
    """

    def __init__(self, process: ParserProcess, *, streams: bool, max_lost: float):
        self._process = process
        self._streams = streams
        self._max_lost = max_lost
        self._asked = 0
        self._lost_before = 0.0
        self._broken: dict[str, BrokenAnswer] = {}

    def __call__(self, tools: Sequence[Tool]) -> "PipedParser | Callable[[str], object]":
        parser = PipedParser(tools, self._ask)
        return parser if self._streams else parser.read

    def begin_check(self) -> None:
        """Begins another check, for which `max_lost` counts again from 0."""
        self._lost_before = self._process.lost

    def _ask(self, request: Json) -> Json:
        known = json.dumps(request)
        if known not in self._broken:
            answer = self._try(known, request)
            if answer is not None:
                return answer
        # Raised here alone: Hypothesis takes failures from different places for different ones.
        broken = self._broken[known]
        raise BrokenAnswer(str(broken), broken.kind)

    def _try(self, known: str, request: Json) -> Json | None:
        """Returns the answer to a request; None if there is none. Then it is not tried again, since
        Hypothesis expects the same failure each time."""
        if self._process.lost - self._lost_before > self._max_lost:
            reject()
        self._asked += 1
        try:
            return self._process.ask({"id": self._asked, **request})
        except BrokenParser as e:
            kind = e.kind if isinstance(e, BrokenAnswer) else FaultKind.FORM
            self._broken[known] = BrokenAnswer(str(e), kind)
            return None


def check_parser(
    command: str,
    format: Format,
    *,
    rows: Iterable[CorpusRow] = (),
    checks: Sequence[Check] = CHECKS,
    known: Collection[str] = (),
    examples: int = 100,
    seed: int = 0,
    timeout: float = 5,
    max_lost: float = MAX_LOST,
    report: Callable[[float, float], None] = lambda done, whole: None,
) -> ParserReport:
    """Checks a parser that a command starts.

    Args:
        command: the command line, which is split as a shell does.
        format: the wire format that the parser reads.
        rows: recorded turns; those of other formats are left out.
        checks: the checks to make.
        known: ids of findings; where a check finds one of them, it looks for another kind.
        examples: the number of examples of each property.
        seed: of the random examples.
        timeout: the maximum seconds for each answer.
        max_lost: the maximum seconds that each check may wait for missing answers.
        report: called with the number of finished checks and the number of all checks.

    Raises:
        RequestError: the process does not start, or does not list its abilities.
    """
    with ParserProcess(command, write_hello(format), timeout=timeout) as process:
        abilities = read_abilities(process.greeting)
        parsers = PipedParsers(process, streams=abilities.streams, max_lost=max_lost)
        subject = CheckedParser(parsers, format, abilities.claims)
        chosen = settings(max_examples=examples, database=None)
        findings: list[SuiteFinding] = []
        for i, check in enumerate(checks):
            report(i, len(checks) + 1)
            parsers.begin_check()
            find = partial(_find, subject=subject, command=command, chosen=chosen, seed=seed)
            findings += _find_unknown(check, find, known)
        report(len(checks), len(checks) + 1)
        parsers.begin_check()
        suited = [row for row in rows if row.format == format.name and row.suits(subject.claims)]
        for row in suited:
            findings += _check_row(row, subject, command=command, streams=abilities.streams)
    names = [check.__name__ for check in checks]
    return ParserReport(abilities, checks=names, rows=len(suited), findings=findings)


def _find_unknown(
    check: Check, find: Callable[[Check], Iterator[SuiteFinding]], known: Collection[str]
) -> list[SuiteFinding]:
    """Returns what a check finds. A known finding hides no other kind of fault: the check is made
    again without its kinds."""
    findings: list[SuiteFinding] = []
    passed = check
    while True:
        found = list(find(passed))
        seen = [finding.kinds for finding in findings]
        new = [finding for finding in found if finding.kinds not in seen]
        findings += new
        if not new or not all(finding.id in known for finding in new):
            return findings
        passed = _leave_out(check, [finding.kinds for finding in findings])


def _leave_out(check: Check, kinds: Sequence[Sequence[FaultKind]]) -> Check:
    """Returns a check that passes where it fails in one of these ways."""

    @wraps(check)
    def check_others(subject: CheckedParser, data: DataObject) -> None:
        try:
            check(subject, data)
        except ParserFailure as e:
            if find_kinds(e, subject.claims) not in kinds:
                raise

    return check_others


def _find(
    check: Check, *, subject: CheckedParser, command: str, chosen: settings, seed: int
) -> Iterator[SuiteFinding]:
    found = find_failures(
        subject.factory,
        subject.format,
        claims=subject.claims,
        settings=chosen,
        seed=seed,
        checks=[check],
    )
    for failure in found:
        yield _make_finding(failure.cause, failure.about, subject, command=command)


def _make_finding(
    failure: ParserFailure, about: str, subject: CheckedParser, *, command: str
) -> SuiteFinding:
    request: Mapping[str, object] = write_text(failure.tools, failure.text)
    if failure.in_pieces:
        request = write_chunks(failure.tools, failure.pieces)
    return SuiteFinding(
        failure.check,
        about,
        failure.what,
        kinds=find_kinds(failure, subject.claims),
        request=request,
        expected=show(failure.wanted),
        got=show(failure.got),
        reproduce=write_pipe_line(command, request),
        format=subject.format.name,
    )


def _check_row(
    row: CorpusRow, subject: CheckedParser, *, command: str, streams: bool
) -> Iterator[SuiteFinding]:
    """Yields the faults in reading a row: as a whole, then character by character."""
    try:
        got = read_whole(subject.factory, row.tools, row.text, check=ROW)
        _compare(row, got, subject, [row.text], in_pieces=False)
        if streams and row.is_whole:
            chunks = list(row.text)
            got, _ = listen(subject.factory, row.tools, chunks, check=ROW)
            _compare(row, got, subject, chunks, in_pieces=True)
    except ParserFailure as e:
        yield _make_finding(e, row.name, subject, command=command)


def _compare(
    row: CorpusRow, got: Reading, subject: CheckedParser, pieces: Sequence[str], *, in_pieces: bool
) -> None:
    wanted = row.complete(got)
    if not is_same(got, wanted, subject.claims):
        raise ParserFailure(
            ROW,
            "the parser reads something else",
            pieces,
            tools=row.tools,
            in_pieces=in_pieces,
            wanted=wanted,
            got=got,
        )
