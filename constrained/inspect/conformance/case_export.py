"""Cases for parsers as JSON Lines, in the row form of `constrained check` (`constrained suite
--export`): texts, what they mean, and cuts into chunks, for test suites that do not run Python."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from constrained.inspect.conformance.finding import make_id
from constrained.inspect.conformance.parser_check import write_tools
from constrained.inspect.conformance.rows import CorpusRow, write_expected
from grammars.parse.parser import Parser
from grammars.schema.json_values import JsonObject
from grammars.suite.checks import compare_reading, reads_back, reads_tags_in_values
from grammars.suite.draws import Draws
from grammars.suite.parser_output import as_reading
from grammars.suite.reading import CheckedParser, Claims
from grammars.suite.strategies import Written, chunkings
from grammars.turn import Tool
from grammars.wire.format import Format

CASE_VERSION = 1
"""The version of the form of a case. It changes if a field changes its meaning or goes away."""
CHUNKINGS = 3
"""Cuts of each text."""


def export_cases(
    format: Format, *, rows: Iterable[CorpusRow], examples: int, seed: int
) -> Iterator[JsonObject]:
    """Yields cases: turns without and with tags of the format in values, then recorded ones. Our
    own parser has read each turn as it was meant. The same seed gives the same turns with the same
    version of Hypothesis.

    Args:
        rows: recorded turns; those of other formats, damaged ones and cut ones are left out.
        examples: the number of turns for each of the two checks; equal ones are left out.

    Raises:
        ParserFailure: our own parser reads a turn as something else.
    """
    # Raw text does not show whether 5 was meant as a number or as text.
    subject = CheckedParser(lambda tools: Parser(format, tools), format, Claims(exact=False))
    draws = Draws(subject, settings(max_examples=examples, database=None), seed)
    known: set[str] = set()
    for check, tags in ((reads_back, False), (reads_tags_in_values, True)):
        for written, chunks in draws.draw(draws.make_turns(tags=tags).flatmap(_cut)):
            compare_reading(subject, written)
            expected = write_expected(vars(as_reading(written.turn, [])))
            case = _write_case(check.name, format.name, written.tools, written.text)
            case |= {"chunkings": chunks, "expect": expected}
            # The same text may be drawn for both checks.
            key = make_id("", {"tools": case["tools"], "text": written.text}, format=format.name)
            if key not in known:
                known.add(key)
                yield case
    for row in rows:
        if row.format == format.name and row.is_whole:
            case = _write_case("recorded", row.format, row.tools, row.text)
            expected = write_expected(row.expected)
            yield case | {"about": row.name, "chunkings": [list(row.text)], "expect": expected}


def _write_case(check: str, format: str, tools: Sequence[Tool], text: str) -> dict[str, Any]:
    request = {"tools": write_tools(tools), "text": text}
    id = make_id(check, request, format=format)
    return {"version": CASE_VERSION, "id": id, "check": check, "format": format, **request}


def _cut(written: Written) -> SearchStrategy[tuple[Written, list[list[str]]]]:
    cut = chunkings(written.text)
    return st.tuples(st.just(written), st.lists(cut, min_size=CHUNKINGS, max_size=CHUNKINGS))
