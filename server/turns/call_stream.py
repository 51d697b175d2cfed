"""Calls of a turn as a stream tells them: opened, their arguments, done; in every format."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.events import Exhausted
from constrained.reply import TurnCallIds
from grammars.turn import ArgumentsDelta, CallOpened, CallRead
from server.ids import CallIds
from server.turns.active_request import Told


@dataclass(frozen=True)
class Opened:
    """A call has begun; `id` has no prefix."""

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class Arguments:
    """More of the JSON text of the arguments of the call under way."""

    index: int
    text: str


@dataclass(frozen=True)
class Closed:
    """The call under way is complete."""

    index: int


Part: TypeAlias = Opened | Arguments | Closed


class Calls:
    """The calls of one turn. Ids depend on the prompt and the number of the choice alone.

    A call that was begun only because the tokens had run out is none of the model's, and left out
    where none has to be there.

    Args:
        turn: what is generated.
        call_ids: learns what the model writes as ids.
        choice: which of several replies.
    """

    def __init__(self, turn: CompiledTurn, call_ids: CallIds, choice: int = 0):
        self._turn = turn
        self._call_ids = call_ids
        self._own_ids = TurnCallIds(turn, choice)
        self._ids: dict[int, str] = {}
        self._told: set[int] = set()  # calls of which arguments were told
        self._exhausted = False
        self._dropped: set[int] = set()

    @property
    def count(self) -> int:
        """How many calls there are so far."""
        return len(self._ids)

    def take(self, told: Told) -> Iterator[Part]:
        """What an event says of the calls; nothing of other events."""
        match told:
            case Exhausted():
                self._exhausted = True
            case CallOpened(index, name):
                yield from self._open(index, name)
            case ArgumentsDelta(index, text) if index not in self._dropped:
                self._told.add(index)
                yield Arguments(index, text)
            case CallRead(index, call):
                if index not in self._ids and index not in self._dropped:
                    yield from self._open(index, call.name)
                if index in self._dropped:
                    return
                if index not in self._told:
                    yield Arguments(index, json.dumps(call.arguments, ensure_ascii=False))
                self._call_ids.note(self._ids[index], call.id)
                yield Closed(index)
            case _:
                pass

    def _open(self, index: int, name: str) -> Iterator[Opened]:
        if self._exhausted and (self.count or not self._turn.requires_output):
            self._dropped.add(index)
            return
        self._ids[index] = id = self._own_ids.choose(index)
        yield Opened(index, id, name)
