"""Tool sets from JSON Lines files: rows with a `tools` list, in any shape."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from constrained.inspect.evaluation.rows import SAMPLE as BFCL
from constrained.prompt.format_selection.selection import SelectedFormat
from constrained.prompt.tools.shapes import as_openai, read_tools
from grammars.errors import Error
from grammars.turn_grammar.turn import build_grammar

SAMPLE = Path(__file__).parents[2] / "tests" / "data"
"""The data of the tests."""


def read_rows(paths: Iterable[str | Path]) -> Iterator[dict[str, Any]]:
    """Yields the rows of all files that have tools."""
    for path in paths:
        with Path(path).open(encoding="utf-8") as lines:
            for line in lines:
                if (row := json.loads(line)).get("tools"):
                    yield row


def sample_paths() -> list[Path]:
    """Returns the tool-set files of the sample."""
    return [BFCL, *sorted(SAMPLE.glob("tools_*.jsonl"))]


_ASKS = [{"role": "user", "content": "What is there to do?"}]


def usable(row: dict[str, Any], teaching: SelectedFormat) -> tuple[dict[str, Any], ...]:
    """Returns the tools of a row that the format can enforce and the template can write."""
    kept: dict[str, dict[str, Any]] = {}
    for tool in row["tools"]:
        try:
            build_grammar(teaching.format, read_tools([tool]))
            teaching.template.render(_ASKS, as_openai([tool]))
        except Error:
            continue
        kept.setdefault(tool.get("function", tool).get("name", "?"), tool)
    return tuple(kept.values())
