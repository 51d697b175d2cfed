"""How much of real tools' schemas the mask enforces, and how much is checked after generation.

    python -m benchmarks.tool_reports [PATH ...] [--format NAME]

PATHs are JSON Lines files whose rows have `tools`; each tool counts once. Without a PATH, the
committed sample. What the mask does not enforce is listed by keyword, with the first place.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.tools.reports import report_tools
from grammars.formats import FORMATS
from grammars.wire.format import Format, find_format


class Tally:
    """What has been found in one file."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.loose: dict[str, str] = {}
        self.refused: list[str] = []

    def add(self, tool: dict, format: Format) -> None:
        """Counts the keywords of a tool."""
        (report,) = report_tools([tool], format)
        self.counts["tools"] += 1
        if report.error is not None:
            self.refused.append(f"{report.name}: {report.error}")
        self.counts["enforced"] += len(report.report.enforced)
        self.counts["checked"] += len(report.report.checked)
        for finding in report.report.checked:
            self.counts[f"checked {finding.keyword}"] += 1
            place = f"{report.name}{finding.pointer} ({finding.reason})"
            self.loose.setdefault(finding.keyword, place)

    def show(self, name: str) -> None:
        """Prints what has been counted."""
        enforced, checked = self.counts["enforced"], self.counts["checked"]
        held = 100 * enforced / max(1, enforced + checked)
        print(
            f"{name:28} {self.counts['tools']:6} tools {len(self.refused):4} refused "
            f"{enforced:7} keywords enforced {checked:5} checked {held:7.2f} % held"
        )
        for keyword, place in self.loose.items():
            print(f"    {self.counts[f'checked {keyword}']:5} {keyword}: {place}")
        for line in self.refused:
            print(f"    refused {line}")


def count(path: str | Path, format: Format) -> Tally:
    """Returns the tally of one file."""
    tally, seen = Tally(), set[str]()
    for row in read_rows([path]):
        for tool in row["tools"]:
            text = json.dumps(tool, sort_keys=True)
            if text not in seen:
                seen.add(text)
                tally.add(tool, format)
    return tally


def main(words: Sequence[str] | None = None) -> None:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description="What the mask holds of tools")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="default: the committed sample")
    parser.add_argument("--format", default="hermes", help="how calls are written")
    options = parser.parse_args(words)
    format = find_format(options.format, FORMATS)
    if format is None:
        parser.error(f"unknown format {options.format}")
    for path in options.paths or sample_paths():
        count(path, format).show(Path(path).name)


if __name__ == "__main__":
    main()
