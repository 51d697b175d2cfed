"""The shortest legal completion of a turn, for the moment when the tokens run out."""

import sys
from copy import copy
from itertools import islice

from grammars.ir.chart import Chart, UnknownEndError
from grammars.ir.grammar import Grammar
from grammars.ir.lexer import Lexer
from grammars.ir.shortest import NO_TEXT, Shortest, measure
from grammars.regex.effort import ExhaustedError, SearchEffort, limit_effort

MOST_TRIED = 16
MOST_STEPS = 20_000
"""For one completion: `.*a.{1000}` has more states than anybody can search."""
MOST_TURN_STEPS = 10 * MOST_STEPS
"""For all completions of one text that grows."""
LOOK_STEPS = 4_000
"""What each completion gives back of them: of tools and schemas one takes 50 to 2,500."""
STEPS_PER_CHARACTER = 100
"""On top, to read the text."""


class Completer:
    """Finds the shortest completions of texts. Not for two threads at once.

    What was read of a text is kept: a text that has grown is read from where it ended.

    Args:
        grammar: what holds the texts.
    """

    def __init__(self, grammar: Grammar):
        self.grammar = grammar
        self._lexer = Lexer(grammar.rules)
        self._shortest = Shortest(grammar.rules, self._lexer)
        self._chart: Chart | None = None
        self._spent = 0

    def fork(self) -> "Completer":
        """A completer of other texts, which shares what is known of the grammar."""
        other = copy(self)
        other._chart = None
        other._spent = 0
        return other

    def complete(self, text: str) -> str | None:
        """What to write behind `text`, so that the turn is whole: "" if it may end there.

        Half a special token is ordinary text, since it has no half: a whole one follows.

        Args:
            text: what the model has written behind the prompt; the grammar has let it through.

        Returns:
            None where no completion is known: a user's own grammar, an expression that cannot be
            read, a text that the grammar does not take, or one whose end takes too many steps to
            find; behind that, none is looked for any more.
        """
        to_read = STEPS_PER_CHARACTER * len(text)
        most = min(MOST_STEPS, MOST_TURN_STEPS - self._spent) + to_read
        if most < 0:
            return None
        effort = SearchEffort(most)
        try:
            with limit_effort(effort):
                ending = self._complete(text)
        except ExhaustedError:
            self._spent = sys.maxsize
            return None
        self._spent = max(0, self._spent + most - effort.left - LOOK_STEPS)
        return ending

    def _complete(self, text: str) -> str | None:
        try:
            chart = self._read(text)
            endings = sorted(chart.find_endings(self._shortest), key=measure)
        except UnknownEndError:
            return None
        for ending in islice(endings, MOST_TRIED):
            # The lexer does not end a lexeme that can go on with what follows it, so not every
            # sequence of shortest lexemes is read as such.
            if self._ends(chart, text + ending.text):
                return ending.text
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
