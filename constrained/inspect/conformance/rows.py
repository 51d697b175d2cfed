"""Corpora for parsers: recorded turns, in the row form of `constrained check`.

The rows of the package are failures that others have reported. A row without `expect` expects what
our own parser reads, if the grammar of its format accepts the text. A text that the grammar accepts
but no model should write is marked as `damaged` in its row.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from constrained.inspect.replay.check import check_rows, read_rows
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import Error
from grammars.suite.parser_output import Reading
from grammars.suite.reading import Claims
from grammars.turn import Tool

_FIELDS = {"content": "content", "reasoning_content": "reasoning", "tool_calls": "calls"}
"""Fields of an answer of `constrained check` -> those of a reading."""


@dataclass(frozen=True)
class CorpusRow:
    """A recorded turn, and the expected reading."""

    name: str  # what holds; with its thread, if it has one
    format: str
    tools: tuple[Tool, ...]
    text: str
    expected: Mapping[str, Any]  # the fields of `Reading` that are known
    is_whole: bool  # the text is a turn as the format writes it, neither damaged nor cut short
    # ways to cut it; (): into single characters, if it is whole
    chunkings: Sequence[Sequence[str]] = ()
    check: str = ""  # the name of a check of the suite that judges the text if nothing is expected

    def suits(self, claims: Claims) -> bool:
        """Returns whether a parser with these claims has to read this."""
        if not claims.damage and not self.is_whole:
            return False
        return claims.reasoning or not self.expected.get("reasoning")

    def complete(self, got: Reading) -> Reading:
        """Returns the expected reading; fields that the row does not state are taken from `got`."""
        known = dict(self.expected)
        return Reading(
            content=known.get("content", got.content + got.unfinished),
            reasoning=known.get("reasoning", got.reasoning),
            calls=known.get("calls", got.calls),
        )


def read_packaged_rows() -> Iterator[Mapping[str, Any] | Error]:
    folder = files("constrained.inspect.conformance").joinpath("recorded")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        yield from read_rows(file.read_bytes().splitlines())


def read_corpus(rows: Iterable[Mapping[str, Any] | Error]) -> Iterator[CorpusRow]:
    """Yields the rows that a parser can be checked with: they name a format, begin at the start of
    a turn, and expect something of content, reasoning or calls, or name a check. A finding of
    `constrained suite` stands for its row.

    Raises:
        Error: a row cannot be read.
    """
    for number, row in enumerate(rows, 1):
        if isinstance(row, Error):
            raise row
        row = row.get("row") or row
        if not isinstance(row.get("format"), str) or row.get("reasoning_format"):
            continue
        answer = next(check_rows([row]))
        if answer["format"] is None:
            continue
        is_whole = answer["accepted"] and answer["complete"] and not row.get("damaged")
        recorded = row.get("expect")
        if recorded is None and is_whole:
            recorded = answer
        expected = _read_expected(recorded) if isinstance(recorded, Mapping) else {}
        check = "" if expected else str(row.get("check", ""))
        if not expected and not check:
            continue
        name = str(row.get("id", f"row {number}"))
        if thread := row.get("thread"):
            name += f" ({thread})"
        tools = read_tools(row.get("tools") or [])
        yield CorpusRow(
            name,
            format=answer["format"],
            tools=tools,
            text=row["text"],
            expected=expected,
            is_whole=is_whole,
            chunkings=row.get("chunkings") or (),
            check=check,
        )


def _read_expected(fields: Mapping[str, Any]) -> dict[str, Any]:
    expected = {_FIELDS[key]: value for key, value in fields.items() if key in _FIELDS}
    if "calls" in expected:
        expected["calls"] = [(call["name"], call["arguments"]) for call in expected["calls"]]
    return expected


def write_expected(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns known fields of a reading as fields of an answer of `constrained check`."""
    expected = {key: fields[name] for key, name in _FIELDS.items() if name in fields}
    if "tool_calls" in expected:
        calls = expected["tool_calls"]
        expected["tool_calls"] = [{"name": name, "arguments": value} for name, value in calls]
    return expected
