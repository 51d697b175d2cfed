"""Five faults that many parsers of tool calls have: each is found, and its text is made small."""

import json
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings

from grammars.parse.parser import parse
from grammars.suite import Reading
from grammars.suite.checks import SuiteCheck, reads_back, reads_tags_in_values
from grammars.suite.parser_output import as_reading
from grammars.suite.run import find_failures
from grammars.turn import Tool
from grammars.wire.formats import HERMES

Parse = Callable[[str, Sequence[Tool]], Reading]


def read_well(text: str, tools: Sequence[Tool]) -> Reading:
    return as_reading(parse(text, HERMES, tools), [])


def end_at_the_first_tag(text: str, tools: Sequence[Tool]) -> Reading:
    bodies = re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)
    reading = read_well(text, tools)
    if len(bodies) == len(reading.calls):
        for body in bodies:
            json.loads(body)
    return reading


def end_at_the_first_brace(text: str, tools: Sequence[Tool]) -> Reading:
    reading = read_well(text, tools)
    read = [re.search(r"\{.*?\}", json.dumps(value)) for _, value in reading.calls]
    calls = [
        (name, found[0]) for (name, _), found in zip(reading.calls, read, strict=True) if found
    ]
    return Reading(reading.content, reading.reasoning, calls)


def unescape_quotes(text: str, tools: Sequence[Tool]) -> Reading:
    return read_well(text.replace('\\"', '"'), tools)


def decode_each_piece(text: str, tools: Sequence[Tool]) -> Reading:
    data = text.encode()
    pieces = [data[start : start + 5] for start in range(0, len(data), 5)]
    return read_well("".join(piece.decode(errors="replace") for piece in pieces), tools)


def take_all_as_text(text: str, tools: Sequence[Tool]) -> Reading:
    reading = read_well(text, tools)
    calls = [
        (name, {key: str(item) for key, item in value.items()}) for name, value in reading.calls
    ]
    return Reading(reading.content, reading.reasoning, calls)


@pytest.mark.parametrize(
    ("fault", "check", "culprit"),
    [
        (end_at_the_first_tag, reads_tags_in_values, r'".*</tool_call>.*"'),
        (end_at_the_first_brace, reads_back, r": \{\"\w+\": (\"[^\"]*\}|\{)"),
        (unescape_quotes, reads_back, r'\\"'),
        (decode_each_piece, reads_back, r"[^\x00-\x7f]"),
        (take_all_as_text, reads_back, r": (-?\d|true|false|null|\[|\{)"),
    ],
)
def test_a_common_fault_is_found_and_made_small(
    fault: Parse, check: SuiteCheck, culprit: str
) -> None:
    (failure,) = find_failures(
        lambda tools: lambda text: fault(text, tools),
        HERMES,
        settings=settings(max_examples=60, derandomize=True, database=None),
        checks=[check],
    )
    assert re.search(culprit, failure.text)
    assert failure.text.count("<tool_call>\n") <= 1
    assert len(failure.text) < 120
