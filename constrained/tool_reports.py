"""What becomes of the schemas of tools: held by the mask, checked after generation, or refused."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from constrained.tools import Entry, read_entries
from grammars.errors import Error, SchemaError
from grammars.formats import HERMES
from grammars.lark import build_grammar
from grammars.schema import Json, Report
from grammars.wire import Format


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

    def to_json(self) -> dict[str, Json]:
        """The report as JSON."""
        shown: dict[str, Any] = {"name": self.name, "compiles": not self.is_refused}
        for part in fields(Report):
            shown[part.name] = [asdict(finding) for finding in getattr(self.report, part.name)]
        error = self.error
        why = error and {"pointer": error.where, "reason": error.message, "hint": error.hint}
        return {**shown, "refused": why}

    def describe(self) -> Iterator[str]:
        """The report in lines: a head, then what the mask does not hold as it stands there."""
        if self.error is not None:
            yield f"{self.name}: refused: {self.error}"
            return
        yield f"{self.name}: {len(self.report.enforced)} keywords held by the mask"
        for part in fields(Report):
            for finding in () if part.name == "enforced" else getattr(self.report, part.name):
                where = finding.pointer or "the root"
                reason = f" ({finding.reason})" if finding.reason else ""
                yield f"  {part.name}: {finding.keyword} at {where}{reason}"


def report_tools(tools: Any, format: Format = HERMES) -> tuple[ToolReport, ...]:
    """Reports on tools without a model.

    Args:
        tools: whatever `read_tools` reads.
        format: how calls are written; some formats cannot write every key.

    Raises:
        ToolError: not a list, not a tool, or two tools of the same name; `where` is the pointer.
    """
    return tuple(_report(entry, format) for entry in read_entries(tools))


def _report(entry: Entry, format: Format) -> ToolReport:
    try:
        tool = entry.lower()
        build_grammar(format, [tool])
    except SchemaError as e:
        return ToolReport(entry.name, Report(), e)
    return ToolReport(entry.name, tool.schema.report)
