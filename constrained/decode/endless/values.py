"""Endless values: ends a value of a call or an answer that repeats itself; the turn then continues.

Small models fall into loops inside one value: a list whose items repeat, a string that repeats the
same words, brackets that only open. The grammar allows any number of repetitions, so the turn would
continue until its tokens run out, and the rest of it would be made up. So the tokens of calls and
answers are watched. The end of the text is a loop if it repeats itself and has taken at least as
many tokens as are left. The loop is left at the point of its period after which the rest of the
turn is shortest: in a list, that is after an item, not inside one. At this point the mask allows
only the start of that rest, until the grammar cannot return into the loop. From there on, the model
is free again.

Three kinds of loops need more:

- In a nested loop, each period makes the rest longer. All that it has opened is closed.
- A model may begin another loop where it left the last one. After two loops that brought the end no
  nearer, the next one is left only where the rest is shorter than after any of them: after the
  enclosing value, then after the one that encloses that. If few tokens are left, the turn ends.
- A loop that the grammar limits, such as a list with `maxItems`, may continue up to its limit, if
  the rest of the turn still fits after that.

Repetition that brings the end of the turn nearer, such as items that a list needs, is not a loop.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from constrained.decode.turn_part import TurnPart, TurnView
from constrained.engine.vocabulary.vocabulary import Vocabulary, ends_inside
from grammars.schema.json_values import Json
from grammars.turn_grammar.ir.completion import Completer, TooLong

EARLY = 3  # a loop that may need more and more tokens to end is examined at this part of its bound
MAX_FUTILE_LOOPS = 2  # loops after which the rest was not shorter
LONGEST_PERIOD = 64  # tokens
FEWEST_PERIODS = 3
FEWEST_TOKENS = 16  # of a loop, however few are left
LAST_TOKENS = 4 * FEWEST_TOKENS  # besides the rest; with fewer, a turn that had loops ends


@dataclass(frozen=True)
class Loop:
    """The repetition at the end of a text."""

    period: int
    length: int


class LoopFinder:
    """Finds the repetition at the end of a growing text, for all periods up to the longest.

    The cost of a token is the number of equal tokens within the longest period.
    """

    def __init__(self, longest: int = LONGEST_PERIOD):
        self._longest = longest
        self._size = 0  # of the text, in tokens
        self._places: dict[int, deque[int]] = {}  # of each token, the last ones
        # By period, the longest first: how many of the last tokens equal those one period earlier.
        self._repeated: dict[int, int] = {}

    def add(self, token: int) -> None:
        """Adds a token to the text."""
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
        """The loop with the shortest period; None: there is none."""
        for period, repeated in reversed(self._repeated.items()):
            length = period + repeated
            if length >= fewest and length >= FEWEST_PERIODS * period:
                return Loop(period, length)
        return None

    def measure(self, loop: Loop) -> int:
        """The current length of the loop, in tokens; 0: the text has left it."""
        length = self._repeated.get(loop.period, 0) + loop.period
        return length if length >= loop.length else 0


@dataclass(frozen=True)
class EndedValue:
    """A value, or content, that repeated itself and was therefore ended (see the option
    `max_repetition`).

    Args:
        where: JSON pointer into the reply, to the argument or the content with the value.
        tokens: number of tokens that the turn had at that point.
    """

    where: str
    tokens: int

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        return {"where": self.where, "tokens": self.tokens}


@dataclass
class _Plan:
    """A plan to leave a loop.

    Args:
        growth: how many characters one period adds to the shortest ending.
        at: where to leave it: the number of tokens of the turn before that point.
    """

    loop: Loop
    growth: int
    at: int


@dataclass
class _Departure:
    """A loop that is being left.

    Args:
        loop: the loop.
        text: the bytes to write; b"": the turn ends.
        size: the size of the turn after these bytes, in bytes.
        left: the length of the shortest ending after these bytes, in characters.
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
        """True if all bytes are written; the last token may have more."""
        return bool(self.written) and self.written.startswith(self.text)


class EndlessValues(TurnPart):
    """Ends the values of one turn that repeat themselves.

    The first loop may take as many tokens as are left after it and its ending, but not more than
    `max_tokens`. Each loop that was left, or allowed up to its limit, halves this number for the
    next. A loop whose ending grows with each period, such as opening brackets, is left at a third
    of it.

    Args:
        has_answer: the content of the turn is a typed answer.
    """

    name = "endless values"

    def __init__(
        self,
        make_completer: Callable[[], Completer],
        vocabulary: Vocabulary,
        *,
        max_tokens: int,
        has_answer: bool,
    ):
        self._make_completer = make_completer
        self._vocabulary = vocabulary
        self.max_tokens = max_tokens
        self._has_answer = has_answer
        self._ended: list[EndedValue] = []
        self._forget()

    def report(self) -> Mapping[str, tuple[object, ...]]:
        return {"ended_values": tuple(self._ended)}

    def rewind(self, count: int) -> None:
        self._forget()
        self._ended = [value for value in self._ended if value.tokens < count]

    def _forget(self) -> None:
        self._completer: Completer | None = None  # until a loop is found
        self._finder = LoopFinder()
        self._start: int | None = None  # tokens of the turn before the call or answer under way
        self._seen = 0  # tokens of the turn that the finder has, or need not have
        self._awaited: Loop | None = None  # it is not looked at before the turn
        self._patience = 0  # has so many tokens
        # Tokens of the shortest ending after the loop under way, once it was looked at.
        self._after: int | None = None
        self._bounded = 0  # loops that were let go to their bound
        self._plan: _Plan | None = None
        self._departure: _Departure | None = None
        self._departed: list[_Departure] = []

    def forbids(self, turn: TurnView) -> bool:
        self._advance(turn)
        return self._departure is not None

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        if self._departure is not None:
            self._depart(self._departure, logits, turn)

    def leave(self) -> None:
        """Notes that the turn ends at that point, and its value with it."""
        assert self._departure is not None
        self._departure.is_needed = True
        self._close(self._departure)

    def stay(self) -> None:
        """Notes that the turn cannot end at that point."""
        assert self._departure is not None
        loop = self._departure.loop
        self._departure = None
        self._wait(loop, loop.length)

    def _advance(self, turn: TurnView) -> None:
        """Reads the new tokens, and checks whether a loop has to be left after them."""
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

    def after_take(self, token: int, turn: TurnView, *, is_forced: bool, is_computed: bool) -> None:
        departure = self._departure
        if departure is None:
            return
        departure.written += self._vocabulary.tokens[token]
        if departure.is_complete:
            self._close(departure)
        elif not departure.text.startswith(departure.written):
            self._departure = None

    def _close(self, departure: _Departure) -> None:
        self._departure = None
        self._departed.append(departure)
        if departure.is_needed:
            self._ended.append(departure.ended)

    def _look(self, turn: TurnView) -> None:
        if self._awaited is not None:
            if self._seen < self._patience and self._finder.measure(self._awaited):
                return
            self._awaited = None
        left = max(0, turn.limit - self._seen - (self._after or 0))
        max_tokens = max(FEWEST_TOKENS, self._halve(min(self.max_tokens, left)))
        loop = self._finder.find(max(FEWEST_TOKENS, max_tokens // EARLY))
        if loop is None:
            self._after = None
        elif loop.length >= max_tokens or self._after is None:
            self._weigh(loop, loop.length >= max_tokens, turn)

    def _halve(self, max_tokens: int) -> int:
        return max_tokens >> (len(self._ended) + self._bounded)

    def _weigh(self, loop: Loop, is_long: bool, turn: TurnView) -> None:
        """Plans to leave a loop that is too long, or whose ending grows with each period."""
        period = loop.period
        first = self._seen - 2 * period
        texts = _list_texts(turn, first, self._seen)
        place = _choose_place([self._complete(text) for text in texts[:period]])
        if place is None:
            self._wait(loop, loop.length)
            return
        best, before = place
        text = texts[best + period]
        after = self._complete(text)
        if after is None:
            self._wait(loop, loop.length)
            return
        growth = len(after) - len(before)
        if growth < 0:
            self._wait(loop, max(period, FEWEST_TOKENS))
            return
        self._after = len(self._vocabulary.encode(after))
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
        """After how many tokens the grammar ends a loop, if the rest of the turn surely fits after
        that; None: the grammar does not end it, or not in time."""
        assert self._after is not None
        room = max(0, turn.limit - self._seen - 2 * self._after - LAST_TOKENS)
        max_tokens = self._halve(min(self.max_tokens, loop.length + room))
        cycles = (max_tokens - loop.length) // loop.period
        if cycles < 1:
            return None
        count = self._get_completer().count_cycles(_read(text), _read(cycle), cycles)
        return None if count is None else (count + 1) * loop.period

    def _wait(self, loop: Loop, tokens: int) -> None:
        """Does not examine the loop again before it has this many more tokens."""
        self._awaited = loop
        self._patience = self._seen + tokens

    def _complete(self, text: bytes) -> str | None:
        """The shortest ending of a text; None: none is known, or a character is incomplete."""
        if ends_inside(text):
            return None
        ending = self._get_completer().complete(_read(text))
        return None if isinstance(ending, TooLong) else ending

    def _get_completer(self) -> Completer:
        if self._completer is None:
            self._completer = self._make_completer()
        return self._completer

    def _follow(self, plan: _Plan, turn: TurnView) -> None:
        """Begins to leave a loop, once the turn is at the point for that."""
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
        texts = _list_texts(turn, self._seen - loop.period - 1, self._seen)
        text = texts[-1]
        ending = self._complete(text)
        if ending is None:
            return None
        cycle = _read(text[len(texts[0]) :])
        since = [len(_read(text[: departure.size])) for departure in self._departed]
        find = partial(self._get_completer().find_departure, _read(text), cycle, since=since)
        max_left = max(0, len(ending) - growth * (loop.length // loop.period))
        tokens_left = turn.limit - self._seen - len(self._vocabulary.encode(ending))
        if self._departed and tokens_left < LAST_TOKENS:
            max_left = 0
        departure = find(max_left=max_left)
        if departure is None:
            return None
        max_left = len(ending) - len(departure)
        in_vain = [earlier.left for earlier in self._departed if earlier.left <= max_left]
        if len(in_vain) >= MAX_FUTILE_LOOPS:
            departure = find(max_left=max(0, min(in_vain) - 1))
            if departure is None:
                return None
        ended = EndedValue(turn.transcript.find_place(), self._seen)
        written = departure.encode()
        size, left = len(text) + len(written), len(ending) - len(departure)
        return _Departure(loop, written, ended, size, left)

    def _depart(self, departure: _Departure, logits: np.ndarray, turn: TurnView) -> None:
        rest = departure.text[len(departure.written) :]
        along = _choose_leaving(np.flatnonzero(np.isfinite(logits)).tolist(), rest, turn)
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


def _read(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _choose_place(endings: Sequence[str | None]) -> tuple[int, str] | None:
    """The position in the period after which the rest of the turn is shortest, and that rest.
    Of several, the one after which the rest becomes longer: there, an item is complete."""
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


def _list_texts(turn: TurnView, first: int, end: int) -> list[bytes]:
    """The text of the turn after each of these tokens."""
    assert turn.matcher is not None
    so_far = turn.transcript
    whole = so_far.measure(turn.matcher).text
    size = len(whole) - len(turn.vocabulary.text(so_far.tokens[first:]))
    texts: list[bytes] = []
    for token in so_far.tokens[first:end]:
        size += len(turn.vocabulary.tokens[token])
        texts.append(whole[:size])
    return texts


def _choose_leaving(allowed: Sequence[int], rest: bytes, turn: TurnView) -> list[int]:
    """The allowed tokens that spell these bytes; only special tokens, if there are any."""
    if not rest:
        ends = turn.vocabulary.end if turn.matcher is None else turn.matcher.end_tokens
        return [token for token in allowed if token in ends]
    special: list[int] = []
    ordinary: list[int] = []
    for token in allowed:
        text = turn.vocabulary.tokens[token]
        if token in turn.vocabulary.structural:
            if text and rest.startswith(text):
                special.append(token)
        elif text and (rest.startswith(text) or text.startswith(rest)):
            ordinary.append(token)
    return special or ordinary
