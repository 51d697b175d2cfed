"""What becomes of the schemas of tools: held by the mask, checked after generation, or refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from constrained.tools.findings import STATES, describe_report, explain_refusal, show_report
from constrained.tools.shapes import Entry, read_entries
from grammars.build.turn import build_grammar
from grammars.errors import Error, SchemaError, ToolError
from grammars.formats import HERMES
from grammars.schema.nodes import Report
from grammars.wire.format import Format


@dataclass(frozen=True)
class ToolReport:
    """What becomes of one tool.

    Args:
        name: its name.
        report: what of its schema is held and what is not; empty if the tool is refused.
        error: why it is refused: what is wrong, the JSON pointer, and what to do about it.
    """

    name: str
    report: Report
    error: Error | None = None

    @property
    def is_refused(self) -> bool:
        """Can the tool not be offered?"""
        return self.error is not None

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        refused = None if self.error is None else explain_refusal(self.error)
        return {
            "name": self.name,
            "compiles": not self.is_refused,
            **show_report(self.report),
            "refused": refused,
        }

    def describe(self) -> Iterator[str]:
        """The report in lines: a head, then what the mask does not hold as it stands there."""
        if self.error is not None:
            yield f"{self.name}: refused: {self.error}"
            return
        yield f"{self.name}: {len(self.report.enforced)} keywords held by the mask"
        rest = [state for state in STATES if state != "enforced"]
        yield from (f"  {line}" for line in describe_report(self.report, rest))


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
