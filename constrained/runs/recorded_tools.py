"""The tools of a recorded run: those that it began with, and those of turns that had others."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from constrained.errors import CallError
from constrained.runs.store import EventKind, RecordedEvent, RecordedRun
from constrained.tools.functions import FunctionTool


def find_entries(
    run: RecordedRun, events: Sequence[RecordedEvent], turn: int | None = None
) -> Sequence[Mapping[str, Any]]:
    """The tools of a turn, as `write_tools` has written them; None: those of the last one."""
    entries: Sequence[Mapping[str, Any]] = run.request["tools"]
    for event in events:
        if event.kind is EventKind.TOOLS and (turn is None or event.turn <= turn):
            entries = event.body["tools"]
    return entries


def read_tool(entry: Mapping[str, Any]) -> Any:
    """A tool of a record; its function is not there any more, so its calls fail."""
    if not entry["has_function"]:
        return entry["tool"]
    function = entry["tool"]["function"]
    return FunctionTool.from_schema(
        function["name"],
        function["parameters"],
        _refuse,
        description=function.get("description", ""),
        strict=function.get("strict"),
    )


def _refuse(**arguments: Any) -> NoReturn:
    raise CallError("the tool is not there any more", where="/name")
