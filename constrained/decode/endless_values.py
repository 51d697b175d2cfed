"""Values without end: calls and answers leave text that repeats itself, and the turn goes on.

Small models fall into loops inside one value: a list whose items repeat, a string that says the
same again and again, brackets that open and open. The grammar takes any number of them, so the turn
would end where its tokens do, and whatever had to follow would be made up. So the tokens of calls
and answers are watched. A tail is a loop if it repeats itself and is so long that no more tokens
are left than it has taken. It is left at the place of its period where the rest of the turn is the
shortest: a list behind an item, not inside one. There, the mask lets nothing but the beginning of
that rest through, until the grammar cannot go back into the loop. The model writes what follows.

Three kinds of loops need more than that:

- One that nests, each period of which makes the rest longer, is closed as far as it was opened.
- A model that insists begins another loop where the last one was left. Once two were left without
  bringing the end nearer, the next one is left only where the rest is shorter than behind any of
  them: behind the value around it, then behind the one around that. Where few tokens are left, the
  turn ends.
- One that the grammar bounds, such as a list of `maxItems`, may take as many tokens as its bound
  needs, if the rest still fits behind it.

Repetition that brings the end of the turn nearer, such as items that a list has to have, is none.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
MOST_IN_VAIN = 2  # loops that are left without the rest becoming shorter
LAST_TOKENS = 4 * FEWEST_TOKENS  # beside the rest; with fewer, a turn that had loops ends


@dataclass(frozen=True)
class EndedValue:
    """A value that repeated itself and was therefore ended (see the option `max_repetition`).

    Args:
        where: JSON pointer into the reply, to the argument or the content with the value.
        tokens: number of tokens that the turn had at that point.
    """

    where: str
    tokens: int

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        return {"where": self.where, "tokens": self.tokens}


class Endings(Protocol):
    """Knows how texts end: a `Completer`."""

    def complete(self, text: str, room: int | None = None) -> str | TooLong | None: ...

    def find_departure(
        self, text: str, cycle: str, *, since: Sequence[int] = (), most_left: int | None = None
    ) -> str | None: ...

    def count_cycles(self, text: str, cycle: str, most: int) -> int | None: ...


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

    def measure(self, loop: Loop) -> int:
        """The tokens of the loop by now; 0: the text has left it."""
        length = self._repeated.get(loop.period, 0) + loop.period
        return length if length >= loop.length else 0


@dataclass
class _Plan:
    """A loop that is to be left.

    Args:
        loop: as it was when that was decided.
        growth: by so many characters a period makes the shortest ending longer.
        at: so many tokens of the turn come before the place to leave it.
    """

    loop: Loop
    growth: int
    at: int


@dataclass
class _Departure:
    """A loop that is being left.

    Args:
        loop: that is left.
        text: the bytes to write; none: the turn ends.
        ended: what to note once they are written.
        size: the bytes of the turn behind them.
        left: the characters of the shortest ending behind them.
        written: the bytes that are written.
        is_needed: the model would have written something else.
    """

    loop: Loop
    text: bytes
    ended: EndedValue
    size: int
    left: int
    written: bytes = b""
    is_needed: bool = False

    @property
    def is_complete(self) -> bool:
        """True if all is written; the last token may have more."""
        return bool(self.written) and self.written.startswith(self.text)


class EndlessValues(TurnPart):
    """Ends the values of one turn that would go on without end.

    The first loop may take as many tokens as are left behind it and its ending, `most` at most;
    each that was left, or let go to its bound, halves that for the next ones. A loop that takes
    more to end with each period, such as opening brackets, is left at a third of that.

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
        self._vocabulary = vocabulary
        self.most = most
        self._has_answer = has_answer
        self._ended: list[EndedValue] = []
        self._forget()

    @property
    def ended(self) -> tuple[EndedValue, ...]:
        """The values that were ended."""
        return tuple(self._ended)

    def rewind(self, count: int) -> None:
        self._forget()
        self._ended = [value for value in self._ended if value.tokens < count]

    def _forget(self) -> None:
        self._endings: Endings | None = None  # until a loop is found
        self._finder = LoopFinder()
        self._start: int | None = None  # tokens of the turn before the call or answer under way
        self._seen = 0  # tokens of the turn that the finder has, or need not have
        self._awaited: Loop | None = None  # it is not looked at before the turn
        self._patience = 0  # has so many tokens
        # Tokens of the shortest ending behind the loop under way, once it was looked at.
        self._behind: int | None = None
        self._bounded = 0  # loops that were let go to their bound
        self._plan: _Plan | None = None
        self._departure: _Departure | None = None
        self._departed: list[_Departure] = []

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        self._advance(turn)
        if self._departure is not None:
            self._depart(self._departure, logits, turn)

    def forbids(self, turn: TurnView) -> bool:
        self._advance(turn)
        return self._departure is not None

    def is_to_be_left(self, turn: TurnView) -> bool:
        """True if the turn is at the place to leave a loop. For turns whose next token nobody can
        choose here: they end there."""
        self._advance(turn)
        return self._departure is not None

    def leave(self) -> None:
        """The turn ends at that place: takes note of the value."""
        assert self._departure is not None
        self._departure.is_needed = True
        self._close(self._departure)

    def stay(self) -> None:
        """The turn cannot end at that place."""
        assert self._departure is not None
        loop = self._departure.loop
        self._departure = None
        self._wait(loop, loop.length)

    def _advance(self, turn: TurnView) -> None:
        """Reads the tokens that came since, and looks whether a loop is to be left behind them."""
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
            if self._plan is None and self._departure is None:
                self._look(turn)
        if self._plan is not None:
            self._follow(self._plan, turn)

    def prepare(self, turn: TurnView) -> None:
        self._advance(turn)

    def after_write(self, token: int) -> None:
        departure = self._departure
        if departure is None:
            return
        departure.written += self._vocabulary.tokens[token]
        if departure.is_complete:
            self._close(departure)
        elif not departure.text.startswith(departure.written):
            self._departure = None

    def _close(self, departure: _Departure) -> None:
        """Takes note of a loop that is left."""
        self._departure = None
        self._departed.append(departure)
        if departure.is_needed:
            self._ended.append(departure.ended)

    def _look(self, turn: TurnView) -> None:
        """Looks whether the turn is in a loop that is to be left."""
        if self._awaited is not None:
            if self._seen < self._patience and self._finder.measure(self._awaited):
                return
            self._awaited = None
        left = max(0, turn.limit - self._seen - (self._behind or 0))
        most = max(FEWEST_TOKENS, self._halve(min(self.most, left)))
        loop = self._finder.find(max(FEWEST_TOKENS, most // EARLY))
        if loop is None:
            self._behind = None
        elif loop.length >= most or self._behind is None:
            self._weigh(loop, loop.length >= most, turn)

    def _halve(self, most: int) -> int:
        """The bound of a loop, once for each earlier one."""
        return most >> (len(self._ended) + self._bounded)

    def _weigh(self, loop: Loop, is_long: bool, turn: TurnView) -> None:
        """Plans to leave a loop that is long, or each period of which takes more tokens to end."""
        period = loop.period
        first = self._seen - 2 * period
        texts = self._list_texts(turn, first)
        place = self._choose_place([self._complete(text) for text in texts[:period]])
        if place is None:
            self._wait(loop, loop.length)
            return
        best, before = place
        text = texts[best + period]
        behind = self._complete(text)
        if behind is None:
            self._wait(loop, loop.length)
            return
        growth = len(behind) - len(before)
        if growth < 0:
            self._wait(loop, max(period, FEWEST_TOKENS))
            return
        self._behind = len(self._vocabulary.encode(behind))
        if growth == 0:
            if not is_long:
                return
            rest = self._measure_bound(loop, text, text[len(texts[best]) :], turn)
            if rest is not None:
                self._bounded += 1
                self._wait(loop, rest)
                return
        self._plan = _Plan(loop, growth, at=first + best + 1 + period)

    def _measure_bound(self, loop: Loop, text: bytes, cycle: bytes, turn: TurnView) -> int | None:
        """The tokens after which the grammar ends a loop, if the rest of the turn surely fits
        behind these; None: it does not end it, or not in time."""
        assert self._behind is not None
        room = max(0, turn.limit - self._seen - 2 * self._behind - LAST_TOKENS)
        most = self._halve(min(self.most, loop.length + room))
        cycles = (most - loop.length) // loop.period
        if cycles < 1:
            return None
        count = self._get_endings().count_cycles(_read(text), _read(cycle), cycles)
        return None if count is None else (count + 1) * loop.period

    def _wait(self, loop: Loop, tokens: int) -> None:
        """The loop is not looked at any more before it has so many tokens more."""
        self._awaited = loop
        self._patience = self._seen + tokens

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

    def _follow(self, plan: _Plan, turn: TurnView) -> None:
        """Begins to leave a loop, once the turn is at the place for that."""
        length = self._finder.measure(plan.loop)
        if not length:
            self._plan = None  # the model has left it
            return
        while plan.at < self._seen:  # the grammar has left no choice there
            plan.at += plan.loop.period
        if plan.at > self._seen:
            return
        self._plan = None
        self._departure = self._find_departure(Loop(plan.loop.period, length), plan.growth, turn)
        if self._departure is None:
            self._wait(plan.loop, length)

    def _find_departure(self, loop: Loop, growth: int, turn: TurnView) -> _Departure | None:
        """What to write to leave a loop here; None where that is not known."""
        texts = self._list_texts(turn, self._seen - loop.period - 1)
        text = texts[-1]
        ending = self._complete(text)
        if ending is None:
            return None
        cycle = _read(text[len(texts[0]) :])
        since = [len(_read(text[: departure.size])) for departure in self._departed]
        find = partial(self._get_endings().find_departure, _read(text), cycle, since=since)
        most_left = max(0, len(ending) - growth * (loop.length // loop.period))
        tokens_left = turn.limit - self._seen - len(self._vocabulary.encode(ending))
        if self._departed and tokens_left < LAST_TOKENS:
            most_left = 0
        departure = find(most_left=most_left)
        if departure is None:
            return None
        most_left = len(ending) - len(departure)
        in_vain = [earlier.left for earlier in self._departed if earlier.left <= most_left]
        if len(in_vain) >= MOST_IN_VAIN:
            departure = find(most_left=max(0, min(in_vain) - 1))
            if departure is None:
                return None
        ended = EndedValue(turn.transcript.find_place(), self._seen)
        written = departure.encode()
        size, left = len(text) + len(written), len(ending) - len(departure)
        return _Departure(loop, written, ended, size, left)

    def _depart(self, departure: _Departure, logits: np.ndarray, turn: TurnView) -> None:
        """Forbids what does not leave the loop."""
        rest = departure.text[len(departure.written) :]
        along = self._choose(np.flatnonzero(np.isfinite(logits)).tolist(), rest, turn)
        if not along:
            self.stay()
            return
        if int(np.argmax(logits)) not in along:
            departure.is_needed = True
        kept = logits[along]
        logits[:] = -np.inf
        logits[along] = kept
        if not departure.text:  # the turn ends, and nothing is written
            self._close(departure)

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
