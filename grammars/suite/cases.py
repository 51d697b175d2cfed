"""Generated turns as data: texts, what they mean, and cuts into chunks, for test suites that do not
run Python."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis.strategies import DataObject

from grammars.parse.parser import Parser
from grammars.suite.checks import (
    Check,
    compare_reading,
    reads_back,
    reads_tags_in_values,
    written_turns,
)
from grammars.suite.reading import CheckedParser, Claims
from grammars.suite.run import find_failures, settings
from grammars.suite.strategies import Written, chunkings
from grammars.wire.format import Format

CHUNKINGS = 3
"""Cuts of each text."""


@dataclass(frozen=True)
class ParserCase:
    """A turn that every parser of the format should read as it was meant.

    Args:
        check: the name of the check that it belongs to.
        written: the turn, its text and its tools.
        chunkings: the text, cut into chunks in some ways.
    """

    check: str
    written: Written
    chunkings: Sequence[Sequence[str]]


def draw_cases(format: Format, *, examples: int = 100, seed: int = 0) -> list[ParserCase]:
    """Draws turns in this format, without and with its tags in values. Our own parser has read each
    of them as it was meant. The same seed gives the same turns with the same version of Hypothesis.

    Args:
        examples: the number of turns for each of the two checks; equal ones are left out.
        seed: of the random turns.

    Raises:
        ParserFailure: our own parser reads a turn as something else.
    """
    plain = _draw(reads_back, format, tags=False, examples=examples, seed=seed)
    tagged = _draw(reads_tags_in_values, format, tags=True, examples=examples, seed=seed)
    known = {_find_key(case) for case in plain}
    return plain + [case for case in tagged if _find_key(case) not in known]


def _draw(
    check: Check, format: Format, *, tags: bool, examples: int, seed: int
) -> list[ParserCase]:
    drawn: dict[tuple[object, ...], ParserCase] = {}

    def keep(subject: CheckedParser, data: DataObject) -> None:
        written = data.draw(written_turns(subject, tags=tags))
        compare_reading(subject, written, check=check.__name__)
        cuts = [data.draw(chunkings(written.text)) for _ in range(CHUNKINGS)]
        case = ParserCase(check.__name__, written, cuts)
        drawn.setdefault(_find_key(case), case)

    failures = find_failures(
        lambda tools: Parser(format, tools),
        format,
        # Raw text does not show whether 5 was meant as a number or as text.
        claims=Claims(exact=False),
        settings=settings(max_examples=examples, database=None),
        seed=seed,
        checks=[keep],
    )
    for failure in failures:
        raise failure.cause
    return list(drawn.values())


def _find_key(case: ParserCase) -> tuple[object, ...]:
    tools = tuple((tool.name, repr(tool.schema.source)) for tool in case.written.tools)
    return case.written.text, tools
