"""Generated turns as data: texts, what they mean, and cuts into chunks, for test suites that do not
run Python."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from grammars.parse.parser import Parser
from grammars.suite.checks import compare_reading, reads_back, reads_tags_in_values
from grammars.suite.draws import Draws
from grammars.suite.reading import CheckedParser, Claims
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
    # Raw text does not show whether 5 was meant as a number or as text.
    subject = CheckedParser(lambda tools: Parser(format, tools), format, Claims(exact=False))
    draws = Draws(subject, settings(max_examples=examples, database=None), seed)
    cases: dict[str, ParserCase] = {}
    for check, tags in ((reads_back, False), (reads_tags_in_values, True)):
        for written, cuts in draws.draw(draws.make_turns(tags=tags).flatmap(_cut)):
            compare_reading(subject, written, check=check.__name__)
            tools = [(tool.name, tool.schema.source) for tool in written.tools]
            case = ParserCase(check.__name__, written, cuts)
            cases.setdefault(json.dumps([written.text, tools]), case)
    return list(cases.values())


def _cut(written: Written) -> SearchStrategy[tuple[Written, list[list[str]]]]:
    cut = chunkings(written.text)
    return st.tuples(st.just(written), st.lists(cut, min_size=CHUNKINGS, max_size=CHUNKINGS))
