"""One owner cannot hold all sequences while others come and go; a single owner may."""

from typing import Any

import pytest

from constrained.decode.request import DecodeInput, PassingOwner, Request
from constrained.decode.schedule.admission import AWAITED, AdmissionOrder, Seat
from grammars.parse.parser import Parser
from grammars.wire.formats import HERMES

ANONYMOUS = PassingOwner()


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def seat(owner: Any) -> Seat:
    return Seat(Request(DecodeInput((1,), lambda: Parser(HERMES, ())), owner=owner))


class Room:
    """Sequences whose requests end when the test says so."""

    def __init__(self, sequences: int):
        self.clock = Clock()
        self.order = AdmissionOrder(sequences, self.clock)
        self.sequences = sequences
        self.waiting: list[Seat] = []
        self.running: list[Seat] = []

    def ask(self, owner: Any, count: int = 1) -> None:
        for _ in range(count):
            self.waiting.append(seat(owner))
            self.order.note_arrival(self.waiting[-1])
        self.admit()

    def admit(self) -> None:
        while len(self.running) < self.sequences:
            admissible = self.order.sort(self.waiting, self.running)
            if not admissible:
                return
            self.waiting.remove(admissible[0])
            self.order.note_admission(admissible[0], self.waiting)
            self.running.append(admissible[0])

    def end(self, owner: Any) -> None:
        ended = next(one for one in self.running if one.owner == owner)
        self.running.remove(ended)
        self.order.note_end(ended)
        self.admit()

    def count(self, owner: Any) -> int:
        return sum(one.owner == owner for one in self.running)


@pytest.mark.parametrize("sequences", [1, 2, 4])
def test_a_single_owner_may_use_all_sequences(sequences: int) -> None:
    room = Room(sequences)
    room.ask("one", 6)
    assert room.count("one") == sequences


@pytest.mark.parametrize("sequences", [2, 3, 4, 8])
def test_a_sequence_is_kept_for_an_owner_that_was_seen(sequences: int) -> None:
    room = Room(sequences)
    room.ask("other")
    room.end("other")
    room.ask("many", 20)
    assert room.count("many") == sequences - 1
    room.ask("other")
    assert room.count("other") == 1
    room.clock.now = AWAITED * 3  # a long reply; its client comes back after it
    room.end("other")
    assert room.count("many") == sequences - 1


def test_the_sequence_is_given_away_after_some_time() -> None:
    room = Room(4)
    room.ask("other")
    room.end("other")
    room.ask("many", 6)
    room.clock.now = AWAITED
    room.admit()
    assert room.count("many") == 4


def test_two_owners_cannot_shut_out_a_third() -> None:
    room = Room(4)
    for owner in ("third", "many", "more"):
        room.ask(owner)
        room.end(owner)
    room.ask("many", 6)
    room.ask("more", 6)
    assert room.count("many") == 3
    assert room.count("more") == 1
    room.end("many")  # nobody else may have it while the third one is awaited
    assert room.count("many") + room.count("more") == 3
    room.ask("third")
    assert room.count("third") == 1
    # All three run now: nobody is awaited.
    room.end("many")
    assert len(room.running) == 4


@pytest.mark.parametrize("owner", [None, ANONYMOUS])
def test_nothing_is_kept_for_those_that_do_not_come_back(owner: Any) -> None:
    room = Room(3)
    room.ask(owner)
    room.running.clear()
    room.ask("many", 5)
    assert room.count("many") == 3
    room.running.clear()
    room.waiting.clear()
    room.order = AdmissionOrder(3, room.clock)
    room.ask(ANONYMOUS)
    room.end(ANONYMOUS)
    alone = PassingOwner()
    room.ask(alone, 5)  # choices of one request
    assert room.count(alone) == 3


def test_owners_are_forgotten() -> None:
    room = Room(3)
    for number in range(1_000):
        room.ask(number)
        room.end(number)
    assert len(room.order._seen) == 3
