"""The shortest legal completion of a turn, for the moment when the tokens run out."""

from copy import copy
from dataclasses import dataclass
from itertools import islice

from grammars.ir.chart import Chart, UnknownEndError
from grammars.ir.grammar import Grammar
from grammars.ir.lexer import Lexer
from grammars.ir.shortest import MOST_SPELLED, NO_TEXT, Shortest, measure
from grammars.steps import StepsError, limit_steps

MOST_TRIED = 16
MOST_STEPS = 100_000
"""Of one search."""
MOST_OF_TURN = 250_000
"""Of all searches for one turn; one that needs more is searched no further, and no ending of it is
known."""


@dataclass(frozen=True)
class TooLong:
    """Every ending is longer than the room that there is.

    Args:
        least: no ending has fewer characters.
    """

    least: int


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
        self._chart: Chart | None = None
        self._left = MOST_OF_TURN
        self.least = self._measure_shortest()

    def _measure_shortest(self) -> int | None:
        try:
            with limit_steps(MOST_STEPS):
                shortest = self._shortest.find(self.grammar.start)
        except (StepsError, RecursionError):
            return None
        return None if shortest is None else shortest.size

    def fork(self) -> "Completer":
        """A completer of other texts, which shares what is known of the grammar."""
        other = copy(self)
        other._chart = None
        other._left = MOST_OF_TURN
        return other

    def complete(self, text: str, room: int | None = None) -> str | TooLong | None:
        """What to write behind `text`, so that the turn is whole: "" if it may end there.

        Half a special token is ordinary text, since it has no half: a whole one follows.

        Args:
            text: what the model has written behind the prompt; the grammar has let it through.
            room: characters that a completion may have; None: any number.

        Returns:
            None where no completion is known: a user's own grammar, an expression that cannot be
            read, a text that the grammar does not take, a search that takes too many steps, or a
            completion that has more than `MOST_SPELLED` characters.
        """
        if self._left <= 0:
            return None
        most = min(MOST_STEPS, self._left)
        try:
            with limit_steps(most) as account:
                completion = self._complete(text, room)
        except UnknownEndError:
            return None
        except StepsError:
            self._left = 0  # the next search would begin where this one did
            self._chart = None
            return None
        self._left -= most - (account.left or 0)
        return completion

    def _complete(self, text: str, room: int | None) -> str | TooLong | None:
        chart = self._read(text)
        endings = sorted(chart.find_endings(self._shortest), key=measure)
        least = min((ending.size for ending in endings), default=0)
        if room is not None and least > room:
            return TooLong(least)
        for ending in islice(endings, MOST_TRIED):
            if ending.size > MOST_SPELLED:
                continue
            # The lexer does not end a lexeme that can go on with what follows it, so not every
            # sequence of shortest lexemes is read as such.
            spelled = ending.spell()
            if self._ends(chart, text + spelled):
                return spelled
        return None

    def _read(self, text: str) -> Chart:
        """The readings of a text."""
        if self._chart is None or not self._chart.may_grow_to(text):
            self._chart = None  # until it is read: an error leaves half a chart
            chart = Chart(self.grammar, self._lexer)
        else:
            chart, self._chart = self._chart, None
        chart.grow(text)
        self._chart = chart
        return chart

    def _ends(self, chart: Chart, text: str) -> bool:
        """May the turn be this text, which begins as that of the chart does?"""
        whole = chart.fork()
        whole.grow(text)
        return NO_TEXT in whole.find_endings(self._shortest)
