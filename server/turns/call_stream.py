"""The calls of a turn with their ids, as stream events: started, arguments, finished."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import from_json

from constrained.decode.filters.events import Exhausted
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import TurnCallIds
from grammars.turn import ArgumentsDelta, CallOpened, CallRead
from server.http.ids import CallIds
from server.turns.active_request import TurnEvent
from server.turns.offered_tools import INPUT, OfferedTools, ToolForm


@dataclass(frozen=True)
class CallStarted:
    """A call begins; its `id` has no prefix yet."""

    index: int
    id: str
    tool: ToolForm


@dataclass(frozen=True)
class CallArguments:
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True)
class CallInput:
    """More of the text that a custom tool takes."""

    index: int
    text: str


@dataclass(frozen=True)
class CallFinished:
    """A call is complete."""

    index: int


CallEvent: TypeAlias = CallStarted | CallArguments | CallInput | CallFinished


class CallStream:
    """The calls of one turn. Ids depend only on the prompt and the number of the choice.

    A call that begins only when the tokens have run out is not the model's own: it is left out,
    unless a call is required and there is no other.
    """

    def __init__(
        self,
        turn: CompiledTurn,
        call_ids: CallIds,
        choice: int = 0,
        tools: OfferedTools | None = None,
    ):
        self._turn = turn
        self._tools = tools or OfferedTools()
        self._call_ids = call_ids
        self._own_ids = TurnCallIds(turn, choice)
        self._ids: dict[int, str] = {}
        self._with_arguments: set[int] = set()
        self._exhausted = False
        self._dropped: set[int] = set()
        self._inputs: dict[int, _InputText] = {}  # of calls of custom tools

    @property
    def count(self) -> int:
        return len(self._ids)

    def take(self, event: TurnEvent) -> Iterator[CallEvent]:
        """Yields the call events that follow from an event of the turn; nothing for other
        events."""
        match event:
            case Exhausted():
                self._exhausted = True
            case CallOpened(index, name):
                yield from self._open(index, name)
            case ArgumentsDelta(index, text) if index not in self._dropped:
                self._with_arguments.add(index)
                if index not in self._inputs:
                    yield CallArguments(index, text)
                elif added := self._inputs[index].add(text):
                    yield CallInput(index, added)
            case CallRead(index, call):
                if index not in self._ids and index not in self._dropped:
                    yield from self._open(index, call.name)
                if index in self._dropped:
                    return
                if index in self._inputs:
                    if rest := self._inputs[index].finish(call.arguments):
                        yield CallInput(index, rest)
                elif index not in self._with_arguments:
                    yield CallArguments(index, json.dumps(call.arguments, ensure_ascii=False))
                self._call_ids.note(self._ids[index], call.id)
                yield CallFinished(index)
            case _:
                pass

    def _open(self, index: int, name: str) -> Iterator[CallStarted]:
        if self._exhausted and (self.count or not self._turn.policy.requires_output):
            self._dropped.add(index)
            return
        self._ids[index] = id = self._own_ids.choose(index)
        form = self._tools.find_form(name)
        if form.is_custom:
            self._inputs[index] = _InputText()
        yield CallStarted(index, id, form)


class _InputText:
    """The text of a custom tool, read from its function's arguments while they are generated."""

    def __init__(self) -> None:
        self._arguments = ""
        self._sent = ""

    def add(self, arguments: str) -> str:
        """Takes more of the JSON; returns the new part of the text."""
        self._arguments += arguments
        try:
            read = from_json(self._arguments, allow_partial="trailing-strings")
        except ValueError:  # it ends inside an escape
            return ""
        return self._send(read)

    def finish(self, arguments: Any) -> str:
        return self._send(arguments)

    def _send(self, arguments: Any) -> str:
        text = arguments.get(INPUT) if isinstance(arguments, dict) else None
        if not isinstance(text, str) or not text.startswith(self._sent):
            return ""
        added = text[len(self._sent) :]
        self._sent = text
        return added
