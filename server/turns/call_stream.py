"""The calls of a turn, with their ids, as a stream shows them: started, arguments, finished."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.filters.events import Exhausted
from constrained.reply import TurnCallIds
from grammars.turn import ArgumentsDelta, CallOpened, CallRead
from server.ids import CallIds
from server.turns.active_request import TurnEvent


@dataclass(frozen=True)
class CallStarted:
    """A call begins; its `id` has no prefix yet."""

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class CallArguments:
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True)
class CallFinished:
    """A call is complete."""

    index: int


CallEvent: TypeAlias = CallStarted | CallArguments | CallFinished


class CallStream:
    """The calls of one turn. Ids depend on the prompt and the number of the choice alone.

    A call that begins only when the tokens have run out is not the model's own: it is left out,
    unless a call has to be there and there is no other.

    Args:
        turn: what is generated.
        call_ids: notes the ids that the model itself writes.
        choice: the number of the reply, of several.
    """

    def __init__(self, turn: CompiledTurn, call_ids: CallIds, choice: int = 0):
        self._turn = turn
        self._call_ids = call_ids
        self._own_ids = TurnCallIds(turn, choice)
        self._ids: dict[int, str] = {}
        self._with_arguments: set[int] = set()
        self._exhausted = False
        self._dropped: set[int] = set()

    @property
    def count(self) -> int:
        """The number of calls so far."""
        return len(self._ids)

    def take(self, event: TurnEvent) -> Iterator[CallEvent]:
        """The events of calls that an event of the turn brings; none for other events."""
        match event:
            case Exhausted():
                self._exhausted = True
            case CallOpened(index, name):
                yield from self._open(index, name)
            case ArgumentsDelta(index, text) if index not in self._dropped:
                self._with_arguments.add(index)
                yield CallArguments(index, text)
            case CallRead(index, call):
                if index not in self._ids and index not in self._dropped:
                    yield from self._open(index, call.name)
                if index in self._dropped:
                    return
                if index not in self._with_arguments:
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
        yield CallStarted(index, id, name)
