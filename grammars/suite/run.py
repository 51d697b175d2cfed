"""A test suite for any parser of tool calls.

Hypothesis draws tools, calls and turns, writes the turns in a wire format as a model does, and cuts
and damages the texts; `assert_parser` checks properties that every parser must have.

    from grammars.wire.formats import HERMES
    from grammars.suite import Reading, assert_parser

    def make_parser(tools):
        def parse(text):
            content, calls = my_parser(text, [tool.schema.source for tool in tools])
            return Reading(content=content, calls=calls)
        return parse

    def test_my_parser():
        assert_parser(make_parser, HERMES)

Needs Hypothesis: `pip install 'constrained-calls[suite]'`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grammars import PROJECT

try:
    from hypothesis import HealthCheck, Phase, Verbosity, given, reject, seed, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, Unsatisfiable
    from hypothesis.strategies import DataObject
except ImportError as e:
    message = f"grammars.suite needs Hypothesis: pip install '{PROJECT}[suite]'"
    raise ImportError(message) from e

from grammars.suite.checks import CHECKS, Check
from grammars.suite.parser_output import ParserRefusal, Reading
from grammars.suite.reading import (
    ALL_CLAIMS,
    CheckedParser,
    Claims,
    Factory,
    ParserFailure,
)
from grammars.wire.format import Format

__all__ = [
    "CHECKS",
    "Claims",
    "DataObject",
    "ParserFailure",
    "ParserRefusal",
    "Reading",
    "assert_parser",
    "find_failures",
    "reject",
    "settings",
]

DEFAULT = settings(max_examples=100, database=None)
_IGNORED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@dataclass(frozen=True)
class Failure:
    """A failed check.

    Args:
        check: its name.
        about: what it checks.
        text: the smallest failing text.
        report: a description of the failure.
        cause: the failure as an exception.
    """

    check: str
    about: str
    text: str
    report: str
    cause: ParserFailure


def assert_parser(
    factory: Factory,
    format: Format,
    *,
    claims: Claims = ALL_CLAIMS,
    settings: settings | None = None,
    checks: Sequence[Check] = CHECKS,
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
    subject = CheckedParser(factory, format, claims)
    for check in checks:
        _run(check, subject, chosen=settings or DEFAULT)


def find_failures(
    factory: Factory,
    format: Format,
    *,
    claims: Claims = ALL_CLAIMS,
    settings: settings | None = None,
    seed: int | None = None,
    checks: Sequence[Check] = CHECKS,
) -> list[Failure]:
    """Returns the failures of all checks; []: the parser passes. The arguments are those of
    `assert_parser`; with a seed, Hypothesis draws the same examples again; `checks` selects
    checks."""
    subject = CheckedParser(factory, format, claims)
    failures: list[Failure] = []
    for check in checks:
        try:
            _run(check, subject, chosen=settings or DEFAULT, number=seed)
        except ParserFailure as e:
            about = (check.__doc__ or "").partition("\n")[0]
            failures.append(Failure(check.__name__, about, text=e.text, report=str(e), cause=e))
    return failures


def _run(
    check: Check, subject: CheckedParser, *, chosen: settings, number: int | None = None
) -> None:
    """Runs a check; its failure is about the smallest failing text."""

    @settings(
        chosen,
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=[p for p in chosen.phases if p not in (Phase.explain, Phase.explicit)],
        suppress_health_check=_IGNORED,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(st.data())
    def examples(data: DataObject) -> None:
        check(subject, data)

    if number is not None:
        examples = seed(number)(examples)
    try:
        examples()
    except ParserFailure as e:
        # Hypothesis notes how the text was drawn, which does not help to find the error.
        e.__notes__ = []
        raise
    except Unsatisfiable:  # the format writes nothing that this check applies to
        pass
    except Flaky as e:
        raise ParserFailure(check.__name__, f"not the same each time: {e}", []) from e
