"""Cases for parsers as JSON Lines, in the row form of `constrained check` (`constrained suite
--export`)."""

from collections.abc import Iterable, Iterator

from constrained.inspect.conformance.finding import make_id
from constrained.inspect.conformance.parser_protocol import write_tools
from constrained.inspect.conformance.rows import CorpusRow, write_expected
from grammars.schema.json_values import Json
from grammars.suite.cases import draw_cases
from grammars.suite.parser_output import as_reading
from grammars.wire.format import Format

CASE_VERSION = 1
"""The version of the form of a case. It changes if a field changes its meaning or goes away."""


def export_cases(
    format: Format, *, rows: Iterable[CorpusRow], examples: int, seed: int
) -> Iterator[Json]:
    """Yields cases: generated turns, then recorded ones.

    Args:
        format: the wire format.
        rows: recorded turns; those of other formats, damaged ones and cut ones are left out.
        examples: the number of generated turns for each check.
        seed: of the generated turns.

    Raises:
        ParserFailure: our own parser reads a generated turn as something else.
    """
    for case in draw_cases(format, examples=examples, seed=seed):
        written = case.written
        reading = as_reading(written.turn, [])
        expected = {
            "content": reading.content,
            "reasoning": reading.reasoning,
            "calls": reading.calls,
        }
        request = {"tools": write_tools(written.tools), "text": written.text}
        yield {
            "version": CASE_VERSION,
            "id": make_id(case.check, request, format=format.name),
            "check": case.check,
            "format": format.name,
            **request,
            "chunkings": case.chunkings,
            "expect": write_expected(expected),
        }
    for row in rows:
        if row.format == format.name and row.is_whole:
            yield _export_row(row)


def _export_row(row: CorpusRow) -> Json:
    request = {"tools": write_tools(row.tools), "text": row.text}
    return {
        "version": CASE_VERSION,
        "id": make_id("recorded", request, format=row.format),
        "check": "recorded",
        "about": row.name,
        "format": row.format,
        **request,
        "chunkings": [list(row.text)],
        "expect": write_expected(row.expected),
    }
