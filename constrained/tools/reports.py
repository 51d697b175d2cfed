"""Reports on schemas of tools: which keywords the mask enforces, which are checked after
generation, which are repaired or ignored, and why a tool is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from constrained.tools.shapes import Entry, read_entries
from grammars.build.turn import build_grammar
from grammars.errors import Error, SchemaError, ToolError
from grammars.formats import HERMES
from grammars.schema.nodes import Finding, Report
from grammars.schema.subschemas import find_keyword
from grammars.wire.format import Format

STATES = tuple(part.name for part in fields(Report))  # "enforced" is the first
_WORDS = {
    "enforced": "held by the mask",
    "checked": "checked after generation",
    "repaired": "repaired",
    "narrowed": "refused in part by the mask",
    "ignored": "ignored",
}


def show_report(report: Report) -> dict[str, list[dict[str, str]]]:
    """The findings of each state as `{pointer, keyword, reason}`."""
    return {state: list(map(asdict, getattr(report, state))) for state in STATES}


def describe_report(report: Report, states: Sequence[str]) -> Iterator[str]:
    """The findings of some states, one a line."""
    for state in states:
        for finding in getattr(report, state):
            line = f"{_WORDS[state]}: {finding.keyword} at {finding.pointer or 'the root'}"
            if finding.reason:
                line += f" ({finding.reason})"
            yield line


def explain_refusal(error: Error, hint: str | None = None) -> dict[str, str | None]:
    """Why something is refused: `{pointer, keyword, reason, hint}`.

    Args:
        hint: what to do if the error does not say it.
    """
    where = error.where or ""
    why = Finding(where, find_keyword(where), error.message)
    return {**asdict(why), "hint": error.hint or hint}


@dataclass(frozen=True)
class ToolReport:
    """The report on one tool.

    Args:
        name: its name.
        report: the findings on the keywords of its schema; empty if the tool is refused.
        error: why it is refused: what is wrong, the JSON pointer, and what to do about it.
    """

    name: str
    report: Report
    error: Error | None = None

    @property
    def is_refused(self) -> bool:
        """True if the tool cannot be offered."""
        return self.error is not None

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        body: dict[str, Any] = {"name": self.name, "compiles": not self.is_refused}
        body |= show_report(self.report)
        body["refused"] = None
        if self.error is not None:
            body["refused"] = explain_refusal(self.error)
        return body

    def describe(self) -> Iterator[str]:
        """The report in lines: a heading, then the keywords that the mask does not enforce."""
        if self.error is not None:
            yield f"{self.name}: refused: {self.error}"
            return
        yield f"{self.name}: {len(self.report.enforced)} keywords held by the mask"
        for line in describe_report(self.report, STATES[1:]):
            yield f"  {line}"


def report_tools(tools: Any, format: Format = HERMES) -> tuple[ToolReport, ...]:
    """Reports on tools without a model.

    Args:
        tools: whatever `read_tools` reads.
        format: how calls are written; some formats cannot write every key or name.

    Raises:
        ToolError: not a list, or not a tool; `where` is the pointer.
    """
    return tuple(_report(entry, format) for entry in read_entries(tools))


def _report(entry: Entry, format: Format) -> ToolReport:
    try:
        tool = entry.lower()
        build_grammar(format, [tool])
    except (SchemaError, ToolError) as e:
        return ToolReport(entry.name, Report(), e)
    return ToolReport(entry.name, tool.schema.report)
