"""Replays a recorded run without a model, with the recorded replies, verdicts and results.

It reports differences: calls that their tools would refuse now, other results of read-only tools,
and the place where the run would continue differently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from constrained.agent.actions import Actions, Approve, NextTurn, Note, complete
from constrained.agent.finished_run import Run
from constrained.agent.journal import Verdict
from constrained.agent.judge import RunLimits
from constrained.agent.loop import AgentLoop
from constrained.agent.run import drive, split_options
from constrained.agent.run_tools import RunTools
from constrained.agent.runs.record_form import read_options, read_reply, read_result
from constrained.agent.runs.recorded_run import decide_later
from constrained.agent.runs.recorded_tools import assign_tools, read_run_tools
from constrained.agent.runs.recorder import Recorder
from constrained.agent.runs.store import EventKind, RecordedEvent, RecordedRun
from constrained.model.reply import Reply
from constrained.prompt.tools.call_result import CallResult
from constrained.prompt.tools.execution import call_function, format_result
from constrained.prompt.tools.functions import FunctionTool, as_tool
from constrained.prompt.tools.shapes import read_entries
from grammars.turn import ToolCall


class RecordEndedError(Exception):
    """The record has no more events: the process died here, or the run waits."""


@dataclass(frozen=True)
class Difference:
    """A difference from the record.

    Args:
        turn: from 0.
        call: its number in the turn; None: the difference is not about a call.
        recorded, now: descriptions.
    """

    turn: int
    call: int | None
    recorded: str
    now: str


@dataclass(frozen=True)
class Replayed:
    """A replayed run.

    Args:
        messages: the conversation, as far as the record goes.
        run: its result; None: the record ends before the run does.
        differences: in order.
    """

    messages: Sequence[Mapping[str, Any]]
    run: Run | None
    differences: tuple[Difference, ...]


class _Recorded(Actions):
    """Actions for a run that come only from its record."""

    async def generate(self, request: NextTurn, note: Note | None) -> Reply:
        raise RecordEndedError

    async def ask(self, approve: Approve, call: ToolCall) -> Verdict:
        return approve(call)  # type: ignore[return-value]  which is one of the two below

    def begin(self, call: ToolCall, tools: Sequence[Any]) -> NoReturn:
        raise RecordEndedError

    async def finish(self, execution: Any) -> CallResult:
        raise RecordEndedError

    async def execute(self, call: ToolCall, tools: Sequence[Any]) -> CallResult:
        raise RecordEndedError


def replay(
    run: RecordedRun, events: Sequence[RecordedEvent], tools: Sequence[Any] | None = None
) -> Replayed:
    """Replays a run.

    Args:
        run: the recorded run.
        events: of the run.
        tools: the current tools; calls are checked against their schemas, functions of read-only
            tools are called, and their results compared. None: the recorded tools.

    Raises:
        RequestError: a tool of the run is missing.
    """
    run_tools, given = read_run_tools(run), list[Any]()
    if tools is not None:
        run_tools = assign_tools(run, events, tools)
        given = list(map(as_tool, run_tools.repeatable))
    options = read_options(run.request["options"]) | run_tools.options
    if run.request["has_approve"]:
        options["approve"] = decide_later
    # The run may have been resumed with a higher limit.
    replies = sum(event.kind is EventKind.REPLY for event in events)
    options["max_steps"] = max(options.get("max_steps", RunLimits.max_steps), replies)
    options["on_interrupted"] = _allow  # counts as executed where the record ends
    recorder = Recorder(run, [event for event in events if event.kind is not EventKind.END])
    loop, finished = _go_through(run.request["messages"], run_tools.shown, options, recorder)
    differences = [*_compare_calls(events, given), *_compare_end(events, finished)]
    return Replayed(loop.whole_messages, finished, tuple(differences))


def _go_through(
    messages: Any, tools: RunTools, options: dict[str, Any], recorder: Recorder
) -> tuple[AgentLoop, Run | None]:
    settings, turn_options = split_options(options, recorder)
    loop = settings.make_loop(messages, tools, turn_options)
    try:
        return loop, complete(drive(loop, _Recorded(), settings))
    except RecordEndedError:
        return loop, None


def _allow(call: ToolCall) -> bool:
    return True


def _compare_calls(events: Sequence[RecordedEvent], tools: Sequence[Any]) -> list[Difference]:
    """Describes the calls and results that differ with the current tools."""
    by_name = {tool.name: tool for tool in tools if isinstance(tool, FunctionTool)}
    entries = {entry.name: entry for entry in read_entries(tools, max_tools=len(tools))}
    replies: dict[int, Reply] = {}
    found: list[Difference] = []
    for event in events:
        if event.kind is EventKind.REPLY:
            replies[event.turn] = read_reply(event.body["reply"])
            for number, call in enumerate(replies[event.turn].calls):
                entry = entries.get(call.name)
                if entry is not None and not entry.lower().schema.admits(call.arguments):
                    now = f"{call.name}: the arguments do not fit its schema"
                    found.append(Difference(event.turn, number, "a valid call", now))
        elif event.kind is EventKind.RESULT and event.call is not None:
            call = replies[event.turn].calls[event.call]
            tool = by_name.get(call.name)
            recorded = read_result(event.body["result"], call)
            if tool is None or not tool.read_only or recorded.outcome != "done":
                continue
            now = _call_again(call, tools)
            if now != recorded.content:
                found.append(Difference(event.turn, event.call, recorded.content, now))
    return found


def _call_again(call: ToolCall, tools: Sequence[Any]) -> str:
    try:
        return format_result(call_function(call, tools))
    except (Exception, SystemExit) as e:  # the function is the user's, and may raise any error
        return f"{type(e).__name__}: {e}"


def _compare_end(events: Sequence[RecordedEvent], finished: Run | None) -> list[Difference]:
    """Describes how the end of the run differs."""
    if not events or events[-1].kind is not EventKind.END:  # it is unfinished, or has a new verdict
        return []
    end = events[-1]
    recorded = f"{end.body['reason']}: {', '.join(end.body['outcomes'])}"
    now = "the record is not complete"
    if finished is not None:
        now = f"{finished.reason}: {', '.join(made.outcome for made in finished.calls)}"
    if now == recorded:
        return []
    return [Difference(end.turn, None, recorded, now)]
