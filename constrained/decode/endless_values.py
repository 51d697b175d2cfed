"""Values without end: calls and answers leave text that repeats itself, and the turn goes on.

Small models fall into loops inside one value: a list whose items repeat, a string that says the
same again and again. The grammar takes any number of them, so the turn would end where its tokens
do, and whatever had to follow would be made up. So the tokens of calls and answers are watched. A
tail is a loop if it repeats itself and is so long that no more tokens are left than it has taken.
It is left at the place of its period where the rest of the turn is the shortest: a list behind an
item, not inside one. There, the mask lets nothing but the beginning of that rest through, until the
grammar cannot go back into the loop. The model writes what follows.

Repetition that brings the end of the turn nearer, such as items that a list has to have, is none.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from constrained.decode.turn_part import TurnPart, TurnView
from constrained.vocabulary.vocabulary import Vocabulary, ends_inside
from grammars.ir.completion import TooLong
from grammars.schema.nodes import Json

LONGEST_PERIOD = 64  # tokens
FEWEST_PERIODS = 3
FEWEST_TOKENS = 16  # of a loop, however few are left
EARLY = 3  # at this part of its bound, a loop is looked at that may take more and more to end


@dataclass(frozen=True)
class EndedValue:
    """A value that repeated itself, and was ended.

    Args:
        where: JSON pointer into the reply, to the argument or the content that has the value.
        tokens: of the turn, before the end.
    """

    where: str
    tokens: int

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        return {"where": self.where, "tokens": self.tokens}


class Endings(Protocol):
    """Knows how texts end: a `Completer`."""

    def complete(self, text: str, room: int | None = None) -> str | TooLong | None: ...

    def find_departure(self, text: str, cycle: str, since: Sequence[int] = ()) -> str | None: ...


@dataclass(frozen=True)
class Loop:
    """The last tokens of a text, as far as they repeat themselves.

    Args:
        period: the tokens that come again and again.
        length: all of them.
    """

    period: int
    length: int


class LoopFinder:
    """Finds how far back a growing text repeats itself, exactly, with any period up to the longest.
    A token costs as many steps as the same token has come within that.

    Args:
        longest: the longest period, in tokens.
    """

    def __init__(self, longest: int = LONGEST_PERIOD):
        self._longest = longest
        self._size = 0  # of the text, in tokens
        self._places: dict[int, deque[int]] = {}  # of each token, the last ones
        # By period, the longest first: so many of the last tokens stood there a period before.
        self._repeated: dict[int, int] = {}

    def add(self, token: int) -> None:
        """The text has a token more."""
        places = self._places.setdefault(token, deque())
        while places and self._size - places[0] > self._longest:
            places.popleft()
        repeated: dict[int, int] = {}
        for place in places:
            period = self._size - place
            repeated[period] = self._repeated.get(period, 0) + 1
        self._repeated = repeated
        places.append(self._size)
        self._size += 1

    def find(self, fewest: int) -> Loop | None:
        """The loop of the shortest period among those that have so many tokens; None: there is
        none."""
        for period, repeated in reversed(self._repeated.items()):
            length = period + repeated
            if length >= fewest and length >= FEWEST_PERIODS * period:
                return Loop(period, length)
        return None

    def goes_on(self, loop: Loop) -> bool:
        """True if the text still has this period."""
        return self._repeated.get(loop.period, 0) + loop.period >= loop.length


@dataclass
class _Departure:
    """The place where a loop is left.

    Args:
        loop: that is left.
        at: so many tokens of the turn come before.
        text: the bytes to write there; none: the turn ends.
        start: where they begin, in bytes of the turn; None: the turn is not there yet.
    """

    loop: Loop
    at: int
    text: bytes
    start: int | None = None


class EndlessValues(TurnPart):
    """Ends the values of one turn that would go on without end.

    The first loop may take as many tokens as are left behind it and its ending, `most` at most;
    each that was left halves that for the next ones. A loop that takes more to end with each
    period, such as opening brackets, is left at a third of that.

    Args:
        endings: of texts of the turn.
        vocabulary: that of the model.
        most: tokens of a loop, at most.
        has_answer: the content of the turn has to have a form.
    """

    name = "endless values"

    def __init__(
        self,
        endings: Callable[[], Endings],
        vocabulary: Vocabulary,
        *,
        most: int,
        has_answer: bool,
    ):
        self._make_endings = endings
        self._endings: Endings | None = None  # until a loop is found
        self._vocabulary = vocabulary
        self.most = most
        self._has_answer = has_answer
        self._finder = LoopFinder()
        self._start: int | None = None  # tokens of the turn before the call or answer under way
        self._seen = 0  # tokens of the turn that the finder has, or need not have
        self._patience = 0  # no loop is looked for before the turn has so many tokens
        # Tokens of the shortest ending behind the loop under way, once it was looked at.
        self._behind: int | None = None
        self._departure: _Departure | None = None
        # Bytes of the turn, those of a prefix included, up to where loops were left.
        self._exits: list[int] = []
        self._ended: list[EndedValue] = []

    @property
    def ended(self) -> tuple[EndedValue, ...]:
        """The values that were ended."""
        return tuple(self._ended)

    def rewind(self, count: int) -> None:
        self._forget()
        self._ended = [value for value in self._ended if value.tokens < count]

    def _forget(self) -> None:
        self._finder = LoopFinder()
        self._start = self._departure = self._endings = self._behind = None
        self._patience = 0
        self._exits = []

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        so_far = turn.transcript
        is_held = so_far.is_in_call or (self._has_answer and not so_far.is_reasoning)
        if not is_held or so_far.is_healing:
            return
        if self._start != so_far.output_start:
            self._forget()
            self._start = self._seen = so_far.output_start
        for token in so_far.tokens[self._seen :]:
            self._finder.add(token)
            self._seen += 1
            if self._departure is None:
                self._look(turn)
        if self._departure is not None:
            self._depart(self._departure, logits, turn)

    def _look(self, turn: TurnView) -> None:
        """Looks whether the turn is in a loop, and where to leave it."""
        if self._seen < self._patience:
            return
        left = max(0, turn.limit - self._seen - (self._behind or 0))
        most = max(FEWEST_TOKENS, min(self.most, left) >> len(self._ended))
        loop = self._finder.find(max(FEWEST_TOKENS, most // EARLY))
        if loop is None:
            self._behind = None
        elif loop.length >= most or self._behind is None:
            self._weigh(loop, loop.length >= most, turn)

    def _weigh(self, loop: Loop, is_long: bool, turn: TurnView) -> None:
        """Plans to leave a loop that is long, or each period of which takes more tokens to end."""
        period = loop.period
        first = self._seen - 2 * period
        texts = self._list_texts(turn, first)
        place = self._choose_place([self._complete(text) for text in texts[:period]])
        if place is None:
            self._wait(loop)
            return
        best, before = place
        text = texts[best + period]
        behind = self._complete(text)
        if behind is None:
            self._wait(loop)
            return
        if len(behind) < len(before):
            self._patience = self._seen + max(period, FEWEST_TOKENS)
            return
        self._behind = len(self._vocabulary.encode(behind))
        if not is_long and len(behind) == len(before):
            return
        cycle = text[len(texts[best]) :]
        exits = [len(_read(text[:exit])) for exit in self._exits]
        departure = self._get_endings().find_departure(_read(text), _read(cycle), exits)
        if departure is None:
            self._wait(loop)
            return
        at = first + best + 1 + period
        self._departure = _Departure(loop, at, departure.encode())

    def _wait(self, loop: Loop) -> None:
        """A loop that cannot be left is looked for again once it is twice as long."""
        self._departure = None
        self._patience = self._seen + loop.length

    def _choose_place(self, endings: Sequence[str | None]) -> tuple[int, str] | None:
        """The place of a period where the rest of the turn is the shortest, and that rest; of
        several, one behind which it is longer: in an item that is whole."""
        known = [ending for ending in endings if ending is not None]
        if not known:
            return None
        shortest = min(known, key=len)
        places = list[int]()
        for place, ending in enumerate(endings):
            if ending is not None and len(ending) == len(shortest):
                places.append(place)
        for place in places:
            if (place + 1) % len(endings) not in places:
                return place, shortest
        return places[0], shortest

    def _complete(self, text: bytes) -> str | None:
        """The shortest ending behind a text; None where none is known, or a character is cut."""
        if ends_inside(text):
            return None
        ending = self._get_endings().complete(_read(text))
        return None if isinstance(ending, TooLong) else ending

    def _get_endings(self) -> Endings:
        if self._endings is None:
            self._endings = self._make_endings()
        return self._endings

    def _list_texts(self, turn: TurnView, first: int) -> list[bytes]:
        """The text of the turn behind each token that was seen, from `first` on."""
        assert turn.matcher is not None
        so_far = turn.transcript
        whole = so_far.measure(turn.matcher).text
        size = len(whole) - len(self._vocabulary.text(so_far.tokens[first:]))
        texts: list[bytes] = []
        for token in so_far.tokens[first : self._seen]:
            size += len(self._vocabulary.tokens[token])
            texts.append(whole[:size])
        return texts

    def _depart(self, departure: _Departure, logits: np.ndarray, turn: TurnView) -> None:
        """Forbids what does not leave the loop, once the turn is at the place for that."""
        data = turn.transcript.data
        if departure.start is None:
            if not self._finder.goes_on(departure.loop):
                self._departure = None  # the model has left it
                return
            while departure.at < self._seen:  # the grammar has left no choice there
                departure.at += departure.loop.period
            if departure.at > self._seen:
                return
            departure.start = len(data)
        written = bytes(data[departure.start :])
        if not departure.text.startswith(written) or (written and written == departure.text):
            self._departure = None
            return
        if not self._forbid(logits, departure.text[len(written) :], turn):
            self._wait(departure.loop)
            return
        if not written:
            assert turn.matcher is not None
            size = len(turn.transcript.measure(turn.matcher).text)
            self._exits.append(size + len(departure.text))
            self._ended.append(EndedValue(turn.transcript.find_place(), self._seen))

    def _forbid(self, logits: np.ndarray, rest: bytes, turn: TurnView) -> bool:
        """Forbids, in place, tokens that do not go along these bytes; False if there are no
        others."""
        along = self._choose(np.flatnonzero(np.isfinite(logits)).tolist(), rest, turn)
        if not along:
            return False
        kept = logits[along]
        logits[:] = -np.inf
        logits[along] = kept
        return True

    def _choose(self, allowed: Sequence[int], rest: bytes, turn: TurnView) -> list[int]:
        """The tokens that go along these bytes; where a special token spells them, no other one."""
        if not rest:
            ends = self._vocabulary.end if turn.matcher is None else turn.matcher.end_tokens
            return [token for token in allowed if token in ends]
        special: list[int] = []
        ordinary: list[int] = []
        for token in allowed:
            text = self._vocabulary.tokens[token]
            if token in self._vocabulary.structural:
                if text and rest.startswith(text):
                    special.append(token)
            elif text and (rest.startswith(text) or text.startswith(rest)):
                ordinary.append(token)
        return special or ordinary


def _read(text: bytes) -> str:
    return text.decode("utf-8", "replace")
