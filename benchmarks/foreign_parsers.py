"""Checks the parsers of other projects with `constrained suite`: one line for each check that
fails.

    python -m benchmarks.foreign_parsers PATH_OF_VENV [--reports FOLDER] [--only PROJECT]

PATH_OF_VENV is a virtual environment as docs/testing-parsers.md describes it; parsers that it does
not contain are left out. Each finding is written into FOLDER as a report with a line that
reproduces it. Nothing of these projects is in this repository; `foreign/adapter` calls what their
servers call.
"""

import argparse
import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from constrained.conformance.parser_check import check_parser
from constrained.conformance.rows import CorpusRow, read_corpus, read_packaged_rows
from constrained.errors import RequestError
from constrained.format_selection.selection import read_tool_format
from constrained.terminal.output import print_json, print_table

ADAPTER = Path(__file__).parent / "foreign" / "adapter.py"
TIMEOUT = 20  # seconds for an answer; far more than any parser takes


@dataclass(frozen=True)
class ForeignParser:
    """A parser of another project: what it is called there, and which of our formats it reads."""

    project: str
    parser: str
    format: str


PARSERS = (
    ForeignParser("vllm", "hermes", "hermes"),
    ForeignParser("sglang", "hermes", "hermes"),
    ForeignParser("lmdeploy", "qwen3", "hermes"),
    ForeignParser("vllm-mlx", "hermes", "hermes"),
    ForeignParser("xinference", "qwen", "hermes"),
    ForeignParser("transformers", "qwen3", "hermes"),
    ForeignParser("qwen-agent", "nous", "hermes"),
    ForeignParser("vllm", "qwen3_coder", "qwen3_coder"),
    ForeignParser("sglang", "qwen3_coder", "qwen3_coder"),
    ForeignParser("lmdeploy", "qwen3coder", "qwen3_coder"),
    ForeignParser("vllm-mlx", "qwen3_coder", "qwen3_coder"),
    ForeignParser("xinference", "qwen", "qwen3_coder"),
    ForeignParser("transformers", "qwen3_5", "qwen3_coder"),
    ForeignParser("transformers", "gemma4", "gemma4"),
)


def find_versions(python: Path) -> dict[str, str]:
    """Returns the versions of the projects that are in an environment, by their names."""
    names = sorted({parser.project for parser in PARSERS})
    code = (
        "import importlib.metadata as m, json, sys\n"
        "found = {d.name.lower().replace('_', '-'): d.version for d in m.distributions()}\n"
        "print(json.dumps({name: found[name] for name in sys.argv[1:] if name in found}))"
    )
    result = subprocess.run([str(python), "-c", code, *names], capture_output=True, check=True)
    return json.loads(result.stdout)


def check(
    foreign: ForeignParser, python: Path, rows: Sequence[CorpusRow], examples: int
) -> Iterator[tuple[str, str]]:
    """Yields the names of the checks that fail, each with its report."""
    command = shlex.join([str(python), str(ADAPTER), foreign.project, foreign.parser])
    format = read_tool_format(foreign.format)
    report = check_parser(command, format, rows=rows, examples=examples, timeout=TIMEOUT)
    for finding in report.findings:
        yield finding.check, "\n".join(finding.describe())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--examples", type=int, default=200)
    options = parser.parse_args()
    python = options.venv / "bin" / "python"
    versions = find_versions(python)
    rows = list(read_corpus(read_packaged_rows()))
    table: list[dict[str, object]] = []
    for foreign in PARSERS:
        if foreign.project not in versions or options.only not in ("", foreign.project):
            continue
        name = f"{foreign.project} {versions[foreign.project]}"
        try:
            found = list(check(foreign, python, rows, options.examples))
        except RequestError as e:
            print_json({"parser": name, "error": str(e)})
            continue
        fails = sorted({check for check, _ in found})
        table.append({"project": name, "parser": foreign.parser, "format": foreign.format})
        table[-1] |= {"fails": ", ".join(fails) or "nothing"}
        if options.reports:
            options.reports.mkdir(parents=True, exist_ok=True)
            path = options.reports / f"{foreign.project}-{foreign.parser}-{foreign.format}.md"
            path.write_text("\n\n".join(report for _, report in found), encoding="utf-8")
    print_table(table)


if __name__ == "__main__":
    main()
