"""The journal of a run in a store."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.agent.finished_run import Run
from constrained.agent.journal import Approval, CallPlace, Journal, Verdict
from constrained.agent.repetition import identify_call
from constrained.agent.runs.record_form import (
    read_reply,
    read_result,
    write_call,
    write_reply,
    write_result,
    write_tools,
)
from constrained.agent.runs.recorded_tools import find_entries, read_tool
from constrained.agent.runs.store import RUNNING, EventKind, RecordedEvent, RecordedRun, RunStore
from constrained.model.reply import Reply
from constrained.prompt.tools.call_result import CallResult


class Recorder(Journal):
    """Records the events of a run, each in a transaction, and finds earlier events.

    Args:
        run: the run.
        events: its earlier events.
        store: gets the events; None: nothing is written, since a replayed run is recorded already.
    """

    def __init__(
        self, run: RecordedRun, events: Sequence[RecordedEvent], store: RunStore | None = None
    ):
        self.id = run.id
        self._run = run
        self._events = list(events)
        self._by_turn = defaultdict[int, list[RecordedEvent]](list)
        for event in events:
            self._by_turn[event.turn].append(event)
        self._store = store

    def begin_turn(self, turn: int, seconds: float) -> float:
        known = self._find(EventKind.TURN, turn)
        if known is not None:
            return known["seconds"]
        self._note(EventKind.TURN, turn, {"seconds": seconds}, state=RUNNING)
        return seconds

    def note_tools(self, turn: int, tools: Sequence[Any]) -> None:
        written = write_tools(tools)
        if written != find_entries(self._run, self._events, turn):
            self._note(EventKind.TOOLS, turn, {"tools": written})

    def find_tools(self, turn: int) -> list[Any]:
        return [read_tool(entry) for entry in find_entries(self._run, self._events, turn)]

    def find_reply(self, turn: int) -> tuple[Reply, float] | None:
        known = self._find(EventKind.REPLY, turn)
        if known is None:
            return None
        return read_reply(known["reply"]), known["seconds"]

    def note_reply(self, turn: int, reply: Reply, seconds: float) -> None:
        self._note(EventKind.REPLY, turn, {"reply": write_reply(reply), "seconds": seconds})

    def find_verdict(self, place: CallPlace) -> Verdict | None:
        known = self._find(EventKind.VERDICT, place.turn, place)
        return None if known is None else known["verdict"]

    def note_verdict(self, place: CallPlace, verdict: Verdict) -> None:
        if isinstance(verdict, Approval):
            self._note_call(EventKind.WAITING, place, {})
        else:
            outcome = verdict if verdict is True or isinstance(verdict, str) else False
            self._note_call(EventKind.VERDICT, place, {"verdict": outcome})

    def find_result(self, place: CallPlace) -> CallResult | None:
        known = self._find(EventKind.RESULT, place.turn, place)
        return None if known is None else read_result(known["result"], place.call)

    def was_started(self, place: CallPlace) -> bool:
        return self._find(EventKind.BEGUN, place.turn, place) is not None

    def begin_call(self, place: CallPlace) -> None:
        # Also if it is recorded already: if another process continues this run, this one has to
        # fail.
        self._note_call(EventKind.BEGUN, place, {})

    def note_result(self, place: CallPlace, result: CallResult) -> None:
        self._note_call(EventKind.RESULT, place, {"result": write_result(result)})

    def close(self, run: Run) -> None:
        outcomes = [made.outcome.value for made in run.calls]
        body = {
            "reason": run.reason.value,
            "detail": run.detail,
            "outcomes": outcomes,
            "dropped": [result.message for result in run.dropped],
        }
        last = self._events[-1] if self._events else None
        if last is not None and last.kind is EventKind.END and dict(last.body) == body:
            return  # nothing has happened since then
        self._note(EventKind.END, run.steps - 1, body, state=run.reason.value)

    def _find(
        self, kind: EventKind, turn: int, place: CallPlace | None = None
    ) -> Mapping[str, Any] | None:
        """Returns the last event of this kind; for a call, only if it is the same call, since a
        turn that was generated again may have other calls."""
        for event in reversed(self._by_turn[turn]):
            if event.kind is not kind:
                continue
            if place is None:
                return event.body
            same = event.body.get("identity") == identify_call(place.call)
            if event.call == place.number and same:
                return event.body
        return None

    def _note_call(self, kind: EventKind, place: CallPlace, body: Mapping[str, Any]) -> None:
        identity = identify_call(place.call)
        whole = {"call": write_call(place.call), "identity": identity, **body}
        self._note(kind, place.turn, whole, call=place.number)

    def _note(
        self,
        kind: EventKind,
        turn: int,
        body: Mapping[str, Any],
        *,
        call: int | None = None,
        state: str | None = None,
    ) -> None:
        event = RecordedEvent(len(self._events), time.time(), kind, turn, call, body)
        if self._store is not None:
            self._store.append(self._run.id, event, state)
        self._events.append(event)
        self._by_turn[turn].append(event)
