"""The shortest legal completion of a turn, for the moment when the tokens run out."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from grammars.ir.chart import Chart, UnknownEndError
from grammars.ir.grammar import Grammar
from grammars.ir.lexer import Lexer
from grammars.ir.shortest import MAX_SPELLED, NO_TEXT, Completion, Shortest, measure
from grammars.ir.word_choice import WordChoices
from grammars.steps import StepsError, limit_steps

Found = TypeVar("Found")
MAX_TRIED = 16
MAX_STEPS = 100_000
"""For what is found once: `.*a.{1000}` has more states than anybody can search."""
PIECE_STEPS = 30_000
"""For one completion: of tools and schemas it takes 50 to 2,500. Others wait meanwhile."""
MAX_TURN_STEPS = 7 * PIECE_STEPS
"""For all completions of one text that grows."""
LOOK_STEPS = 4_000
"""What each completion gives back of them."""
STEPS_PER_CHARACTER = 40
"""On top, to read what is new of the text, and an ending as long: JSON takes 0.1 to 5, brackets
that open side by side 37."""


@dataclass(frozen=True)
class TooLong:
    """Every ending is longer than the room that there is.

    Args:
        least: no ending has fewer characters.
    """

    least: int


class _Found(NamedTuple):
    """What is known of the endings of a text: the characters of the shortest one, and one that the
    grammar takes, if it can be written out."""

    least: int
    ending: str | None


class Completer:
    """Finds the shortest completions of texts. Not for two threads at once.

    What was read of a text is kept: a text that has grown is read from where it ended.

    Args:
        grammar: what holds the texts.

    Attributes:
        least: the characters of the shortest text; None where that is not known.
    """

    def __init__(self, grammar: Grammar):
        self.grammar = grammar
        self._lexer = Lexer(grammar.rules)
        self._shortest = Shortest(grammar.rules, self._lexer)
        self._choices = WordChoices(grammar.start, grammar.rules)
        self._chart: Chart | None = None
        self._spent = 0
        self.least = self._measure_shortest()
        self._prepare_choices()
        self._first = self._find_first()

    def _measure_shortest(self) -> int | None:
        try:
            with limit_steps(MAX_STEPS):
                shortest = self._shortest.find(self.grammar.start)
        except (StepsError, RecursionError):
            return None
        return None if shortest is None else shortest.size

    def _prepare_choices(self) -> None:
        """Does beforehand what would else be done at the first look of a turn."""
        with suppress(StepsError, RecursionError), limit_steps(MAX_STEPS):
            self._choices.prepare(self._shortest)

    def _find_first(self) -> _Found | None:
        """What every turn asks first, also where it takes long: whoever shares the thread of the
        turns does not wait for it."""
        try:
            with limit_steps(MAX_STEPS):
                return self._find("")
        except (UnknownEndError, StepsError, RecursionError):
            return None

    def measure(self) -> int:
        """The bytes of what its lexer has learnt, about."""
        return self._lexer.measure()

    def fork(self) -> "Completer":
        """A completer of other texts, which shares what is known of the grammar."""
        other = copy(self)
        other._chart = None
        other._spent = 0
        return other

    def complete(self, text: str, room: int | None = None) -> str | TooLong | None:
        """What to write behind `text`, so that the turn is whole: "" if it may end there.

        Half a special token is ordinary text, since it has no half: a whole one follows.

        Args:
            text: what the model has written behind the prompt; the grammar has let it through.
            room: characters that a completion may have; None: any number.

        Returns:
            None where no completion is known: a user's own grammar, an expression that cannot be
            read, a text that the grammar does not take, a completion of more than `MAX_SPELLED`
            characters, or one that takes too many steps to find. What was found out until then is
            kept, so that the next completion may get further; but not for ever.
        """
        found = self._first
        if text or found is None:
            found = self._spend(text, lambda: self._find(text))
        if found is None:
            return None
        if room is not None and found.least > room:
            return TooLong(found.least)
        return found.ending

    def find_departure(
        self, text: str, cycle: str, *, since: Sequence[int] = (), max_left: int | None = None
    ) -> str | None:
        """The first characters of the shortest completion, as far as it takes to leave a cycle:
        behind them, the grammar does not let the text go on as it did.

        Args:
            text: what the model has written so far.
            cycle: what it has written again and again, and would write next.
            since: offsets in the text behind earlier departures: what was written from each of them
                on cannot come once more either.
            max_left: of the completion, so many characters are left behind them, at most.

        Returns:
            None where no completion is known. "" where the turn may end there.
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
        """How many times a cycle can follow a text, if the grammar ends it.

        Args:
            text: what the model has written so far.
            cycle: what it has written again and again, and would write next.
            max_cycles: so many times are tried.

        Returns:
            None where it can follow as often as that, or nobody knows.
        """
        to_read = max_cycles * len(cycle)
        return self._spend(text, lambda: self._count_cycles(text, cycle, max_cycles), to_read)

    def _spend(self, text: str, work: Callable[[], Found | None], more: int = 0) -> Found | None:
        """Does some work on a text, and on so many characters more; None where it takes too many
        steps, or meets a grammar of the user's own."""
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
            if self._chart is None:  # not even read: it would be read from its start each time
                self._spent = sys.maxsize
            return None
        assert account.left is not None
        self._spent = max(0, self._spent + max_steps - account.left - LOOK_STEPS)
        return found

    def _count_cycles(self, text: str, cycle: str, max_cycles: int) -> int | None:
        chart = self._read(text).fork()
        for count in range(max_cycles):
            chart.grow(chart.text + cycle)
            if not chart.goes_on():
                return count
        return None

    def _find(self, text: str) -> _Found:
        chart = self._read(text)
        endings = sorted(chart.find_endings(self._shortest), key=measure)
        least = min((ending.size for ending in endings), default=0)
        for ending in islice(endings, MAX_TRIED):
            if ending.size > MAX_SPELLED:
                continue
            # The lexer does not end a lexeme that can go on with what follows it, so not every
            # sequence of shortest lexemes is read as such.
            spelled = ending.spell()
            if self._ends(chart, text + spelled):
                return _Found(least, spelled)
        if endings and endings[0].size <= MAX_SPELLED:
            return _Found(least, self._find_detour(chart, endings[0].spell()))
        return _Found(least, None)

    def _find_detour(self, chart: Chart, ending: str) -> str | None:
        """An ending that begins as one which the lexer reads otherwise: `[]` may be a list in one
        of two alternatives and raw text in the other, and is the latter then, behind which more has
        to come."""
        found: list[tuple[int, Chart, Completion]] = []
        extended = chart
        for character in ending:
            extended = _read_on(extended, character)
            if not extended.goes_on():
                break
            written = len(extended.text) - len(chart.text)
            for rest in extended.find_endings(self._shortest):
                if rest.size <= MAX_SPELLED:
                    found.append((written + rest.size, extended, rest))
        tried: set[str] = set()
        for _, extended, rest in sorted(found, key=itemgetter(0)):
            whole = extended.text + rest.spell()
            if whole not in tried and self._ends(extended, whole):
                return whole.removeprefix(chart.text)
            tried.add(whole)
            if len(tried) == MAX_TRIED:
                break
        return None

    def _read(self, text: str) -> Chart:
        """The readings of a text; they are kept for the next one, but not those of a last character
        of several bytes: of a turn that ends inside of one, the caller knows only the first bytes,
        and shows another character each time."""
        settled = text if text[-1:].isascii() else text[:-1]
        if self._chart is None or not self._chart.may_grow_to(settled):
            self._chart = None  # until it is read: an error leaves half a chart
            chart = Chart(self.grammar, self._lexer, self._choices)
        else:
            chart, self._chart = self._chart, None
        chart.grow(settled)
        self._chart = chart
        if settled == text:
            return chart
        whole = chart.fork()
        whole.grow(text)
        return whole

    def _ends(self, chart: Chart, text: str) -> bool:
        """May the turn be this text, which begins as that of the chart does?"""
        whole = _read_on(chart, text.removeprefix(chart.text))
        return NO_TEXT in whole.find_endings(self._shortest)


def _departs(chart: Chart, departure: str, cycle: str, stretches: Sequence[str]) -> bool:
    """True if behind a departure neither the cycle can follow, nor one of the stretches."""
    # A cycle inside of one lexeme, such as a string, is over where that is. What follows may
    # look like the cycle, and white space does.
    lexeme_start = chart.lexeme_start
    if lexeme_start > len(chart.text) - len(cycle):
        lexeme_start = None
    if _read_on(chart, departure + cycle * 2).goes_on(lexeme_start):
        return False
    again = [departure + stretch for stretch in stretches]
    return not any(_read_on(chart, stretch * 2).goes_on() for stretch in again)


def _read_on(chart: Chart, more: str) -> Chart:
    """A chart of its text and more."""
    longer = chart.fork()
    longer.grow(chart.text + more)
    return longer
