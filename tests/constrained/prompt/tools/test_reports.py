"""Reports on tools, without a model."""

import json
from pathlib import Path

import pytest

from constrained import report_tools
from constrained.cli.parser import main
from grammars.errors import ToolError
from grammars.wire.formats import QWEN3_CODER
from tests.templates import PAINT, tool

LOOSE = tool("loose", {"a": {"type": "string", "pattern": "(x|y)\\1"}})
BAD = tool("bad", {"a": {"$ref": "#/nowhere"}})


def test_reports_name_what_is_held_and_what_is_not() -> None:
    paint, loose, bad = report_tools([PAINT, LOOSE, BAD])
    assert paint.report.enforced
    assert not paint.report.checked
    assert [(f.pointer, f.keyword) for f in loose.report.checked] == [("/properties/a", "pattern")]
    assert "  checked after generation: pattern at /properties/a (" in "\n".join(loose.describe())
    assert bad.is_refused
    assert bad.error is not None
    assert (bad.error.where or "").endswith("/parameters/properties/a/$ref")
    assert next(iter(bad.describe())).startswith("bad: refused: ")
    assert bad.to_json()["refused"]["hint"]


def test_a_name_that_a_format_cannot_write_is_refused() -> None:
    tools = [tool("two words"), PAINT]
    refused, paint = report_tools(tools, QWEN3_CODER)
    assert refused.is_refused
    assert not paint.is_refused
    assert not any(report.is_refused for report in report_tools(tools))


def test_what_is_no_tool_is_an_error() -> None:
    with pytest.raises(ToolError):
        report_tools([{"description": "no name"}])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([PAINT, LOOSE]))
    assert main(["schema", "--tools", str(path)]) == 0
    assert "loose: 4 keywords enforced by the mask" in capsys.readouterr().out
    path.write_text(json.dumps([PAINT, BAD]))
    assert main(["schema", "--tools", str(path), "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["compiles"] for row in rows] == [True, False]


def test_reports_are_printed_in_a_few_lines() -> None:
    reports = report_tools([PAINT, LOOSE, BAD])
    paint, loose, bad = str(reports).splitlines()
    assert paint.startswith("<paint: ")
    assert paint.endswith(" enforced>")
    assert loose.endswith("1 checked>")
    assert bad.startswith("<bad: refused: ")
    assert repr(reports[1]) == loose
