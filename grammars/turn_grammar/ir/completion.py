"""The shortest valid completion of a turn, for when its tokens run out."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

from grammars.limits.steps import StepsError, limit_steps
from grammars.turn_grammar.ir.chart import Chart, UnknownEndError
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.ir.lexer import Lexer
from grammars.turn_grammar.ir.shortest import MAX_SPELLED, NO_TEXT, Completion, Shortest, measure

Found = TypeVar("Found")
Accepts: TypeAlias = Callable[[str], bool]
"""Returns whether a text completes the turn."""
MAX_TRIED = 16
MAX_STEPS = 100_000
"""The limit for work that is done once per grammar: `.*a.{1000}` has too many states to search."""
PIECE_STEPS = 30_000
"""The limit for one completion. Tools and schemas take 50 to 2,500; other turns wait meanwhile."""
MAX_TURN_STEPS = 7 * PIECE_STEPS
"""The limit for all completions of one growing text."""
LOOK_STEPS = 4_000
"""How many of these steps each completion gives back."""
STEPS_PER_CHARACTER = 40
"""Extra steps for each new character of the text, and of an ending of this length: JSON takes 0.1
to 5, brackets that may begin several values 37."""


@dataclass(frozen=True)
class TooLong:
    """Every ending is longer than the available room: it has at least so many characters."""

    least: int


class _Found(NamedTuple):
    """The known endings of a text: the length of the shortest one in characters, and one that the
    grammar accepts, if it can be written out."""

    least: int
    ending: str | None


class Completer:
    """Finds the shortest completions of texts. Not thread-safe. It remembers how the last text was
    read, so a text that has grown is read from its former end. `least` is the length of the
    shortest text in characters; None: not known."""

    def __init__(self, grammar: Grammar):
        self.grammar = grammar
        self._lexer = Lexer(grammar.rules)
        self._shortest = Shortest(grammar.rules, self._lexer)
        self._chart: Chart | None = None
        self._spent = 0
        self.least: int | None = None
        with suppress(StepsError, RecursionError), limit_steps(MAX_STEPS):
            shortest = self._shortest.find(grammar.start)
            self.least = None if shortest is None else shortest.size
        # The ending of the empty text, which every turn needs first. It may take long, so the
        # decode thread should not do it.
        self._first: _Found | None = None
        with suppress(UnknownEndError, StepsError, RecursionError), limit_steps(MAX_STEPS):
            self._first = self._find("")

    def measure(self) -> int:
        """Returns the approximate bytes of the lexer's automata."""
        return self._lexer.measure()

    def fork(self) -> "Completer":
        """Returns a completer for other texts that shares the knowledge of the grammar."""
        other = copy(self)
        other._chart = None
        other._spent = 0
        return other

    def complete(
        self, text: str, room: int | None = None, accepts: Accepts | None = None
    ) -> str | TooLong | None:
        """Finds the text to write after `text` to complete the turn; "" if it may end there. A part
        of a special token counts as ordinary text, since tokens have no parts: the whole token
        follows it.

        Args:
            text: what the model has written after the prompt; the grammar has accepted it.
            room: the limit for characters of the completion; None: no limit.
            accepts: checks a completion by the grammar, in place of this class: a matcher does it
                several times as fast.

        Returns:
            None if no completion is known: a grammar that the user wrote, an expression that cannot
            be parsed, a text that the grammar does not accept, a completion of more than
            `MAX_SPELLED` characters, or one that takes too many steps. Partial results are kept
            for the next completion, up to a limit.
        """
        found = self._first
        if text or found is None:
            found = self._spend(text, lambda: self._find(text, accepts))
        elif accepts is not None and found.ending is not None and not accepts(found.ending):
            found = None
        if found is None:
            return None
        if room is not None and found.least > room:
            return TooLong(found.least)
        return found.ending

    def find_departure(
        self, text: str, cycle: str, *, since: Sequence[int] = (), max_left: int | None = None
    ) -> str | None:
        """Finds the shortest beginning of the completion that leaves a cycle: after it, the grammar
        does not allow the text to continue as before.

        Args:
            text: what the model has written so far.
            cycle: what it has written repeatedly, and would write next.
            since: offsets in the text after earlier departures; the texts from there on must not be
                possible again either.
            max_left: a limit for the characters of the completion after the departure.

        Returns:
            None if no completion is known; "" if the turn may end there.
        """
        ending = self.complete(text)
        if not isinstance(ending, str):
            return None
        fewest = 1 if max_left is None else max(1, len(ending) - max_left)
        stretches = [text[offset:] for offset in since]

        def find() -> str:
            chart = self._read(text)
            for size in range(fewest, len(ending)):
                if _departs(chart, ending[:size], cycle, stretches):
                    return ending[:size]
            return ending

        to_try = 2 * MAX_TRIED * (len(cycle) + sum(map(len, stretches)))
        return self._spend(text, find, to_try)

    def count_cycles(self, text: str, cycle: str, max_cycles: int) -> int | None:
        """Returns how many times a cycle, which the model has written repeatedly, can follow a text
        before the grammar forbids it. None: `max_cycles` times or more, or not known."""

        def count() -> int | None:
            chart = self._read(text).fork()
            for count in range(max_cycles):
                chart.grow(chart.text + cycle)
                if not chart.has_reading():
                    return count
            return None

        return self._spend(text, count, max_cycles * len(cycle))

    def _spend(self, text: str, work: Callable[[], Found | None], more: int = 0) -> Found | None:
        """Runs work on a text (and `more` further characters); None if it takes too many steps, or
        reaches a grammar that the user wrote."""
        if self._spent >= MAX_TURN_STEPS:
            return None
        known = 0 if self._chart is None else len(self._chart.text)
        max_steps = PIECE_STEPS + STEPS_PER_CHARACTER * (max(0, len(text) - known) + more)
        try:
            with limit_steps(max_steps) as account:
                found = work()
        except UnknownEndError:
            return None
        except StepsError:
            self._spent += max_steps
            if self._chart is None:  # reading failed; every retry would begin at the start
                self._spent = sys.maxsize
            return None
        assert account.left is not None
        self._spent = max(0, self._spent + max_steps - account.left - LOOK_STEPS)
        return found

    def _find(self, text: str, accepts: Accepts | None = None) -> _Found:
        chart = self._read(text)
        if accepts is None:
            accepts = partial(self._ends, chart)
        endings = sorted(chart.find_endings(self._shortest), key=measure)
        least = min((ending.size for ending in endings), default=0)
        for ending in islice(endings, MAX_TRIED):
            if ending.size > MAX_SPELLED:
                continue
            # The lexer does not end a lexeme if the next character can continue it. So it may read
            # a sequence of shortest lexemes differently.
            spelled = ending.spell()
            if accepts(spelled):
                return _Found(least, spelled)
        if endings and endings[0].size <= MAX_SPELLED:
            detour = self._find_detour(chart, endings[0].spell())
            if detour is not None and accepts(detour):
                return _Found(least, detour)
        return _Found(least, None)

    def _find_detour(self, chart: Chart, ending: str) -> str | None:
        """Finds an ending that starts with one that the lexer reads differently. Example: in two
        alternatives, `[]` is a list or raw text; the lexer reads raw text, which needs more text
        after it."""
        found: list[tuple[int, Chart, Completion]] = []
        extended = chart
        for character in ending:
            extended = _read_on(extended, character)
            if not extended.has_reading():
                break
            written = len(extended.text) - len(chart.text)
            for rest in extended.find_endings(self._shortest):
                if rest.size <= MAX_SPELLED:
                    found.append((written + rest.size, extended, rest))
        tried: set[str] = set()
        for _, extended, rest in sorted(found, key=itemgetter(0)):
            whole = extended.text + rest.spell()
            if whole not in tried and self._ends(extended, rest.spell()):
                return whole.removeprefix(chart.text)
            tried.add(whole)
            if len(tried) == MAX_TRIED:
                break
        return None

    def _read(self, text: str) -> Chart:
        """Reads a text and keeps its readings for the next call. Not if the text ends with a
        multi-byte character: the turn may end inside it, and the caller guesses the character until
        its bytes are complete."""
        settled = text if text[-1:].isascii() else text[:-1]
        if self._chart is None or not self._chart.may_grow_to(settled):
            self._chart = None  # an error would leave a half-read chart
            chart = Chart(self.grammar, self._lexer)
        else:
            chart, self._chart = self._chart, None
        chart.grow(settled)
        self._chart = chart
        if settled == text:
            return chart
        whole = chart.fork()
        if not chart.may_grow_to(text):  # a special token ends with the character
            whole = Chart(self.grammar, self._lexer)
        whole.grow(text)
        return whole

    def _ends(self, chart: Chart, more: str) -> bool:
        """Returns whether the text of the chart is a whole turn with more text."""
        whole = _read_on(chart, more)
        return NO_TEXT in whole.find_endings(self._shortest)


def _departs(chart: Chart, departure: str, cycle: str, stretches: Sequence[str]) -> bool:
    # A cycle inside a lexeme, such as a string, ends with the lexeme. The text after it may
    # look like the cycle; white space does.
    lexeme_start = chart.lexeme_start
    if lexeme_start > len(chart.text) - len(cycle):
        lexeme_start = None
    if _read_on(chart, departure + cycle * 2).has_reading(lexeme_start):
        return False
    again = [departure + stretch for stretch in stretches]
    return not any(_read_on(chart, stretch * 2).has_reading() for stretch in again)


def _read_on(chart: Chart, more: str) -> Chart:
    longer = chart.fork()
    longer.grow(chart.text + more)
    return longer
