"""Reports on schemas of tools: what the mask enforces, and why a tool is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from constrained.prompt.tools.shapes import Entry, loosen_tool, read_entries
from grammars.errors import Error, SchemaError, ToolError
from grammars.schema.nodes import Finding, Report
from grammars.schema.subschemas import find_keyword
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import Format
from grammars.wire.formats import HERMES

STATES = tuple(part.name for part in fields(Report))  # "enforced" is the first
_WORDS = {
    "enforced": "enforced by the mask",
    "checked": "checked after generation",
    "repaired": "repaired",
    "narrowed": "refused in part by the mask",
    "ignored": "ignored",
}


def show_report(report: Report) -> dict[str, list[dict[str, str]]]:
    return {state: list(map(asdict, getattr(report, state))) for state in STATES}


def describe_report(report: Report, states: Sequence[str]) -> Iterator[str]:
    for state in states:
        for finding in getattr(report, state):
            line = f"{_WORDS[state]}: {finding.keyword} at {finding.pointer or 'the root'}"
            if finding.reason:
                line += f" ({finding.reason})"
            yield line


def explain_refusal(error: Error, hint: str | None = None) -> dict[str, str | None]:
    """Describes why something is refused: `{pointer, keyword, reason, hint}`."""
    where = error.where or ""
    why = Finding(where, find_keyword(where), error.message)
    return {**asdict(why), "hint": error.hint or hint}


@dataclass(frozen=True, repr=False)
class ToolReport:
    """How the schema of one tool is enforced.

    Args:
        name: the name of the tool.
        report: the keywords of the schema that are enforced, checked after generation, repaired,
            narrowed or ignored, with their JSON pointers. Empty if the tool is refused.
        error: why the schema cannot be enforced; None if it can.
    """

    name: str
    report: Report
    error: Error | None = None

    def __repr__(self) -> str:
        said = f"refused: {self.error}"
        if self.error is None:
            counts = {state: len(getattr(self.report, state)) for state in STATES}
            said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        return f"<{self.name}: {said or 'no keywords'}>"

    @property
    def is_refused(self) -> bool:
        """True if the schema cannot be enforced."""
        return self.error is not None

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        body: dict[str, Any] = {"name": self.name, "compiles": not self.is_refused}
        body |= show_report(self.report)
        body["refused"] = None
        if self.error is not None:
            body["refused"] = explain_refusal(self.error)
        return body

    def describe(self) -> Iterator[str]:
        """Yields lines of text: a heading, then each keyword that the mask does not enforce."""
        if self.error is not None:
            yield f"{self.name}: refused: {self.error}"
            return
        yield f"{self.name}: {len(self.report.enforced)} keywords enforced by the mask"
        for line in describe_report(self.report, STATES[1:]):
            yield f"  {line}"


class ToolReports(tuple[ToolReport, ...]):
    """The reports of several tools; printed, a line for each."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))


def report_tools(tools: Any, format: Format = HERMES) -> ToolReports:
    """Reports how the schemas of tools are enforced. Needs no model.

    Args:
        tools: as for `Model.call`.
        format: the wire format of calls; some formats cannot write every key or name.

    Returns:
        A report for each tool, in their order.

    Raises:
        ToolError: `tools` is not a list of tools; `where` is a JSON pointer into it.
    """
    return ToolReports(_report(entry, format) for entry in read_entries(tools))


def _report(entry: Entry, format: Format) -> ToolReport:
    try:
        tool = entry.lower()
    except SchemaError as e:
        return ToolReport(entry.name, Report(), e)
    ways = [tool, loosen_tool(tool)] if tool.strict else [tool]
    refused: Error | None = None
    for way in ways:
        try:
            build_grammar(format, [way])
            return ToolReport(entry.name, way.schema.report)
        except (SchemaError, ToolError) as e:
            refused = refused or e
    return ToolReport(entry.name, Report(), refused)
