"""A test suite for any parser of tool calls.

It writes turns in a wire format as a model does, and cuts and damages the texts: first those that
parsers are known to stumble over, then some that Hypothesis draws. docs/testing-parsers.md has an
example.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from grammars import PROJECT

try:
    from hypothesis import settings
except ImportError as e:
    message = f"grammars.suite needs Hypothesis: pip install '{PROJECT}[suite]'"
    raise ImportError(message) from e

from grammars.suite.changes import Change, FaultCause, Severity, find_changes
from grammars.suite.checks import CHECKS, SuiteCheck, make_whole, reads
from grammars.suite.corners import find_marks, find_triggers
from grammars.suite.draws import DEFAULT, Draws, is_clear
from grammars.suite.reading import (
    ALL_CLAIMS,
    CheckedParser,
    Claims,
    Factory,
    ParserFailure,
    StopSearch,
)
from grammars.suite.shrinking import shrink, simplify
from grammars.suite.strategies import Example
from grammars.turn import Tool
from grammars.wire.format import Format

WHOLE_CHECKS = ("reads_tags_in_values", "reads_back", "reads_text_around_calls")
"""The checks of whole, undamaged texts. The other checks ask only for turns that pass them."""
MAX_SHRUNK = 12
"""Failing examples of a check that are made smaller."""


@dataclass(frozen=True)
class Failure:
    """A cause for which checks fail."""

    checks: Sequence[str]  # the names of those that show it; the first one has found it
    about: str  # what that one checks
    example: Example  # the smallest failing one
    cause: ParserFailure
    changes: Sequence[Change]  # the most severe one first
    root: FaultCause  # what it is told apart by

    @property
    def check(self) -> str:
        return self.checks[0]

    @property
    def text(self) -> str:
        return self.cause.text

    @property
    def report(self) -> str:
        return f"{self.cause}\n  change  {self.root}\n  checks  {', '.join(self.checks)}"


@dataclass(frozen=True)
class Progress:
    """How far the search is."""

    check: str  # the name of the check that is made
    number: int  # from 0
    examples: int  # how many it has read
    found: int  # how many causes were found


def assert_parser(
    factory: Factory,
    format: Format,
    *,
    claims: Claims = ALL_CLAIMS,
    settings: settings | None = None,
    checks: Sequence[SuiteCheck] = CHECKS,
) -> None:
    """Checks a parser of texts in this format.

    The parser reads turns back as they were meant, for every chunking; it never raises; it loses no
    text of cut and damaged turns; it invents no call and reports none twice; its stream adds up to
    its result. Abilities that the parser does not have (feeding, streams) are not checked.

    Args:
        factory: makes the parser, see `Factory`.
        format: the wire format.
        claims: what the parser claims to do; by default, all of it.
        settings: of Hypothesis, for each check; 100 examples by default.
        checks: the checks to make; by default, all of them.

    Raises:
        ParserFailure: the first check that fails, an AssertionError.
    """
    found = find_failures(
        factory, format, claims=claims, settings=settings, checks=checks, max_found=1
    )
    for failure in found:
        raise failure.cause


def find_failures(
    factory: Factory,
    format: Format,
    *,
    claims: Claims = ALL_CLAIMS,
    settings: settings | None = None,
    seed: int | None = None,
    checks: Sequence[SuiteCheck] = CHECKS,
    tools: Sequence[Tool] = (),
    max_found: int | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    tell: Callable[[Failure], None] = lambda failure: None,
) -> list[Failure]:
    """Returns a failure for each cause; []: the parser passes.

    Args:
        factory, format, claims, settings, checks: see `assert_parser`.
        seed: with it, Hypothesis draws the same examples again.
        tools: the tools that turns call; (): the suite makes them up.
        max_found: the search ends when so many were found.
        report: called before each example; it may raise `StopSearch`.
        tell: called with each failure as soon as it is found.
    """
    subject = CheckedParser(factory, format, claims, tuple(tools))
    draws = Draws(subject, settings or DEFAULT, seed)
    search = _Search(subject, checks, draws, report=report, tell=tell, max_found=max_found)
    with suppress(StopSearch):
        for number, check in enumerate(checks):
            search.make(check, number)
    return search.list_failures()


@dataclass(frozen=True)
class Found:
    """An example that fails a check, and the most severe difference in it."""

    check: SuiteCheck
    example: Example
    change: Change


@dataclass
class _Search:
    subject: CheckedParser
    checks: Sequence[SuiteCheck]
    draws: Draws
    report: Callable[[Progress], None]
    tell: Callable[[Failure], None]
    max_found: int | None
    shown: dict[FaultCause, list[str]] = field(default_factory=dict[FaultCause, list[str]])
    found: list[Failure] = field(default_factory=list[Failure])
    misread: dict[str, bool] = field(default_factory=dict[str, bool])

    def make(self, check: SuiteCheck, number: int) -> None:
        """Makes a check: reads all examples, then makes those smaller that fail."""
        failing: list[Found] = []
        stop: StopSearch | None = None
        try:
            for count, example in enumerate(check.examples(self.draws)):
                self.report(Progress(check.name, number, count, len(self.found)))
                if check.name in WHOLE_CHECKS or not self._is_misread(example, failing):
                    failing += filter(None, [self._find(check, example)])
        except StopSearch as e:
            stop = e
        tries = 0
        for found in sorted(failing, key=self._measure):
            cause = find_cause(found.change, found.example, self.subject.format)
            if tries < MAX_SHRUNK and not self._show(cause, found.check, alike=True):
                tries += 1
                self._add(found)
        if stop is not None and stop.is_whole:
            raise stop

    def _measure(self, found: Found) -> tuple[int, int, int, int]:
        """Returns what the first example to add has less of. One with fewer triggers explains
        more."""
        example, severity = found.example, found.change.severity
        triggers = find_triggers(example, self.subject.format)
        calls = len(example.written.turn.calls)
        return list(Severity).index(severity), len(triggers), calls, len(example.text)

    def _find(self, check: SuiteCheck, example: Example) -> Found | None:
        if check.can_shrink and not is_clear(
            example.written, self.subject.format, self.subject.claims
        ):
            return None
        failure = check.find_failure(self.subject, example)
        if failure is None:
            return None
        return Found(check, example, find_changes(failure, self.subject.claims)[0])

    def _is_misread(self, example: Example, failing: list[Found]) -> bool:
        """Returns whether the whole turn of an example is misread, which would be the cause of what
        another check says of its parts. Adds the failure to `failing`."""
        written = example.written
        whole = [one for one in self.checks if one.name in WHOLE_CHECKS]
        if not whole or not written.text:
            return False
        # The types of the tools decide what a text means.
        key = json.dumps([written.text, [(one.name, one.schema.source) for one in written.tools]])
        if key not in self.misread:
            found = [self._find(one, make_whole(written)) for one in whole]
            failing += filter(None, found)
            self.misread[key] = any(found) or not reads(self.subject, written)
        return self.misread[key]

    def _show(self, cause: FaultCause, check: SuiteCheck, *, alike: bool) -> bool:
        """Returns whether a cause that is known explains a failure; if so, its check shows it."""
        for failure in self.found:
            root = failure.root
            if root.explains(cause) and (root.change.kind is cause.change.kind or not alike):
                shown = self.shown[root]
                if check.name not in shown:
                    shown.append(check.name)
                return True
        return False

    def _add(self, found: Found) -> None:
        """Makes a failing example smaller, and adds its cause if it is a new one."""
        check, smallest = found.check, found.example

        def fails(candidate: Example) -> bool:
            again = self._find(check, candidate)
            return again is not None and again.change == found.change

        format, plainest = self.subject.format, smallest
        if check.can_shrink:
            with suppress(StopSearch):  # it stays as small as it is
                smallest = shrink(found.example, format, fails)
                plainest = simplify(smallest, format, fails)
        try:
            failure = check.find_failure(self.subject, smallest)
        except StopSearch:
            return
        if failure is None:
            failure = ParserFailure("not the same each time", [])
            failure.check = check.name
        changes = find_changes(failure, self.subject.claims)
        root = find_cause(changes[0], plainest, format)
        if self._show(root, check, alike=False):
            return
        self.shown[root] = [check.name]
        for other in [one for one in self.found if root.explains(one.root)]:
            self.found.remove(other)
            self.shown[root] += [name for name in self.shown[other.root] if name != check.name]
        self.found.append(Failure((), check.about, smallest, failure, changes, root))
        self.tell(self.list_failures()[-1])
        if len(self.found) == self.max_found:
            raise StopSearch(is_whole=True)

    def list_failures(self) -> list[Failure]:
        return [replace(one, checks=tuple(self.shown[one.root])) for one in self.found]


def find_cause(change: Change, example: Example, format: Format) -> FaultCause:
    """Returns the cause of a failure, as far as its example shows it."""
    return FaultCause(change, find_triggers(example, format), find_marks(example))
