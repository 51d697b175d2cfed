"""Exports recorded runs as tests: rows for `constrained check`, and pytest files."""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.agent.runs.record_form import read_reply
from constrained.agent.runs.recorded_tools import find_entries, read_run_tools
from constrained.agent.runs.replay import Replayed, replay
from constrained.agent.runs.store import EventKind, RecordedEvent, RecordedRun
from constrained.prompt.tools.shapes import as_openai
from grammars.turn import ToolCall

_TEST = '''"""A recorded run goes the same way with what the model said and the tools returned."""

import json

from constrained.agent.runs.export import replay_record

TOOLS = None  # or those of today: calls are checked against their schemas, read-only ones repeated
RECORD = json.loads(
{lines}
)


def test_run_{id}() -> None:
    assert replay_record(RECORD, TOOLS).differences == ()
'''


def export_rows(run: RecordedRun, events: Sequence[RecordedEvent]) -> list[dict[str, Any]]:
    """Writes a row for `constrained check` for each turn that was not cut: its prompt, its text,
    and the expected calls."""
    messages = replay(run, events).messages
    tools = read_run_tools(run)
    searching: list[Any] = []
    if tools.search is not None:
        searching.append(tools.search.tool.to_json())
    turns = [number for number, one in enumerate(messages) if one["role"] == "assistant"]
    replies = [event for event in events if event.kind is EventKind.REPLY]
    rows: list[dict[str, Any]] = []
    # The conversation may have begun with assistant turns.
    for event, number in zip(replies, turns[len(turns) - len(replies) :], strict=True):
        reply = read_reply(event.body["reply"])
        if reply.finish_reason in ("length", "cancelled"):
            continue
        row = {
            "id": f"run {run.id}, turn {event.turn + 1}",
            "template": run.request["template"],
            **run.request["tokens"],
            "tools": [entry["tool"] for entry in find_entries(run, events, event.turn)] + searching,
            "hidden_tools": as_openai(tools.list_hidden(messages[:number])),
            "messages": messages[:number],
            "text": reply.text,
            "expect": {"accepted": True, "tool_calls": [_show(call) for call in reply.calls]},
        }
        rows.append(row)
    return rows


def _show(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments, "valid": call.valid}


def export_test(run: RecordedRun, events: Sequence[RecordedEvent]) -> str:
    """Writes a pytest file that contains the record."""
    record = {
        "run": {**dataclasses.asdict(run), "request": dict(run.request)},
        "events": [{**vars(event), "body": dict(event.body)} for event in events],
    }
    text = json.dumps(record)
    lines = [f"    {part!r}" for part in textwrap.wrap(text, 90, drop_whitespace=False)]
    return _TEST.format(lines="\n".join(lines), id=run.id)


def replay_record(record: Mapping[str, Any], tools: Sequence[Any] | None = None) -> Replayed:
    """Replays a run that `export_test` has written; see `replay`."""
    run = RecordedRun(**record["run"])
    events: list[RecordedEvent] = []
    for event in record["events"]:
        events.append(RecordedEvent(**{**event, "kind": EventKind(event["kind"])}))
    return replay(run, events, tools)
